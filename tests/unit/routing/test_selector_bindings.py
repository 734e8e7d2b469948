"""Bindings with a selector, on every type of exchange (S1-16)."""

from __future__ import annotations

import pytest

from leveret.delivery.selector import selectable
from leveret.errors import PreconditionFailed
from leveret.routing.bindings import Binding, Destination
from leveret.routing.exchange import Exchange
from leveret.routing.router import Routed, route
from leveret.routing.types import EXCHANGE_TYPES
from leveret.wire.properties import Properties
from tests.support.exchanges import make_exchange

Q1, Q2, Q3 = (Destination("queue", name) for name in ("q1", "q2", "q3"))
RED, BLUE = selectable(Properties(headers={"colour": "red"})), selectable(Properties(headers={"colour": "blue"}))
KEY = {"x-consistent-hash": "1", "x-local-random": ""}


def binding(exchange: Exchange, destination: Destination, colour: str | None = None, **more: object) -> Binding:
    arguments = dict(more) if colour is None else {"x-selector": f"colour = '{colour}'", **more}
    made = Binding(exchange.name, destination, KEY.get(exchange.kind, "k"), arguments)
    exchange.validate_binding(made)
    exchange.bind(made)
    return made


def reached(exchange: Exchange, headers: dict[str, object], key: str = "k") -> list[Destination]:
    return list(exchange.destinations(key, headers))


@pytest.fixture(params=list(EXCHANGE_TYPES))
def exchange(request: pytest.FixtureRequest) -> Exchange:
    return make_exchange(request.param, "x")


@pytest.mark.feature("S1-16")
def test_binding_takes_only_what_its_selector_selects(exchange: Exchange) -> None:
    binding(exchange, Q1, "red")
    assert reached(exchange, RED) == [Q1]
    assert reached(exchange, BLUE) == []
    assert reached(exchange, {}) == []


def test_selector_may_ask_for_properties(exchange: Exchange) -> None:
    key = KEY.get(exchange.kind, "k")
    exchange.bind(Binding("x", Q1, key, {"x-selector": "JMSPriority > 4"}))
    assert reached(exchange, selectable(Properties(priority=5))) == [Q1]
    assert reached(exchange, selectable(Properties())) == []


def test_destination_that_a_plain_binding_reaches_is_reached_anyway(exchange: Exchange) -> None:
    binding(exchange, Q1, "red")
    binding(exchange, Q1)
    assert set(reached(exchange, RED)) == {Q1}
    assert set(reached(exchange, BLUE)) == {Q1}


def test_either_of_two_selectors_is_enough(exchange: Exchange) -> None:
    red = binding(exchange, Q1, "red")
    binding(exchange, Q1, "blue")
    assert set(reached(exchange, RED)) == set(reached(exchange, BLUE)) == {Q1}
    exchange.unbind(red)
    assert reached(exchange, RED) == []
    assert reached(exchange, BLUE) == [Q1]


def test_route_is_not_to_be_remembered_while_there_is_a_selector(exchange: Exchange) -> None:
    anyway = exchange.looks_at_headers
    plain, red, blue = binding(exchange, Q1), binding(exchange, Q2, "red"), binding(exchange, Q3, "blue")
    assert exchange.looks_at_headers
    exchange.unbind(red)
    exchange.unbind(plain)
    assert exchange.looks_at_headers
    exchange.unbind(blue)
    assert exchange.looks_at_headers is anyway
    assert reached(exchange, RED) == []


def test_rebinding_begins_anew(exchange: Exchange) -> None:
    exchange.unbind(binding(exchange, Q1, "red"))
    binding(exchange, Q1, "blue")
    assert reached(exchange, RED) == []
    assert reached(exchange, BLUE) == [Q1]


def test_bad_selector_is_refused_before_anything_changes(exchange: Exchange) -> None:
    wrong = Binding("x", Q1, KEY.get(exchange.kind, "k"), {"x-selector": "colour ="})
    with pytest.raises(PreconditionFailed, match=r"invalid arg 'x-selector': expected .* at position 9"):
        exchange.validate_binding(wrong)
    assert reached(exchange, RED) == []


def test_blank_selector_is_none(exchange: Exchange) -> None:
    anyway = exchange.looks_at_headers
    exchange.bind(Binding("x", Q1, KEY.get(exchange.kind, "k"), {"x-selector": ""}))
    assert reached(exchange, BLUE) == [Q1]
    assert exchange.looks_at_headers is anyway


# ---- the types that match


@pytest.mark.parametrize(
    ("kind", "pattern", "taken", "left"), [("direct", "a", "a", "b"), ("topic", "a.#", "a.b.c", "b.a")]
)
def test_key_counts_as_well(kind: str, pattern: str, taken: str, left: str) -> None:
    exchange = make_exchange(kind, "x")
    exchange.bind(Binding("x", Q1, pattern, {"x-selector": "colour = 'red'"}))
    assert reached(exchange, RED, taken) == [Q1]
    assert reached(exchange, RED, left) == []


@pytest.mark.parametrize("how", ["all", "any", "all-with-x", "any-with-x"])
def test_headers_exchange_does_not_take_the_selector_for_a_header(how: str) -> None:
    exchange = make_exchange("headers", "x")
    binding(exchange, Q1, "red", **{"x-match": how, "size": 1})
    assert reached(exchange, selectable(Properties(headers={"colour": "red", "size": 1}))) == [Q1]
    assert reached(exchange, selectable(Properties(headers={"colour": "blue", "size": 1}))) == []
    assert reached(exchange, selectable(Properties(headers={"colour": "red", "size": 2}))) == []


def test_headers_exchange_does_not_take_a_property_for_a_header() -> None:
    exchange = make_exchange("headers", "x")
    exchange.bind(Binding("x", Q1, "", {"JMSPriority": 5}))
    assert reached(exchange, selectable(Properties(priority=5))) == []


def test_only_selectors_under_the_key_are_asked() -> None:
    exchange = make_exchange("direct", "x")
    for number in range(5):
        exchange.bind(Binding("x", Q1, str(number), {"x-selector": f"n{number} = 1"}))
    asked: list[str] = []

    class Listening(dict[str, object]):
        def __missing__(self, name: str) -> object:
            asked.append(name)
            return 1

    assert reached(exchange, Listening(), "3") == [Q1]
    assert asked == ["n3"]


def test_implicit_bindings_stay_beside_selectors() -> None:
    exchange = make_exchange("direct", "x", arguments={"x-implicit-bindings": True})
    exchange.bind(Binding("x", Q2, "1", {"x-selector": "colour = 'red'"}))
    assert reached(exchange, RED, "1") == [Destination("queue", "1"), Q2]
    assert reached(exchange, BLUE, "1") == [Destination("queue", "1")]


# ---- the types that choose


@pytest.mark.parametrize("kind", ["x-modulus-hash", "x-consistent-hash", "x-random", "x-local-random"])
@pytest.mark.feature("S2-05")
def test_one_destination_is_chosen_among_those_that_are_selected(kind: str) -> None:
    """At most one, also with selectors."""
    exchange = make_exchange(kind, "x")
    binding(exchange, Q1, "red")
    binding(exchange, Q2, "blue")
    binding(exchange, Q3)
    seen = {tuple(reached(exchange, RED, str(number))) for number in range(100)}
    assert seen == {(Q1,), (Q3,)}
    assert {tuple(reached(exchange, {}, str(number))) for number in range(20)} == {(Q3,)}


def test_consistent_hash_moves_only_what_the_selected_one_wins() -> None:
    exchange = make_exchange("x-consistent-hash", "x")
    for stop in (Q1, Q2):
        binding(exchange, stop)
    binding(exchange, Q3, "red")
    pairs = [(reached(exchange, BLUE, str(n)), reached(exchange, RED, str(n))) for n in range(300)]
    assert all(now in (before, [Q3]) for before, now in pairs)
    assert any(now == [Q3] for _, now in pairs)


# ---- the walk


@pytest.mark.feature("S1-16")
def test_binding_between_exchanges_may_have_a_selector() -> None:
    exchanges = {name: make_exchange("fanout", name) for name in ("x", "y")}
    exchanges["x"].bind(Binding("x", Destination("exchange", "y"), "", {"x-selector": "colour = 'red'"}))
    exchanges["y"].bind(Binding("y", Q1, ""))
    assert route(exchanges["x"], ["k"], RED, exchanges.get) == Routed(["q1"], False)
    assert route(exchanges["x"], ["k"], BLUE, exchanges.get) == Routed([], False)


def test_what_no_selector_takes_goes_to_the_alternate_exchange() -> None:
    exchanges = {
        "x": make_exchange("direct", "x", arguments={"alternate-exchange": "y"}),
        "y": make_exchange("fanout", "y"),
    }
    exchanges["x"].bind(Binding("x", Q1, "k", {"x-selector": "colour = 'red'"}))
    exchanges["y"].bind(Binding("y", Q2, ""))
    assert route(exchanges["x"], ["k"], RED, exchanges.get).queues == ["q1"]
    assert route(exchanges["x"], ["k"], BLUE, exchanges.get).queues == ["q2"]
