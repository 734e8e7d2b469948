"""Exchanges and bindings of a virtual host (S4-33, S4-34, S4-38)."""

from __future__ import annotations

import pytest

from leveret.broker.vhost import Vhost
from leveret.errors import AccessRefused, NotFound, PreconditionFailed
from leveret.routing.bindings import Binding, Destination
from leveret.routing.types import PREDECLARED
from tests.support.peer_pair import Harness


@pytest.fixture
def vhost() -> Vhost:
    return Harness().vhost


def to_queue(source: str, queue: str, key: str = "") -> Binding:
    return Binding(source, Destination("queue", queue), key)


def to_exchange(source: str, exchange: str, key: str = "") -> Binding:
    return Binding(source, Destination("exchange", exchange), key)


def routed(vhost: Vhost, exchange: str, key: str) -> list[str]:
    return vhost.route(vhost.exchange(exchange), (key,), {}).queues


def test_the_predeclared_exchanges_are_there(vhost: Vhost) -> None:
    assert [(name, vhost.exchange(name).kind) for name, _ in PREDECLARED] == list(PREDECLARED)
    assert vhost.exchange("").kind == "direct"
    assert all(exchange.durable for exchange in vhost.exchanges.values())


def test_declaring_again_just_so_gives_the_same_exchange(vhost: Vhost) -> None:
    made = vhost.declare_exchange("x", "topic", durable=True)
    assert vhost.declare_exchange("x", "topic", durable=True) is made
    assert vhost.declare_exchange("amq.topic", "topic", durable=True).name == "amq.topic"


@pytest.mark.parametrize(
    ("second", "text"),
    [
        ({"kind": "topic"}, "'type' for exchange 'x' in vhost '/': received 'topic' but current is 'direct'"),
        ({"durable": True}, "'durable' for exchange 'x' in vhost '/': received 'true' but current is 'false'"),
        ({"auto_delete": True}, "'auto_delete' for exchange 'x'"),
        ({"internal": True}, "'internal' for exchange 'x'"),
        (
            {"arguments": {"alternate-exchange": "a"}},
            "'alternate-exchange' for exchange 'x' in vhost '/': received 'a'",
        ),
    ],
)
@pytest.mark.feature("S4-81")
def test_declaring_otherwise_is_refused_with_both_values(vhost: Vhost, second: dict[str, object], text: str) -> None:
    vhost.declare_exchange("x")
    with pytest.raises(PreconditionFailed) as refusal:
        vhost.declare_exchange("x", **second)  # type: ignore[arg-type]
    assert text in refusal.value.text


def test_reserved_names_and_the_default_exchange_are_not_to_be_touched(vhost: Vhost) -> None:
    with pytest.raises(AccessRefused, match=r"exchange name 'amq\.mine' contains reserved prefix"):
        vhost.declare_exchange("amq.mine")
    with pytest.raises(AccessRefused, match=r"predeclared exchange 'amq\.topic'"):
        vhost.delete_exchange("amq.topic")
    vhost.declare_queue("q")
    for attempt in (
        lambda: vhost.declare_exchange(""),
        lambda: vhost.delete_exchange(""),
        lambda: vhost.bind(to_queue("", "q", "k")),
        lambda: vhost.unbind(to_queue("", "q", "q")),
        lambda: vhost.bind(to_exchange("amq.topic", "")),
    ):
        with pytest.raises(AccessRefused, match="operation not permitted on the default exchange"):
            attempt()


@pytest.mark.feature("S4-34")
def test_binding_needs_both_ends(vhost: Vhost) -> None:
    vhost.declare_queue("q")
    with pytest.raises(NotFound, match="no exchange 'x' in vhost '/'"):
        vhost.bind(to_queue("x", "q"))
    with pytest.raises(NotFound, match="no queue 'p' in vhost '/'"):
        vhost.bind(to_queue("amq.direct", "p"))
    with pytest.raises(NotFound, match="no exchange 'x' in vhost '/'"):
        vhost.bind(to_exchange("amq.direct", "x"))


@pytest.mark.feature("S4-34")
def test_binding_twice_is_idempotent(vhost: Vhost) -> None:
    vhost.declare_queue("q")
    assert vhost.bind(to_queue("amq.direct", "q", "k"))
    before = vhost.epoch
    assert not vhost.bind(to_queue("amq.direct", "q", "k"))
    assert (len(vhost.bindings), vhost.epoch) == (1, before)
    assert vhost.unbind(to_queue("amq.direct", "q", "k"))
    assert not vhost.unbind(to_queue("amq.direct", "q", "k"))
    assert routed(vhost, "amq.direct", "k") == []


def test_a_binding_that_its_exchange_refuses_leaves_no_trace(vhost: Vhost) -> None:
    vhost.declare_queue("q")
    bad = Binding("amq.headers", Destination("queue", "q"), "", {"x-match": "sometimes"})
    with pytest.raises(PreconditionFailed):
        vhost.bind(bad)
    assert len(vhost.bindings) == 0


def test_exchanges_lead_to_exchanges(vhost: Vhost) -> None:
    vhost.declare_exchange("x", "fanout")
    vhost.declare_queue("q")
    vhost.bind(to_exchange("amq.topic", "x", "a.*"))
    vhost.bind(to_queue("x", "q"))
    assert routed(vhost, "amq.topic", "a.b") == ["q"]
    vhost.delete_exchange("x")
    assert routed(vhost, "amq.topic", "a.b") == []
    assert len(vhost.bindings) == 0


@pytest.mark.feature("S0-10")
def test_an_alternate_exchange_takes_what_nobody_wanted(vhost: Vhost) -> None:
    vhost.declare_exchange("rest", "fanout")
    vhost.declare_exchange("x", arguments={"alternate-exchange": "rest"})
    vhost.declare_queue("q")
    vhost.bind(to_queue("rest", "q"))
    assert routed(vhost, "x", "anything") == ["q"]


def test_an_exchange_in_use_can_be_kept_from_deletion(vhost: Vhost) -> None:
    vhost.declare_exchange("x")
    vhost.declare_queue("q")
    vhost.bind(to_queue("x", "q", "k"))
    with pytest.raises(PreconditionFailed, match="exchange 'x' in vhost '/' in use"):
        vhost.delete_exchange("x", if_unused=True)
    vhost.unbind(to_queue("x", "q", "k"))
    vhost.delete_exchange("x", if_unused=True)
    assert "x" not in vhost.exchanges


@pytest.mark.feature("S4-73")
def test_an_auto_delete_exchange_goes_with_its_last_binding(vhost: Vhost) -> None:
    """By unbinding, by the death of the queue, and along a chain."""
    vhost.declare_queue("q")
    vhost.declare_queue("p")
    vhost.declare_exchange("x", auto_delete=True)
    vhost.bind(to_queue("x", "q", "k"))
    vhost.bind(to_queue("x", "p", "k"))
    vhost.unbind(to_queue("x", "q", "k"))
    assert "x" in vhost.exchanges
    vhost.bind(to_queue("x", "p", "by another key"))
    vhost.delete_queue("p")
    assert "x" not in vhost.exchanges
    for name in ("one", "two", "three"):
        vhost.declare_exchange(name, "fanout", auto_delete=True)
    vhost.bind(to_exchange("one", "two"))
    vhost.bind(to_exchange("two", "three"))
    vhost.bind(to_queue("three", "q"))
    vhost.delete_queue("q")
    assert not {"one", "two", "three"} & vhost.exchanges.keys()
    assert len(vhost.bindings) == 0


def test_auto_delete_exchanges_in_a_circle_can_be_deleted(vhost: Vhost) -> None:
    vhost.declare_exchange("one", "fanout", auto_delete=True)
    vhost.declare_exchange("two", "fanout", auto_delete=True)
    vhost.bind(to_exchange("one", "two"))
    vhost.bind(to_exchange("two", "one"))
    vhost.bind(to_exchange("one", "one"))
    vhost.delete_exchange("one")
    assert "two" not in vhost.exchanges
    assert len(vhost.bindings) == 0


@pytest.mark.feature("S4-38")
def test_implicit_bindings_reach_a_queue_by_its_name(vhost: Vhost) -> None:
    """From when it is declared, without a binding; and that ends what channels remember."""
    vhost.declare_exchange("x", arguments={"x-implicit-bindings": True})
    before = vhost.epoch
    assert routed(vhost, "x", "q") == []
    vhost.declare_queue("q")
    assert routed(vhost, "x", "q") == ["q"]
    assert vhost.epoch > before


def test_queues_that_only_the_default_exchange_reaches_end_no_epoch(vhost: Vhost) -> None:
    before = vhost.epoch
    vhost.declare_queue("q")
    vhost.delete_queue("q")
    assert (vhost.epoch, vhost.deletions) == (before, 1)


@pytest.mark.feature("S0-28")
def test_counters_of_an_exchange_go_with_it(vhost: Vhost) -> None:
    vhost.declare_exchange("x")
    counters = vhost.counters_of("x")
    counters.published += 3
    counters.unroutable += 1
    assert vhost.counters_of("x").routed == 2
    vhost.delete_exchange("x")
    assert vhost.counters_of("x").published == 0
