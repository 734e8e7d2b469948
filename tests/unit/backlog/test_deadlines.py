"""Which waiting message dies when; time is moved by the test (S0-21)."""

from __future__ import annotations

import pytest

from leveret.backlog.deadlines import Deadlines, packed, unpacked
from tests.support.spies import QueueHarness, SpyConsumer, message, messages, ready


@pytest.fixture
def harness() -> QueueHarness:
    return QueueHarness()


def after(harness: QueueHarness, seconds: float) -> float:
    return harness.clock.now() + seconds


def test_the_queues_ttl_kills_in_order(harness: QueueHarness) -> None:
    queue = harness.queue(message_ttl=1000)
    harness.publish(queue, *messages(b"a", b"b"))
    harness.turn()
    harness.advance(0.5)
    harness.publish(queue, message(b"c"))
    harness.turn()
    harness.advance(0.5)
    assert ready(queue) == [b"c"]
    harness.advance(0.5)
    assert ready(queue) == []
    assert queue.counters.expired == 3


def test_a_message_dies_anywhere_in_the_queue(harness: QueueHarness) -> None:
    """Not only at the head, as RabbitMQ would have it."""
    queue = harness.queue()
    harness.publish(queue, message(b"a"), message(b"b", deadline=after(harness, 1)), message(b"c"))
    harness.turn()
    harness.advance(1)
    assert ready(queue) == [b"a", b"c"]
    assert (queue.ready, queue.counters.expired) == (2, 1)


@pytest.mark.parametrize(("own", "dies"), [(0.5, 0.5), (5.0, 1.0)])
def test_the_earlier_of_own_expiration_and_ttl_decides(harness: QueueHarness, own: float, dies: float) -> None:
    queue = harness.queue(message_ttl=1000)
    harness.publish(queue, message(b"front"), message(b"m", deadline=after(harness, own)))
    harness.turn()
    harness.advance(dies - 0.01)
    assert b"m" in ready(queue)
    harness.advance(0.01)
    assert b"m" not in ready(queue)


@pytest.mark.feature("S0-21")
def test_ttl_zero_without_a_ready_consumer_is_discarded(harness: QueueHarness) -> None:
    queue = harness.queue(message_ttl=0)
    harness.publish(queue, message())
    harness.turn()
    assert (queue.ready, queue.counters.expired, harness.gauge.used) == (0, 1, 0)


@pytest.mark.feature("S0-21")
def test_ttl_zero_with_a_ready_consumer_is_delivered(harness: QueueHarness) -> None:
    """Attempt delivery comes before the TTL-0 shortcut."""
    queue = harness.queue(message_ttl=0)
    consumer = SpyConsumer(queue=queue, credit=2)
    queue.add_consumer(consumer)
    harness.publish(queue, *messages(b"a", b"b", b"c"))
    harness.turn()
    assert consumer.bodies == [b"a", b"b"]
    assert (queue.ready, queue.unacked, queue.counters.expired) == (0, 2, 1)


@pytest.mark.feature("S0-21")
def test_ttl_zero_is_delivered_however_many_come_at_once(harness: QueueHarness) -> None:
    """A burst that needs several turns must not cost messages for which a consumer has room."""
    queue = harness.queue(message_ttl=0)
    consumer = SpyConsumer(queue=queue, no_ack=True)
    queue.add_consumer(consumer)
    harness.publish(queue, *[message(b"%d" % number) for number in range(10_000)])
    harness.turn()
    assert len(consumer.given) == 10_000
    assert queue.counters.expired == 0


def test_own_expiration_zero_is_delivered_or_dies_at_once(harness: QueueHarness) -> None:
    queue = harness.queue()
    harness.publish(queue, message(b"a", deadline=harness.clock.now()), message(b"b"))
    harness.turn()
    assert ready(queue) == [b"b"]


def test_a_message_that_was_held_too_long_dies_when_it_returns(harness: QueueHarness) -> None:
    queue = harness.queue(message_ttl=1000)
    consumer = SpyConsumer(queue=queue)
    queue.add_consumer(consumer)
    harness.publish(queue, *messages(b"a", b"b"))
    harness.turn()
    harness.advance(5)
    assert queue.unacked == 2, "what a consumer holds does not expire"
    consumer.requeue(b"a")
    harness.turn()
    assert consumer.bodies == [b"b"]
    assert queue.counters.expired == 1


def test_a_returned_message_keeps_its_deadline(harness: QueueHarness) -> None:
    queue = harness.queue()
    consumer = SpyConsumer(queue=queue, credit=1)
    queue.add_consumer(consumer)
    harness.publish(queue, message(b"a", deadline=after(harness, 2)), message(b"b"))
    harness.turn()
    queue.remove_consumer(consumer)
    consumer.requeue(b"a")
    harness.turn()
    assert ready(queue) == [b"a", b"b"]
    harness.advance(2)
    assert ready(queue) == [b"b"]


def test_a_delivered_message_does_not_die_twice(harness: QueueHarness) -> None:
    queue = harness.queue()
    consumer = SpyConsumer(queue=queue)
    queue.add_consumer(consumer)
    harness.publish(queue, message(b"a", deadline=after(harness, 1)))
    harness.turn()
    harness.advance(3)
    assert (queue.unacked, queue.counters.expired) == (1, 0)
    consumer.ack(b"a")
    harness.turn()
    assert harness.gauge.used == 0


def test_an_earlier_deadline_moves_the_timer_forward(harness: QueueHarness) -> None:
    queue = harness.queue()
    for seconds in (9, 3, 5):
        harness.publish(queue, message(b"%d" % seconds, deadline=after(harness, seconds)))
        harness.turn()
    assert harness.timers.next_due() == after(harness, 3)
    harness.advance(3)
    assert ready(queue) == [b"9", b"5"]
    harness.advance(3)
    assert ready(queue) == [b"9"]


def test_getting_by_hand_sees_no_expired_message(harness: QueueHarness) -> None:
    queue = harness.queue(message_ttl=1000)
    harness.publish(queue, message(b"a"))
    harness.turn()
    harness.clock.move_to(after(harness, 2))  # the timer has not fired yet
    assert queue.get(no_ack=True) is None
    assert harness.gauge.used == 0


def test_deadlines_work_per_priority(harness: QueueHarness) -> None:
    queue = harness.queue(max_priority=5, message_ttl=10_000)
    harness.publish(
        queue,
        message(b"low", priority=1),
        message(b"dying", priority=5, deadline=after(harness, 1)),
        message(b"high", priority=5),
    )
    harness.turn()
    harness.advance(1)
    assert ready(queue) == [b"high", b"low"]
    harness.advance(9)
    assert ready(queue) == []


def test_entries_of_messages_that_are_gone_do_not_pile_up(harness: QueueHarness) -> None:
    """A day of expiration on a busy queue must not keep an entry for every message of the day."""
    queue = harness.queue()
    queue.add_consumer(SpyConsumer(queue=queue, no_ack=True))
    for _ in range(30):
        harness.publish(queue, *[message(deadline=after(harness, 86_400)) for _ in range(500)])
        harness.turn()
    assert queue.deadlines is not None
    assert len(queue.deadlines) < 3_000


def test_sweeping_keeps_every_entry_that_is_still_needed(harness: QueueHarness) -> None:
    queue = harness.queue()
    consumer = SpyConsumer(queue=queue, credit=0)
    keep = [message(b"k%d" % number, deadline=after(harness, 5)) for number in range(10)]
    queue.add_consumer(consumer)
    harness.publish(queue, *keep)
    harness.turn()
    consumer.credit = 3
    queue.touch()
    harness.turn()
    for body in (b"k0", b"k1"):
        consumer.credit = 0
        consumer.requeue(body)
        consumer.credit = 0
    assert queue.deadlines is not None
    queue.deadlines.sweep()
    harness.advance(5)
    assert ready(queue) == []
    assert queue.counters.expired == 9


def test_entries_that_cannot_be_swept_are_not_swept_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of messages that are on disk only nobody here knows whether they are still there."""
    lane = QueueHarness().queue().lanes[0]
    lane.page_stop = 1_000_000
    deadlines = Deadlines([lane])
    for sequence in range(3_000):
        deadlines.watch(0, lane.head + sequence, 50.0)
    sweeps = []
    sweep = Deadlines.sweep

    def counted(self: Deadlines) -> None:
        sweeps.append(1)
        sweep(self)

    monkeypatch.setattr(Deadlines, "sweep", counted)
    for now in range(10):
        assert deadlines.collect(float(now)) == []
    assert (len(sweeps), len(deadlines)) == (1, 3_000)


def test_an_entry_keeps_deadline_lane_and_sequence() -> None:
    for deadline in (0.0, 1000.25, -3.5, 9.0e12):
        assert unpacked(packed(deadline, 255, (1 << 40) - 1)) == (deadline, 255, (1 << 40) - 1)
    assert packed(1.0, 255, (1 << 40) - 1) < packed(1.000001, 0, 0)


@pytest.mark.parametrize("deadline", [1000.3 + 0.5, 1000.1 + 0.2, 1e5 / 3, 7.0000001])
def test_what_is_due_by_the_clock_is_due_in_the_heap(harness: QueueHarness, deadline: float) -> None:
    queue = harness.queue()
    harness.publish(queue, message(b"first"))
    harness.turn()
    queue.lane.attempted = queue.lane.tail
    deadlines = Deadlines(queue.lanes)
    deadlines.watch(0, queue.lane.head, deadline)
    assert deadlines.next_deadline() >= deadline - 1e-6
    assert deadlines.collect(deadline - 0.000002) == []
    (death,) = deadlines.collect(deadline)
    assert death.message is not None


def test_no_more_die_at_once_than_may(harness: QueueHarness) -> None:
    queue = harness.queue()
    harness.publish(queue, *[message(deadline=after(harness, 1)) for _ in range(10)])
    harness.turn()
    assert queue.deadlines is not None
    now = after(harness, 2)
    assert [len(queue.deadlines.collect(now, most=4)) for _ in range(4)] == [4, 4, 2, 0]


def test_nothing_is_due_in_an_empty_queue() -> None:
    harness = QueueHarness()
    deadlines = Deadlines(harness.queue().lanes)
    assert deadlines.collect(1e9) == []
    assert deadlines.next_deadline() == float("inf")
