"""Topic exchanges (S4-40)."""

from __future__ import annotations

import pytest

from leveret.routing.bindings import Binding, Destination
from leveret.routing.topic import TopicExchange

Q1, Q2, X = Destination("queue", "q1"), Destination("queue", "q2"), Destination("exchange", "inner")


@pytest.mark.feature("S4-40")
def test_message_reaches_every_destination_whose_pattern_takes_its_key() -> None:
    exchange = TopicExchange("x")
    for destination, pattern in ((Q1, "stock.*.nyse"), (Q2, "stock.#"), (X, "#.nyse")):
        exchange.bind(Binding("x", destination, pattern))
    assert set(exchange.destinations("stock.ibm.nyse", {})) == {Q1, Q2, X}
    assert set(exchange.destinations("stock.ibm", {})) == {Q2}
    assert set(exchange.destinations("nyse", {})) == {X}
    assert set(exchange.destinations("", {})) == set()


@pytest.mark.feature("S4-40")
def test_unbound_pattern_takes_no_more_messages() -> None:
    exchange = TopicExchange("x")
    plain, dressed = Binding("x", Q1, "a.#"), Binding("x", Q1, "a.#", {"a": 1})
    exchange.bind(plain)
    exchange.bind(dressed)
    exchange.unbind(plain)
    assert list(exchange.destinations("a", {})) == [Q1]
    exchange.unbind(dressed)
    assert list(exchange.destinations("a", {})) == []
