"""From an exchange to queues, over further exchanges and alternates (S4-03, S4-36)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from leveret.routing.bindings import Binding, Destination
from leveret.routing.bounds import RoutingWork
from leveret.routing.direct import DefaultExchange
from leveret.routing.exchange import Exchange
from leveret.routing.fanout import FanoutExchange
from leveret.routing.router import Routed, route
from tests.support.exchanges import make_exchange


class Net:
    """Some exchanges by name, and a short hand to bind them."""

    def __init__(self) -> None:
        self.exchanges: dict[str, Exchange] = {"": DefaultExchange()}

    def exchange(self, kind: str, name: str, alternate: str | None = None) -> None:
        arguments: dict[str, object] = {} if alternate is None else {"alternate-exchange": alternate}
        self.exchanges[name] = make_exchange(kind, name, arguments=arguments)

    def queue(self, source: str, name: str, key: str = "", **arguments: object) -> None:
        self.exchanges[source].bind(Binding(source, Destination("queue", name), key, arguments))

    def link(self, source: str, name: str, key: str = "") -> None:
        self.exchanges[source].bind(Binding(source, Destination("exchange", name), key))

    def route(self, start: str, *keys: str, **headers: object) -> Routed:
        return route(self.exchanges[start], keys, headers, self.exchanges.get)


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.mark.feature("S4-03")
def test_queue_matched_by_several_bindings_is_named_once(net: Net) -> None:
    net.exchange("topic", "x")
    for name, pattern in (("q1", "a.*"), ("q1", "a.#"), ("q2", "#")):
        net.queue("x", name, pattern)
    assert sorted(net.route("x", "a.b").queues) == ["q1", "q2"]


def test_queues_come_in_the_order_they_are_met(net: Net) -> None:
    net.exchange("fanout", "x")
    net.exchange("fanout", "y")
    net.link("x", "y")
    for name in ("c", "a", "b"):
        net.queue("x", name)
    for name in ("d", "a"):
        net.queue("y", name)
    assert net.route("x", "").queues == ["c", "a", "b", "d"]


@pytest.mark.feature("S4-36")
def test_publish_without_an_exchange_name_reaches_the_queue_named_by_the_key(net: Net) -> None:
    assert net.route("", "q1") == Routed(["q1"], True)


def test_every_key_of_a_message_is_tried(net: Net) -> None:
    net.exchange("direct", "x")
    for name in ("q1", "q2", "q3"):
        net.queue("x", name, name)
    assert net.route("x", "q2", "q1", "q2", "nobody").queues == ["q2", "q1"]
    assert net.route("", "q2", "q1").queues == ["q2", "q1"]


def test_exchange_that_ignores_keys_is_asked_once(net: Net) -> None:
    asked: list[str] = []

    class Listening(FanoutExchange):
        def destinations(
            self, key: str, headers: Mapping[str, object], work: RoutingWork | None = None
        ) -> Iterable[Destination]:
            asked.append(key)
            return super().destinations(key, headers, work)

    net.exchanges["x"] = Listening("x")
    net.route("x", "a", "b", "c")
    assert asked == ["a"]


def test_message_walks_from_exchange_to_exchange(net: Net) -> None:
    net.exchange("topic", "x")
    net.exchange("direct", "y")
    net.link("x", "y", "a.#")
    net.queue("y", "q1", "a.b")
    assert net.route("x", "a.b").queues == ["q1"]
    assert net.route("x", "a.c").queues == []
    assert net.route("x", "b").queues == []


def test_cycle_of_exchanges_ends(net: Net) -> None:
    for name in ("x", "y", "z"):
        net.exchange("fanout", name)
        net.queue(name, f"q{name}")
        net.link(name, name)
    net.link("x", "y")
    net.link("y", "z")
    net.link("z", "x")
    assert net.route("y", "").queues == ["qy", "qz", "qx"]


def test_binding_to_a_vanished_exchange_is_skipped(net: Net) -> None:
    net.exchange("fanout", "x", alternate="spare")
    net.exchange("fanout", "spare")
    net.queue("spare", "q1")
    net.link("x", "gone")
    assert net.route("x", "").queues == []


def test_unroutable_message_goes_to_the_alternate_exchange(net: Net) -> None:
    net.exchange("direct", "x", alternate="spare")
    net.exchange("fanout", "spare")
    net.queue("x", "q1", "a")
    net.queue("spare", "lost")
    assert net.route("x", "a").queues == ["q1"]
    assert net.route("x", "b").queues == ["lost"]
    assert net.route("x", "b", "a").queues == ["q1"]


def test_missing_alternate_exchange_drops_the_message(net: Net) -> None:
    net.exchange("direct", "x", alternate="spare")
    assert net.route("x", "a").queues == []


def test_alternates_chain_and_their_cycles_end(net: Net) -> None:
    net.exchange("direct", "x", alternate="y")
    net.exchange("direct", "y", alternate="z")
    net.exchange("direct", "z", alternate="x")
    assert net.route("x", "a").queues == []
    net.queue("z", "q1", "a")
    assert net.route("x", "a").queues == ["q1"]


def test_exchange_within_the_walk_uses_its_own_alternate(net: Net) -> None:
    net.exchange("fanout", "x", alternate="never")
    net.exchange("direct", "y", alternate="spare")
    net.exchange("fanout", "spare")
    net.exchange("fanout", "never")
    net.link("x", "y")
    net.queue("x", "q1")
    net.queue("spare", "lost")
    net.queue("never", "wrong")
    assert net.route("x", "a").queues == ["q1", "lost"]


def test_alternate_that_was_visited_already_is_not_visited_again(net: Net) -> None:
    net.exchange("fanout", "x")
    net.exchange("direct", "y", alternate="x")
    net.link("x", "y")
    net.queue("x", "q1")
    assert net.route("x", "a").queues == ["q1"]


def test_alternate_without_a_name_is_the_default_exchange(net: Net) -> None:
    net.exchange("direct", "x", alternate="")
    assert net.route("x", "q1").queues == ["q1"]


@pytest.mark.feature("S4-38")
def test_message_for_a_queue_that_is_not_there_goes_to_the_alternate() -> None:
    """An implicit binding counts only while the queue exists."""
    arguments: dict[str, object] = {"x-implicit-bindings": True, "alternate-exchange": "spare"}
    exchange, spare = make_exchange("direct", "x", arguments=arguments), make_exchange("fanout", "spare")
    spare.bind(Binding("spare", Destination("queue", "lost"), ""))
    spare.bind(Binding("spare", Destination("exchange", "x"), ""))
    exchanges = {"x": exchange, "spare": spare}
    queues = {"lost", "q1"}
    assert route(exchange, ["q1"], {}, exchanges.get, queues.__contains__).queues == ["q1"]
    assert route(exchange, ["q2"], {}, exchanges.get, queues.__contains__).queues == ["lost"]
    assert route(exchange, ["q2"], {}, exchanges.get).queues == ["q2"]


def test_route_may_be_remembered_unless_a_visited_exchange_looks_at_headers(net: Net) -> None:
    net.exchange("topic", "x")
    net.exchange("headers", "h")
    net.queue("x", "q1", "#")
    net.link("x", "h", "deep")
    net.queue("h", "q2", "", colour="red")
    assert net.route("x", "flat", colour="red") == Routed(["q1"], True)
    assert net.route("x", "deep", colour="red") == Routed(["q1", "q2"], False)
    assert net.route("x", "deep", colour="blue") == Routed(["q1"], False)
