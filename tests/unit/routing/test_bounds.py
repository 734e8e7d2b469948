from __future__ import annotations

import pytest

from leveret.errors import PreconditionFailed
from leveret.routing.bindings import Binding, Bindings, Destination
from leveret.routing.bounds import STEPS, TICK_STEPS, Bounds, RoutingRefused, RoutingWork
from leveret.routing.exchange import Exchange
from leveret.routing.router import route
from tests.support.exchanges import make_exchange

Q = Destination("queue", "q")


def bound(exchange: Exchange, number: int, pattern: str) -> Exchange:
    """Distinct destinations and keys, as of users who have many bindings."""
    for each in range(number):
        exchange.bind(Binding(exchange.name, Destination("queue", f"q{each}"), pattern.format(each)))
    return exchange


def steps_of(exchange: Exchange, key: str, headers: dict[str, object] | None = None) -> int:
    work = RoutingWork()
    route(exchange, [key], headers or {}, {}.get, None, work)
    return work.spent


@pytest.mark.parametrize(
    ("kind", "pattern", "key"),
    [
        ("direct", "k{}", "k7"),
        ("fanout", "", "k"),
        ("topic", "orders.{}.created", "orders.7.created"),
        ("topic", "orders.{}.#", "orders.7.eu.created"),
        ("topic", "*.{}.*", "orders.7.created"),
        ("topic", "#.{}.#", "orders.7.created"),
        ("topic", "#.error.{}", "a.b.c.error.7"),
        ("topic", "#", "orders.7.created"),
        ("x-modulus-hash", "", "k"),
    ],
)
def test_a_hundred_thousand_bindings_stay_within_the_bound(kind: str, pattern: str, key: str) -> None:
    assert steps_of(bound(make_exchange(kind, "x"), 100_000, pattern), key) < STEPS


def test_usual_messages_cost_a_small_part_of_a_tick() -> None:
    assert steps_of(bound(make_exchange("topic", "x"), 1_000, "a.{}.*"), "a.7.b") < TICK_STEPS / 200


def test_steps_add_up_over_exchanges_and_keys() -> None:
    exchanges = {name: bound(make_exchange("fanout", name), 100, "") for name in "abc"}
    exchanges["a"].bind(Binding("a", Destination("exchange", "b"), ""))
    exchanges["b"].bind(Binding("b", Destination("exchange", "c"), ""))
    work = RoutingWork(550)
    with pytest.raises(RoutingRefused, match=r"exchange 'a'.* more than 550 routing steps"):
        route(exchanges["a"], ["k"], {}, exchanges.get, None, work)
    assert work.refused == 1
    topic = bound(make_exchange("topic", "t"), 1, "#")
    with pytest.raises(RoutingRefused):
        route(topic, [str(number) for number in range(10)], {}, {}.get, None, RoutingWork(900))


@pytest.mark.parametrize(("hashes", "is_refused"), [(16, False), (17, True)])
def test_hashes_of_a_pattern_are_counted_after_collapsing(hashes: int, is_refused: bool) -> None:
    pattern = ".a.".join(["#.#.#"] * hashes)
    refuses = Bounds().refuse
    for kind in ("topic", "x-delayed-message"):
        exchange = make_exchange(kind, "x", arguments={"x-delayed-type": "topic"})
        binding = Binding("x", Q, pattern)
        if is_refused:
            with pytest.raises(PreconditionFailed, match="17 times '#', expected at most 16"):
                refuses(binding, exchange, Bindings())
        else:
            refuses(binding, exchange, Bindings())
