"""Which waiting message dies when; time is moved by the test (S0-21)."""

from __future__ import annotations

import pytest

from leveret.backlog.deadlines import Deadlines, packed, unpacked
from tests.support.spies import QueueHouse, SpyConsumer, message, messages, ready


@pytest.fixture
def house() -> QueueHouse:
    return QueueHouse()


def after(house: QueueHouse, seconds: float) -> float:
    return house.clock.now() + seconds


def test_the_queues_ttl_kills_in_order(house: QueueHouse) -> None:
    queue = house.queue(message_ttl=1000)
    house.publish(queue, *messages(b"a", b"b"))
    house.turn()
    house.advance(0.5)
    house.publish(queue, message(b"c"))
    house.turn()
    house.advance(0.5)
    assert ready(queue) == [b"c"]
    house.advance(0.5)
    assert ready(queue) == []
    assert queue.counters.expired == 3


def test_a_message_dies_anywhere_in_the_queue(house: QueueHouse) -> None:
    """Not only at the head, as RabbitMQ would have it."""
    queue = house.queue()
    house.publish(queue, message(b"a"), message(b"b", deadline=after(house, 1)), message(b"c"))
    house.turn()
    house.advance(1)
    assert ready(queue) == [b"a", b"c"]
    assert (queue.ready, queue.counters.expired) == (2, 1)


@pytest.mark.parametrize(("own", "dies"), [(0.5, 0.5), (5.0, 1.0)])
def test_the_earlier_of_own_expiration_and_ttl_decides(house: QueueHouse, own: float, dies: float) -> None:
    queue = house.queue(message_ttl=1000)
    house.publish(queue, message(b"front"), message(b"m", deadline=after(house, own)))
    house.turn()
    house.advance(dies - 0.01)
    assert b"m" in ready(queue)
    house.advance(0.01)
    assert b"m" not in ready(queue)


@pytest.mark.feature("S0-21")
def test_ttl_zero_without_a_ready_consumer_is_discarded(house: QueueHouse) -> None:
    queue = house.queue(message_ttl=0)
    house.publish(queue, message())
    house.turn()
    assert (queue.ready, queue.counters.expired, house.gauge.used) == (0, 1, 0)


@pytest.mark.feature("S0-21")
def test_ttl_zero_with_a_ready_consumer_is_delivered(house: QueueHouse) -> None:
    """Attempt delivery comes before the TTL-0 shortcut."""
    queue = house.queue(message_ttl=0)
    consumer = SpyConsumer(queue=queue, credit=2)
    queue.add_consumer(consumer)
    house.publish(queue, *messages(b"a", b"b", b"c"))
    house.turn()
    assert consumer.bodies == [b"a", b"b"]
    assert (queue.ready, queue.unacked, queue.counters.expired) == (0, 2, 1)


@pytest.mark.feature("S0-21")
def test_ttl_zero_is_delivered_however_many_come_at_once(house: QueueHouse) -> None:
    """A burst that needs several turns must not cost messages for which a consumer has room."""
    queue = house.queue(message_ttl=0)
    consumer = SpyConsumer(queue=queue, no_ack=True)
    queue.add_consumer(consumer)
    house.publish(queue, *[message(b"%d" % number) for number in range(10_000)])
    house.turn()
    assert len(consumer.given) == 10_000
    assert queue.counters.expired == 0


def test_own_expiration_zero_is_delivered_or_dies_at_once(house: QueueHouse) -> None:
    queue = house.queue()
    house.publish(queue, message(b"a", deadline=house.clock.now()), message(b"b"))
    house.turn()
    assert ready(queue) == [b"b"]


def test_a_message_that_was_held_too_long_dies_when_it_returns(house: QueueHouse) -> None:
    queue = house.queue(message_ttl=1000)
    consumer = SpyConsumer(queue=queue)
    queue.add_consumer(consumer)
    house.publish(queue, *messages(b"a", b"b"))
    house.turn()
    house.advance(5)
    assert queue.unacked == 2, "what a consumer holds does not expire"
    consumer.requeue(b"a")
    house.turn()
    assert consumer.bodies == [b"b"]
    assert queue.counters.expired == 1


def test_a_returned_message_keeps_its_deadline(house: QueueHouse) -> None:
    queue = house.queue()
    consumer = SpyConsumer(queue=queue, credit=1)
    queue.add_consumer(consumer)
    house.publish(queue, message(b"a", deadline=after(house, 2)), message(b"b"))
    house.turn()
    queue.remove_consumer(consumer)
    consumer.requeue(b"a")
    house.turn()
    assert ready(queue) == [b"a", b"b"]
    house.advance(2)
    assert ready(queue) == [b"b"]


def test_a_delivered_message_does_not_die_twice(house: QueueHouse) -> None:
    queue = house.queue()
    consumer = SpyConsumer(queue=queue)
    queue.add_consumer(consumer)
    house.publish(queue, message(b"a", deadline=after(house, 1)))
    house.turn()
    house.advance(3)
    assert (queue.unacked, queue.counters.expired) == (1, 0)
    consumer.ack(b"a")
    house.turn()
    assert house.gauge.used == 0


def test_an_earlier_deadline_moves_the_timer_forward(house: QueueHouse) -> None:
    queue = house.queue()
    for seconds in (9, 3, 5):
        house.publish(queue, message(b"%d" % seconds, deadline=after(house, seconds)))
        house.turn()
    assert house.timers.next_due() == after(house, 3)
    house.advance(3)
    assert ready(queue) == [b"9", b"5"]
    house.advance(3)
    assert ready(queue) == [b"9"]


def test_getting_by_hand_sees_no_expired_message(house: QueueHouse) -> None:
    queue = house.queue(message_ttl=1000)
    house.publish(queue, message(b"a"))
    house.turn()
    house.clock.move_to(after(house, 2))  # the timer has not fired yet
    assert queue.get(no_ack=True) is None
    assert house.gauge.used == 0


def test_deadlines_work_per_priority(house: QueueHouse) -> None:
    queue = house.queue(max_priority=5, message_ttl=10_000)
    house.publish(
        queue,
        message(b"low", priority=1),
        message(b"dying", priority=5, deadline=after(house, 1)),
        message(b"high", priority=5),
    )
    house.turn()
    house.advance(1)
    assert ready(queue) == [b"high", b"low"]
    house.advance(9)
    assert ready(queue) == []


def test_entries_of_messages_that_are_gone_do_not_pile_up(house: QueueHouse) -> None:
    """A day of expiration on a busy queue must not keep an entry for every message of the day."""
    queue = house.queue()
    queue.add_consumer(SpyConsumer(queue=queue, no_ack=True))
    for _ in range(30):
        house.publish(queue, *[message(deadline=after(house, 86_400)) for _ in range(500)])
        house.turn()
    assert queue.deadlines is not None
    assert len(queue.deadlines) < 3_000


def test_sweeping_keeps_every_entry_that_is_still_needed(house: QueueHouse) -> None:
    queue = house.queue()
    consumer = SpyConsumer(queue=queue, credit=0)
    keep = [message(b"k%d" % number, deadline=after(house, 5)) for number in range(10)]
    queue.add_consumer(consumer)
    house.publish(queue, *keep)
    house.turn()
    consumer.credit = 3
    queue.touch()
    house.turn()
    for body in (b"k0", b"k1"):
        consumer.credit = 0
        consumer.requeue(body)
        consumer.credit = 0
    assert queue.deadlines is not None
    queue.deadlines.sweep()
    house.advance(5)
    assert ready(queue) == []
    assert queue.counters.expired == 9


def test_entries_that_cannot_be_swept_are_not_swept_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of messages that are on disk only nobody here knows whether they are still there."""
    lane = QueueHouse().queue().lanes[0]
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
def test_what_is_due_by_the_clock_is_due_in_the_heap(house: QueueHouse, deadline: float) -> None:
    queue = house.queue()
    house.publish(queue, message(b"first"))
    house.turn()
    queue.lane.attempted = queue.lane.tail
    deadlines = Deadlines(queue.lanes)
    deadlines.watch(0, queue.lane.head, deadline)
    assert deadlines.next_deadline() >= deadline - 1e-6
    assert deadlines.collect(deadline - 0.000002) == []
    (death,) = deadlines.collect(deadline)
    assert death.message is not None


def test_no_more_die_at_once_than_may(house: QueueHouse) -> None:
    queue = house.queue()
    house.publish(queue, *[message(deadline=after(house, 1)) for _ in range(10)])
    house.turn()
    assert queue.deadlines is not None
    now = after(house, 2)
    assert [len(queue.deadlines.collect(now, most=4)) for _ in range(4)] == [4, 4, 2, 0]


def test_nothing_is_due_in_an_empty_queue() -> None:
    house = QueueHouse()
    deadlines = Deadlines(house.queue().lanes)
    assert deadlines.collect(1e9) == []
    assert deadlines.next_deadline() == float("inf")
