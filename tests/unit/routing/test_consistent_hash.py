"""Consistent hash exchanges (S2-10)."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pytest

from leveret.delivery.selector import selectable
from leveret.errors import PreconditionFailed
from leveret.routing.bindings import Binding, Destination
from leveret.routing.consistent_hash import ConsistentHashExchange
from leveret.routing.router import route
from leveret.wire.properties import Properties

KEYS = [f"key-{number}" for number in range(2_000)]


def bound(arguments: dict[str, object] | None = None, **weights: str) -> ConsistentHashExchange:
    exchange = ConsistentHashExchange("x", arguments=arguments)
    for name, weight in weights.items():
        exchange.bind(Binding("x", Destination("queue", name), weight))
    return exchange


def choice(exchange: ConsistentHashExchange, key: str = "", properties: Properties | None = None) -> str:
    (one,) = exchange.destinations(key, selectable(properties or Properties()))
    return one.name


def choices(exchange: ConsistentHashExchange) -> list[str]:
    return [choice(exchange, key) for key in KEYS]


@pytest.mark.feature("S2-10")
def test_each_message_goes_to_exactly_one_by_its_key() -> None:
    assert list(bound().destinations("k", {})) == []
    exchange = bound(a="1", b="1", c="1")
    before = choices(exchange)
    assert set(before) == {"a", "b", "c"}
    assert choices(exchange) == before
    assert choices(bound(c="1", a="1", b="1")) == before
    assert len(route(exchange, KEYS, {}, {}.get).queues) == 1
    assert route(exchange, KEYS, {}, {}.get).by_key_only


@pytest.mark.feature("S2-10")
def test_destinations_win_by_their_weights() -> None:
    counts = Counter(choices(bound(light="1", heavy="3")))
    assert 0.7 < counts["heavy"] / len(KEYS) < 0.8
    assert choices(bound(a="1234", b="1234")) == choices(bound(a="1", b="1")), "only the proportion counts"


@pytest.mark.feature("S2-10")
def test_one_that_leaves_gives_up_only_its_own_and_gets_it_back() -> None:
    exchange = bound(a="1", b="2", c="1")
    before = choices(exchange)
    exchange.unbind(Binding("x", Destination("queue", "b"), "2"))
    without = choices(exchange)
    assert all(now == then for then, now in zip(before, without, strict=True) if then != "b")
    assert "b" not in without
    exchange.bind(Binding("x", Destination("queue", "b"), "2"))
    assert choices(exchange) == before


@pytest.mark.feature("S2-10")
def test_more_weight_only_wins() -> None:
    """Bound again with another weight, the largest counts."""
    exchange = bound(a="1", b="1")
    before = choices(exchange)
    exchange.bind(Binding("x", Destination("queue", "b"), "4"))
    after = choices(exchange)
    assert after == choices(bound(a="1", b="4"))
    assert all(now in (then, "b") for then, now in zip(before, after, strict=True))
    exchange.unbind(Binding("x", Destination("queue", "b"), "1"))
    assert choices(exchange) == after
    exchange.bind(Binding("x", Destination("queue", "b"), "2"))
    assert choices(exchange) == after
    exchange.unbind(Binding("x", Destination("queue", "b"), "4"))
    assert choices(exchange) == choices(bound(a="1", b="2"))
    exchange.unbind(Binding("x", Destination("queue", "b"), "2"))
    assert set(choices(exchange)) == {"a"}


# ---- what is hashed


@pytest.mark.feature("S2-10")
def test_by_header() -> None:
    """Hash-header; keys play no part then."""
    exchange = bound({"hash-header": "tenant"}, a="1", b="1", c="1")
    assert exchange.looks_at_headers
    tenants = [Properties(headers={"tenant": str(number)}) for number in range(50)]
    chosen = [choice(exchange, "k", tenant) for tenant in tenants]
    assert set(chosen) == {"a", "b", "c"}
    assert [choice(exchange, "other", tenant) for tenant in tenants] == chosen


@pytest.mark.parametrize(
    "values",
    [
        list(range(50)),
        [bytes([number, 255]) for number in range(50)],
        [datetime.fromtimestamp(number, UTC) for number in range(50)],
        [{"n": number} for number in range(50)],
        [[number] for number in range(50)],
    ],
    ids=["whole", "bytes", "time", "table", "array"],
)
def test_header_of_any_kind_is_hashed(values: list[object]) -> None:
    exchange = bound({"hash-header": "h"}, a="1", b="1")
    chosen = [choice(exchange, "", Properties(headers={"h": value})) for value in values]  # type: ignore[dict-item]
    assert set(chosen) == {"a", "b"}
    assert [choice(exchange, "", Properties(headers={"h": value})) for value in values] == chosen  # type: ignore[dict-item]


def test_table_is_hashed_whatever_the_order_of_its_fields() -> None:
    exchange = bound({"hash-header": "h"}, **dict.fromkeys("abcdefgh", "1"))
    for number in range(20):
        forth = Properties(headers={"h": {"one": number, "two": 2}})
        back = Properties(headers={"h": {"two": 2, "one": number}})
        assert choice(exchange, "", forth) == choice(exchange, "", back)


@pytest.mark.parametrize("name", ["message_id", "correlation_id"])
@pytest.mark.feature("S2-10")
def test_by_property(name: str) -> None:
    """Hash-property; a header that has the JMS name of the property is not it."""
    exchange = bound({"hash-property": name}, a="1", b="1", c="1")
    assert exchange.looks_at_headers
    chosen = [choice(exchange, "k", Properties(**{name: str(n)})) for n in range(50)]  # type: ignore[arg-type]
    assert set(chosen) == {"a", "b", "c"}
    disturbed = [
        choice(exchange, f"{n}", Properties(headers={name: "x", "JMSMessageID": "x"}, **{name: str(n)}))  # type: ignore[arg-type]
        for n in range(50)
    ]
    assert disturbed == chosen


@pytest.mark.feature("S2-10")
def test_by_timestamp() -> None:
    exchange = bound({"hash-property": "timestamp"}, a="1", b="1", c="1")
    times = [Properties(timestamp=datetime.fromtimestamp(n, UTC)) for n in range(50)]
    assert {choice(exchange, "k", time) for time in times} == {"a", "b", "c"}
    naive = Properties(timestamp=datetime(2024, 1, 1))
    assert choice(exchange, "k", naive) == choice(exchange, "k", Properties(timestamp=datetime(2024, 1, 1, tzinfo=UTC)))


@pytest.mark.parametrize("arguments", [{"hash-header": "h"}, {"hash-property": "message_id"}])
@pytest.mark.feature("S2-10")
def test_messages_without_it_go_all_to_one(arguments: dict[str, object]) -> None:
    exchange = bound(arguments, a="1", b="1", c="1")
    assert len({choice(exchange, key) for key in KEYS[:50]}) == 1
    assert len({tuple(exchange.destinations(key, {})) for key in KEYS[:50]}) == 1


# ---- what is refused


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"hash-header": "h", "hash-property": "message_id"}, "hash-header and hash-property are mutually exclusive"),
        ({"hash-property": "app_id"}, "Unsupported property: app_id .* expected message_id, correlation_id, timestamp"),
        ({"hash-header": 5}, "invalid arg 'hash-header' for exchange 'x': expected a string"),
        ({"hash-property": True}, "invalid arg 'hash-property' for exchange 'x': expected a string"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, object], text: str) -> None:
    with pytest.raises(PreconditionFailed, match=text):
        ConsistentHashExchange("x", arguments=arguments)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("", "The binding key must be an integer: '' is not a weight"),
        ("heavy", "The binding key must be an integer: 'heavy'"),
        ("1.5", "must be an integer"),
        ("²", "must be an integer"),
        ("--1", "must be an integer"),
        ("0", "The binding key must be greater than 0: '0'"),
        ("000", "must be greater than 0"),
        ("-1", "must be greater than 0: '-1'"),
        ("1000001", "The binding key must be at most 1000000: '1000001'"),
        ("9" * 255, "must be at most 1000000"),
    ],
)
@pytest.mark.feature("S2-10")
def test_weight_is_a_whole_number_within_bounds(key: str, text: str) -> None:
    with pytest.raises(PreconditionFailed, match=text):
        bound().validate_binding(Binding("x", Destination("queue", "q"), key))


@pytest.mark.parametrize("key", ["1", "1000000", "01"])
@pytest.mark.feature("S2-10")
def test_weights_up_to_the_heaviest_are_taken(key: str) -> None:
    bound().validate_binding(Binding("x", Destination("queue", "q"), key))
