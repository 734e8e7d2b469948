"""Fanout exchanges (S4-39)."""

from __future__ import annotations

import pytest

from leveret.routing.bindings import Binding, Destination
from leveret.routing.fanout import FanoutExchange

Q1, Q2 = Destination("queue", "q1"), Destination("queue", "q2")


@pytest.mark.feature("S4-39")
def test_every_bound_destination_gets_the_message_whatever_the_keys() -> None:
    exchange = FanoutExchange("x")
    exchange.bind(Binding("x", Q1, "red"))
    exchange.bind(Binding("x", Q2, ""))
    assert list(exchange.destinations("blue", {})) == [Q1, Q2]


@pytest.mark.feature("S4-39")
def test_destination_bound_by_two_keys_leaves_with_the_second() -> None:
    """Each queue once, until its last binding is gone."""
    exchange = FanoutExchange("x")
    red, blue = Binding("x", Q1, "red"), Binding("x", Q1, "blue")
    exchange.bind(red)
    exchange.bind(blue)
    assert list(exchange.destinations("", {})) == [Q1]
    exchange.unbind(red)
    assert list(exchange.destinations("", {})) == [Q1]
    exchange.unbind(blue)
    assert list(exchange.destinations("", {})) == []
