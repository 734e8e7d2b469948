"""Direct exchanges and the default exchange (S4-06, S4-36, S4-38)."""

from __future__ import annotations

import pytest

from leveret.errors import AccessRefused, PreconditionFailed
from leveret.routing.bindings import Binding, Destination
from leveret.routing.direct import DefaultExchange, DirectExchange

Q1, Q2 = Destination("queue", "q1"), Destination("queue", "q2")


@pytest.mark.feature("S4-06")
def test_message_reaches_every_destination_bound_with_its_key() -> None:
    """Direct."""
    exchange = DirectExchange("x")
    for destination, key in ((Q1, "red"), (Q2, "red"), (Q2, "blue")):
        exchange.bind(Binding("x", destination, key))
    assert list(exchange.destinations("red", {})) == [Q1, Q2]
    assert list(exchange.destinations("blue", {})) == [Q2]
    assert list(exchange.destinations("green", {})) == []


def test_pattern_characters_mean_themselves_in_a_direct_exchange() -> None:
    exchange = DirectExchange("x")
    exchange.bind(Binding("x", Q1, "#"))
    assert list(exchange.destinations("a", {})) == []
    assert list(exchange.destinations("#", {})) == [Q1]


def test_destination_stays_while_one_of_two_like_bindings_remains() -> None:
    exchange = DirectExchange("x")
    plain, dressed = Binding("x", Q1, "k"), Binding("x", Q1, "k", {"a": 1})
    exchange.bind(plain)
    exchange.bind(dressed)
    exchange.unbind(plain)
    assert list(exchange.destinations("k", {})) == [Q1]
    exchange.unbind(dressed)
    assert list(exchange.destinations("k", {})) == []


def test_unbound_and_unknown_keys_leave_nothing_behind() -> None:
    exchange = DirectExchange("x")
    binding = Binding("x", Q1, "k")
    exchange.bind(binding)
    exchange.destinations("unknown", {})
    exchange.unbind(binding)
    assert vars(exchange) == vars(DirectExchange("x"))


@pytest.mark.feature("S4-38")
def test_queue_is_reached_by_its_name_where_bindings_are_implicit() -> None:
    exchange = DirectExchange("x", arguments={"x-implicit-bindings": True})
    assert list(exchange.destinations("q1", {})) == [Q1]
    exchange.bind(Binding("x", Q2, "q1"))
    assert list(exchange.destinations("q1", {})) == [Q2, Q1]


@pytest.mark.parametrize("arguments", [{}, {"x-implicit-bindings": False}])
@pytest.mark.feature("S4-38")
def test_queue_name_alone_reaches_nothing_where_bindings_are_explicit(arguments: dict[str, object]) -> None:
    """Only with the argument."""
    assert list(DirectExchange("x", arguments=arguments).destinations("q1", {})) == []


@pytest.mark.parametrize("value", [1, "true", None])
def test_implicit_bindings_must_be_a_boolean(value: object) -> None:
    with pytest.raises(PreconditionFailed, match="invalid arg 'x-implicit-bindings' for exchange 'x'"):
        DirectExchange("x", arguments={"x-implicit-bindings": value})


@pytest.mark.feature("S4-36")
def test_default_exchange_reaches_the_queue_named_by_the_key() -> None:
    exchange = DefaultExchange()
    assert (exchange.name, exchange.kind, exchange.durable) == ("", "direct", True)
    assert list(exchange.destinations("q1", {})) == [Q1]


def test_default_exchange_refuses_bindings() -> None:
    exchange = DefaultExchange()
    binding = Binding("", Q1, "k")
    with pytest.raises(AccessRefused, match="operation not permitted on the default exchange"):
        exchange.validate_binding(binding)
    exchange.bind(binding)
    exchange.unbind(binding)
    assert list(exchange.destinations("k", {})) == [Destination("queue", "k")]
