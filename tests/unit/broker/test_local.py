"""The core calls in the same process, with the rules and errors of a channel (S4-04, S4-50, S4-52)."""

from __future__ import annotations

import pytest

from leveret.broker.access import in_process_access
from leveret.broker.local import MOST_WAITING, Delivered, LocalSession
from leveret.errors import AccessRefused, ChannelFault, NotAllowed, NotFound, PreconditionFailed, ResourceLocked
from leveret.routing.bindings import Binding, Destination
from leveret.wire.properties import Properties
from tests.support.peer_pair import Harness
from tests.support.remote_queues import make_remote
from tests.support.spies import SpyLog


class Desk:
    """A session that remembers what it was given."""

    def __init__(self, harness: Harness, **more: object) -> None:
        self.harness = harness
        self.given: list[Delivered] = []
        self.left: list[str] = []
        self.session = LocalSession(in_process_access(harness.vhost), self._take, left=self.left.append, **more)  # type: ignore[arg-type]

    def _take(self, tag: str, delivered: Delivered) -> None:
        self.given.append(delivered)

    def publish(self, *bodies: bytes, exchange: str = "", key: str = "q", **properties: object) -> None:
        for body in bodies:
            self.session.publish(exchange, key, body, Properties(**properties))  # type: ignore[arg-type]
        self.harness.turn()

    @property
    def bodies(self) -> list[bytes]:
        return [delivered.body for delivered in self.given]


@pytest.fixture
def harness() -> Harness:
    harness = Harness()
    harness.vhost.declare_queue("q")
    return harness


@pytest.fixture
def desk(harness: Harness) -> Desk:
    return Desk(harness)


@pytest.mark.feature("S0-10", "S0-28", "S4-04")
def test_publish_says_whether_it_reached_a_queue(harness: Harness, desk: Desk) -> None:
    assert desk.session.publish("", "q", b"a")
    assert not desk.session.publish("", "nowhere", b"b")
    counters = harness.vhost.counters_of("")
    assert (counters.published, counters.routed, counters.unroutable) == (2, 1, 1)


@pytest.mark.feature("S4-37", "S4-81")
def test_publishing_follows_the_rules_of_a_channel(harness: Harness) -> None:
    desk = Desk(harness, max_message_size=3)
    harness.vhost.declare_exchange("inner", internal=True)
    with pytest.raises(NotFound, match="no exchange 'x'"):
        desk.publish(b"a", exchange="x")
    with pytest.raises(AccessRefused, match="internal exchange 'inner'"):
        desk.publish(b"a", exchange="inner")
    with pytest.raises(
        PreconditionFailed, match="message size 4 is larger than configured max size 3: raise max_message_size"
    ):
        desk.publish(b"aaaa")
    with pytest.raises(PreconditionFailed, match="fast reply consumer does not exist"):
        desk.publish(b"a", reply_to="amq.rabbitmq.reply-to")
    with pytest.raises(PreconditionFailed, match="invalid expiration 'x'"):
        desk.publish(b"a", expiration="x")


@pytest.mark.feature("S4-09", "S4-10")
def test_a_delivery_is_complete_and_has_the_brokers_own_id(harness: Harness, desk: Desk) -> None:
    desk.session.consume("q", "mine")
    desk.publish(b"body", content_type="text/plain", message_id="app-1")
    (got,) = desk.given
    assert (got.consumer_tag, got.delivery_tag, got.redelivered, got.exchange, got.routing_key) == (
        "mine",
        1,
        False,
        "",
        "q",
    )
    assert (got.properties.message_id, got.properties.content_type, got.body) == ("app-1", "text/plain", b"body")
    desk.publish(b"body", message_id="app-1")
    assert desk.given[1].id != got.id


def test_blind_copies_reach_their_queues_unseen(harness: Harness, desk: Desk) -> None:
    harness.vhost.declare_queue("copy")
    desk.publish(b"a", headers={"CC": ["copy"], "BCC": ["q"], "kept": 1}, key="elsewhere")
    for queue in ("q", "copy"):
        got = desk.session.get(queue)
        assert got is not None
        assert got.properties.headers == {"CC": ["copy"], "kept": 1}


@pytest.mark.feature("S4-50", "S4-52")
def test_a_message_is_unacked_before_its_callback_runs(harness: Harness) -> None:
    """And an ack may be sent inside the callback."""
    seen: list[int] = []

    def callback(tag: str, delivered: Delivered) -> None:
        seen.append(len(session.unacked))
        session.ack(delivered.delivery_tag)

    session = LocalSession(in_process_access(harness.vhost), callback)
    session.consume("q")
    session.publish("", "q", b"a")
    harness.turn()
    assert seen == [1]
    assert harness.queue("q").unacked == 0


@pytest.mark.feature("S4-52")
def test_only_an_ack_removes(harness: Harness, desk: Desk) -> None:
    desk.session.consume("q")
    desk.publish(b"a", b"b", b"c")
    assert harness.queue("q").unacked == 3
    desk.session.ack(2)
    assert harness.queue("q").unacked == 2
    desk.session.ack(3, multiple=True)
    harness.turn()
    assert (harness.queue("q").unacked, harness.broker.gauge.used) == (0, 0)


@pytest.mark.feature("S4-55", "S4-75")
def test_nack_gives_back_or_drops(harness: Harness, desk: Desk) -> None:
    tag = desk.session.consume("q")
    desk.publish(b"a", b"b")
    desk.session.nack(1, requeue=False)
    desk.session.nack(2)
    harness.turn()
    assert [(got.body, got.redelivered) for got in desk.given[2:]] == [(b"b", True)]
    assert harness.queue("q").counters.dropped == 1
    desk.session.cancel(tag)
    desk.session.nack(0, multiple=True)
    harness.turn()
    assert harness.queue("q").ready == 1


def test_the_queue_is_told_how_often_a_message_was_tried(harness: Harness, desk: Desk) -> None:
    tag = desk.session.consume("q")
    desk.publish(b"a")
    desk.session.nack(1)
    harness.turn()
    desk.session.cancel(tag)
    desk.session.nack(2)
    assert [(sequence, tries) for sequence, tries, _ in harness.queue("q").lane] == [(1, 2)]


def test_an_unknown_tag_is_refused(desk: Desk) -> None:
    for settle in (desk.session.ack, desk.session.nack):
        with pytest.raises(PreconditionFailed, match="unknown delivery tag 1"):
            settle(1)


def test_prefetch_bounds_what_is_unacked(harness: Harness, desk: Desk) -> None:
    desk.session.consume("q", prefetch=2)
    desk.publish(b"a", b"b", b"c")
    assert desk.bodies == [b"a", b"b"]
    desk.session.ack(1)
    harness.turn()
    assert desk.bodies == [b"a", b"b", b"c"]


@pytest.mark.parametrize("auto_ack", [True, False])
def test_only_so_many_deliveries_wait_for_a_slow_callback(harness: Harness, desk: Desk, auto_ack: bool) -> None:
    tag = desk.session.consume("q", auto_ack=auto_ack)
    desk.publish(*[b"m"] * (MOST_WAITING + 2))
    assert len(desk.given) == MOST_WAITING
    desk.session.callback_done(tag)
    harness.turn()
    assert len(desk.given) == MOST_WAITING + 1
    desk.session.callback_done("unknown")


def test_auto_acked_messages_need_no_answer(harness: Harness, desk: Desk) -> None:
    desk.session.consume("q", auto_ack=True)
    desk.publish(b"a", b"b")
    assert [got.delivery_tag for got in desk.given] == [1, 2]
    with pytest.raises(PreconditionFailed):
        desk.session.ack(1)
    assert harness.broker.gauge.used == 0


def test_getting_by_hand(harness: Harness, desk: Desk) -> None:
    desk.publish(b"a", b"b")
    assert desk.session.get("q", auto_ack=True).body == b"a"  # type: ignore[union-attr]
    got = desk.session.get("q")
    assert got is not None
    assert got.delivery_tag == 2
    desk.session.nack(2)
    again = desk.session.get("q")
    assert again is not None
    assert again.redelivered
    desk.session.ack(again.delivery_tag)
    assert desk.session.get("q") is None
    harness.vhost.delete_queue("q")
    harness.vhost.declare_queue("q")
    desk.publish(b"new")
    fresh = desk.session.get("q")
    assert fresh is not None
    desk.session.ack(fresh.delivery_tag)
    harness.turn()
    assert harness.broker.gauge.used == 0


@pytest.mark.feature("S4-46")
def test_consuming_follows_the_rules_of_a_channel(harness: Harness, desk: Desk) -> None:
    with pytest.raises(NotFound, match="no queue 'p'"):
        desk.session.consume("p")
    desk.session.consume("q", "mine")
    with pytest.raises(NotAllowed, match="attempt to reuse consumer tag 'mine'"):
        desk.session.consume("q", "mine")
    assert desk.session.consume("q") != desk.session.consume("q")
    harness.vhost.declare_queue("own", exclusive=True, owner=object())
    with pytest.raises(ResourceLocked):
        desk.session.consume("own")


def test_cancelling_leaves_what_was_delivered_unacked(harness: Harness, desk: Desk) -> None:
    tag = desk.session.consume("q")
    desk.publish(b"a")
    desk.session.cancel(tag)
    desk.session.cancel(tag)
    assert desk.left == [tag]
    desk.publish(b"b")
    assert desk.bodies == [b"a"]
    desk.session.ack(1)
    assert harness.queue("q").unacked == 0


def test_a_consumer_of_a_deleted_queue_is_told(harness: Harness, desk: Desk) -> None:
    tag = desk.session.consume("q")
    harness.vhost.delete_queue("q")
    assert (desk.left, desk.session.consumers) == ([tag], {})


@pytest.mark.feature("S4-61")
def test_closing_gives_everything_back(harness: Harness, desk: Desk) -> None:
    harness.vhost.declare_queue("own", exclusive=True, owner=desk.session)
    desk.session.consume("q")
    desk.publish(b"a", b"b")
    desk.session.ack(1)
    desk.session.check_open()
    desk.session.close()
    desk.session.close()
    harness.turn()
    assert harness.queue("q").ready == 1
    assert "own" not in harness.vhost.queues
    with pytest.raises(ChannelFault, match="this session is closed"):
        desk.session.check_open()


def test_durable_queues_have_it_written_once() -> None:
    log = SpyLog()
    harness = Harness(log=log)
    for name, durable in (("one", True), ("two", True), ("three", False)):
        harness.vhost.declare_queue(name, durable=durable)
        harness.vhost.bind(Binding("amq.fanout", Destination("queue", name), ""))
    Desk(harness).publish(b"a", exchange="amq.fanout", key="", delivery_mode=2)
    ((bodies, placements),) = log.appended
    assert bodies == [b"a"]
    assert [placement.queue for placement in placements] == [1, 2]


@pytest.mark.feature("S0-30")
def test_a_queue_that_answers_later_gets_it_from_its_own_log(harness: Harness, desk: Desk) -> None:
    """Its replicas have a copy of what is published in the process too; a deleted queue leaves no receipt open."""
    log = make_remote(harness.vhost, "q", copies=2)
    desk.publish(b"a")
    assert len(log.waiting[0].receipts) == 2
    log.let_in()
    assert harness.queue("q").ready == 1
    desk.publish(b"b")
    harness.vhost.delete_queue("q")
    assert log.waiting == []
