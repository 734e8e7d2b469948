"""Queues that take their time, and replicas (S0-02, S0-03, S0-05, S0-06, S0-30)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from leveret.message import Message
from leveret.queues.guard import Envelope, Guard, Mirror
from tests.support.spies import QueueHouse, SpySender, message, messages, ready


class Gate:
    """Handles envelopes only when the test says so."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def __call__(self, handle: Callable[[], None]) -> None:
        self.waiting.append(handle)

    def open(self, number: int = 1) -> None:
        for _ in range(number):
            self.waiting.pop(0)()


class SlowReplica:
    """Keeps its copies, and says so only when the test wants."""

    def __init__(self) -> None:
        self.envelopes: list[Envelope] = []
        self.unsaid: list[Callable[[], None]] = []

    def receive(self, envelope: Envelope, handled: Callable[[], None]) -> None:
        self.envelopes.append(envelope)
        self.unsaid.append(handled)


@pytest.fixture
def house() -> QueueHouse:
    return QueueHouse()


@pytest.fixture
def sender() -> SpySender:
    return SpySender()


@pytest.mark.feature("S0-03", "S0-07")
def test_without_a_gate_a_message_is_handled_at_once(house: QueueHouse, sender: SpySender) -> None:
    """The credit goes back and mandatory is answered before the message is enqueued."""
    queue = house.queue()
    guard = Guard(queue)
    guard.receive(sender.delivery(*messages(b"a", b"b")))
    assert sender.news == [("credited", 2), ("received", 2), ("stored", 2)]
    assert ready(queue) == [b"a", b"b"]
    assert guard.pending == {}


@pytest.mark.feature("S0-03")
def test_credit_is_given_back_before_storing(house: QueueHouse) -> None:
    queue = house.queue()
    seen: list[int] = []

    class Watching(SpySender):
        def credited(self, queue: object, credits: int) -> None:
            seen.append(len(ready(queue)))  # type: ignore[arg-type]

    Guard(queue).receive(Watching().delivery(message()))
    assert seen == [0]


def test_a_gate_decides_when_the_leader_handles(house: QueueHouse, sender: SpySender) -> None:
    queue, gate = house.queue(), Gate()
    guard = Guard(queue, gate)
    guard.receive(sender.delivery(message(b"a")))
    guard.receive(sender.delivery(message(b"b")))
    assert (sender.news, ready(queue), len(guard.pending[sender])) == ([], [], 2)
    gate.open()
    assert ready(queue) == [b"a"]
    assert len(guard.pending[sender]) == 1


@pytest.mark.feature("S0-02")
def test_a_message_costs_one_credit_for_the_leader_and_one_per_replica(house: QueueHouse, sender: SpySender) -> None:
    guard = Guard(house.queue())
    assert guard.price == 1
    guard.replicas += [Mirror(), Mirror()]
    assert guard.price == 3
    guard.receive(sender.delivery(message()))
    assert [news for news in sender.news if news[0] == "credited"] == [("credited", 1)] * 3


@pytest.mark.feature("S0-30")
def test_a_delivery_is_stored_once_leader_and_all_replicas_have_it(house: QueueHouse, sender: SpySender) -> None:
    guard, slow = Guard(house.queue()), SlowReplica()
    guard.replicas += [slow, Mirror()]
    guard.receive(sender.delivery(message()))
    assert ("stored", 1) not in sender.news
    slow.unsaid[0]()
    assert sender.news[-1] == ("stored", 1)
    slow.unsaid[0]()
    assert sender.news.count(("stored", 1)) == 1
    assert sender.news.count(("credited", 1)) == 3


@pytest.mark.feature("S0-05")
def test_replicas_hear_that_they_were_replicas_when_it_was_published(house: QueueHouse, sender: SpySender) -> None:
    guard, slow = Guard(house.queue()), SlowReplica()
    guard.replicas.append(slow)
    guard.receive(sender.delivery(message()))
    assert [envelope.replica_when_published for envelope in slow.envelopes] == [True]
    assert slow.envelopes[0].delivery.places == [(0, 1)]


@pytest.mark.feature("S0-26")
def test_a_replica_that_leaves_is_not_waited_for(house: QueueHouse, sender: SpySender) -> None:
    """Neither a confirm nor credit hangs on a replica that is gone."""
    gate, slow = Gate(), SlowReplica()
    guard = Guard(house.queue(), gate)
    guard.replicas.append(slow)
    guard.receive(sender.delivery(message(b"a")))
    guard.receive(sender.delivery(message(b"b")))
    gate.open()
    guard.remove_replica(slow)
    assert sender.news.count(("stored", 1)) == 1
    gate.open()
    assert sender.news.count(("stored", 1)) == 2
    assert sender.news.count(("credited", 1)) == 4
    assert guard.pending == {}


def test_a_replica_that_joins_gets_copies_but_is_not_waited_for(house: QueueHouse, sender: SpySender) -> None:
    gate, slow = Gate(), SlowReplica()
    guard = Guard(house.queue(), gate)
    guard.receive(sender.delivery(message()))
    guard.replicas.append(slow)
    gate.open()
    assert sender.news == [("credited", 1), ("received", 1), ("stored", 1)]
    slow.unsaid[0]()
    assert len(sender.news) == 3


@pytest.mark.feature("S0-06")
def test_a_dead_sender_is_forgotten_but_its_messages_arrive(house: QueueHouse, sender: SpySender) -> None:
    queue, gate, slow = house.queue(), Gate(), SlowReplica()
    guard = Guard(queue, gate)
    guard.replicas.append(slow)
    guard.receive(sender.delivery(message(b"a")))
    guard.sender_died(sender)
    guard.sender_died(sender)
    gate.open()
    slow.unsaid[0]()
    assert (sender.news, guard.pending, ready(queue)) == ([], {}, [b"a"])


@pytest.mark.feature("S0-26", "S0-27")
def test_a_dying_queue_tells_every_sender_of_every_pending_delivery(house: QueueHouse, sender: SpySender) -> None:
    queue, gate, other = house.queue(), Gate(), SpySender()
    queue.guard = Guard(queue, gate)
    queue.guard.receive(sender.delivery(*messages(b"a", b"b")))
    queue.guard.receive(other.delivery(message()))
    queue.die()
    assert (sender.news, other.news) == ([("died", 2)], [("died", 1)])
    gate.open(2)
    assert (sender.news, house.gauge.used) == ([("died", 2)], 0)


# ---- mirrors


def mirrored(house: QueueHouse, **arguments: object) -> tuple[Guard, Mirror]:
    guard, mirror = Guard(house.queue(**arguments)), Mirror()
    guard.replicas.append(mirror)
    return guard, mirror


@pytest.mark.feature("S0-30")
def test_a_promoted_mirror_takes_over_what_was_not_settled(house: QueueHouse, sender: SpySender) -> None:
    guard, mirror = mirrored(house)
    guard.receive(sender.delivery(*messages(b"a", b"b", b"c")))
    mirror.settled(0, 2, 1)
    heir = house.queue("heir")
    mirror.promote(heir)
    assert ready(heir) == [b"a", b"c"]
    assert mirror.copies == {}


@pytest.mark.parametrize("settled", [0, 1, 3])
@pytest.mark.feature("S0-05")
def test_a_promoted_mirror_does_not_enqueue_twice(house: QueueHouse, sender: SpySender, settled: int) -> None:
    """Also when the first or all of the messages were settled before it took over."""
    guard, mirror = mirrored(house)
    delivery = sender.delivery(*messages(b"a", b"b", b"c"))
    guard.receive(delivery)
    mirror.settled(0, 1, settled)
    heir = house.queue("heir")
    mirror.promote(heir)
    mirror.receive(Envelope(delivery, True), lambda: None)
    assert ready(heir) == [b"a", b"b", b"c"][settled:]


@pytest.mark.feature("S0-05")
def test_a_promoted_mirror_enqueues_what_it_did_not_have(house: QueueHouse, sender: SpySender) -> None:
    """The leader never handled it, or it was published after the promotion."""
    guard, mirror = mirrored(house)
    guard.receive(sender.delivery(message(b"a")))
    heir = house.queue("heir")
    mirror.promote(heir)
    done: list[str] = []
    mirror.receive(Envelope(sender.delivery(message(b"unhandled")), True), lambda: done.append("one"))
    mirror.receive(Envelope(sender.delivery(message(b"new")), False), lambda: done.append("two"))
    later = sender.delivery(message(b"later"))
    later.places = [(0, 9)]
    mirror.receive(Envelope(later, True), lambda: done.append("three"))
    assert ready(heir) == [b"a", b"unhandled", b"new", b"later"]
    assert done == ["one", "two", "three"]


def test_a_mirror_of_nothing_can_be_promoted(house: QueueHouse) -> None:
    heir = house.queue("heir")
    Mirror().promote(heir)
    assert ready(heir) == []


@pytest.mark.feature("S0-30")
def test_copies_of_a_priority_queue_keep_apart(house: QueueHouse, sender: SpySender) -> None:
    """Messages of one run stand in several lanes; no copy may take another's place."""
    guard, mirror = mirrored(house, max_priority=2)
    run: list[Message] = [message(b"a"), message(b"high", priority=9), message(b"b")]
    guard.receive(sender.delivery(*run))
    guard.receive(sender.delivery(message(b"c")))
    assert len(mirror.copies) == 4
    heir = house.queue("heir", max_priority=2)
    mirror.promote(heir)
    assert ready(heir) == [b"high", b"a", b"b", b"c"]


def test_a_promoted_mirror_keeps_deadlines(house: QueueHouse, sender: SpySender) -> None:
    guard, mirror = mirrored(house)
    dying = message(b"a", deadline=house.clock.now() + 1)
    delivery = sender.delivery(dying, message(b"b"))
    delivery.timed = True
    guard.receive(delivery)
    heir = house.queue("heir")
    mirror.promote(heir)
    house.turn()
    house.advance(1)
    assert ready(heir) == [b"b"]
