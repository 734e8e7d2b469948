"""A queue: the order of its pipeline, and every way a message can leave it (section 0 of the checklist)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from leveret.queues.classic import BURST, ClassicQueue
from leveret.store.log import Placement
from leveret.wire.content import body_of
from tests.support.spies import QueueHarness, SpyConsumer, SpyLog, message, messages, ready, size_of


@pytest.fixture
def harness() -> QueueHarness:
    return QueueHarness()


def consumer_of(queue: ClassicQueue, credit: int = 1 << 60, **more: object) -> SpyConsumer:
    consumer = SpyConsumer(queue=queue, credit=credit, **more)
    queue.add_consumer(consumer)
    return consumer


# ---- in and out


@pytest.mark.feature("S0-16", "S0-20")
def test_a_ready_consumer_gets_the_message_straight(harness: QueueHarness) -> None:
    """Within the turn of its publish it never counts as ready, and goes no further."""
    queue = harness.queue()
    seen: list[int] = []
    queue.observers.append(lambda queue: seen.append(queue.ready))
    consumer = consumer_of(queue)
    harness.publish(queue, message(b"a"))
    harness.turn()
    assert consumer.bodies == [b"a"]
    assert (queue.ready, queue.unacked, set(seen)) == (0, 1, {0})


@pytest.mark.feature("S0-23")
def test_without_a_ready_consumer_it_is_enqueued(harness: QueueHarness) -> None:
    queue = harness.queue()
    consumer_of(queue, credit=0)
    harness.publish(queue, *messages(b"a", b"b"))
    harness.turn()
    assert (ready(queue), queue.unacked) == ([b"a", b"b"], 0)


@pytest.mark.feature("S4-47")
def test_consume_then_publish_and_publish_then_consume_give_the_same(harness: QueueHarness) -> None:
    """The backlog first, then what is new."""
    queue = harness.queue()
    harness.publish(queue, *messages(b"a", b"b"))
    harness.turn()
    consumer = consumer_of(queue)
    harness.turn()
    harness.publish(queue, message(b"c"))
    harness.turn()
    assert consumer.bodies == [b"a", b"b", b"c"]


@pytest.mark.feature("S0-16", "S0-20", "S0-21", "S0-23", "S0-25")
def test_the_pipeline_runs_in_its_order(harness: QueueHarness) -> None:
    """Attempt, TTL 0, enqueue, expiry, and only then the observers."""
    queue = harness.queue()
    steps: list[str] = []
    consumer = consumer_of(queue, credit=1)
    now = harness.clock.now()
    queue.observers.append(
        lambda queue: steps.append(f"{len(consumer.given)} delivered, {queue.counters.expired} expired, {ready(queue)}")
    )
    harness.publish(queue, message(b"a", deadline=now), message(b"b", deadline=now), message(b"c"))
    harness.turn()
    assert steps == ["1 delivered, 1 expired, [b'c']"]


@pytest.mark.feature("S0-19")
def test_observers_hear_after_every_attempt_whether_it_delivered_or_not(harness: QueueHarness) -> None:
    """Empty, filled, and consumers that come and go."""
    queue = harness.queue()
    news: list[tuple[int, int]] = []
    queue.observers.append(lambda queue: news.append((queue.ready, len(queue.consumers))))
    harness.publish(queue, message())
    harness.turn()
    consumer = consumer_of(queue)
    harness.turn()
    queue.remove_consumer(consumer)
    harness.turn()
    assert news == [(1, 0), (0, 1), (0, 0)]


@pytest.mark.feature("S4-48")
def test_consumers_take_turns(harness: QueueHarness) -> None:
    queue = harness.queue()
    one, two = consumer_of(queue, tag="one"), consumer_of(queue, tag="two")
    harness.publish(queue, *[message(b"%d" % number) for number in range(5)])
    harness.turn()
    assert (one.bodies, two.bodies) == ([b"0", b"2", b"4"], [b"1", b"3"])


def test_a_consumer_that_takes_little_at_a_time_still_gets_all(harness: QueueHarness) -> None:
    queue = harness.queue()
    consumer = consumer_of(queue)
    consumer.greed = 2
    harness.publish(queue, *[message(b"%d" % number) for number in range(5)])
    harness.turn()
    assert consumer.bodies == [b"0", b"1", b"2", b"3", b"4"]
    assert consumer.takes == 3


def test_a_long_backlog_is_delivered_in_several_turns(harness: QueueHarness) -> None:
    queue = harness.queue()
    consumer = consumer_of(queue)
    harness.publish(queue, *[message() for _ in range(BURST + 1)])
    queue.drain()
    assert (len(consumer.given), queue.dirty) == (BURST, True)
    harness.turn()
    assert len(consumer.given) == BURST + 1


def test_a_hole_costs_no_consumer_its_turn(harness: QueueHarness) -> None:
    queue = harness.queue()
    one, two = consumer_of(queue, credit=0, tag="one"), consumer_of(queue, credit=0, tag="two")
    harness.publish(queue, message(b"a"), message(b"b", deadline=harness.clock.now() + 1), message(b"c"), message(b"d"))
    harness.turn()
    harness.advance(1)
    one.credit = two.credit = 5
    queue.touch()
    harness.turn()
    assert (one.bodies, two.bodies) == ([b"a", b"d"], [b"c"])


# ---- priorities


def test_higher_priority_goes_out_first_and_equals_keep_their_order(harness: QueueHarness) -> None:
    queue = harness.queue(max_priority=3)
    harness.publish(
        queue, *[message(b"%d-%d" % (number, prio), priority=prio) for number, prio in enumerate((0, 3, 1, 3))]
    )
    harness.turn()
    consumer = consumer_of(queue)
    harness.turn()
    assert consumer.bodies == [b"1-3", b"3-3", b"2-1", b"0-0"]


def test_a_priority_above_the_maximum_counts_as_the_maximum(harness: QueueHarness) -> None:
    queue = harness.queue(max_priority=2)
    harness.publish(queue, message(b"a", priority=2), message(b"b", priority=255))
    harness.turn()
    assert ready(queue) == [b"a", b"b"]


def test_places_of_a_run_are_told_by_lane(harness: QueueHarness) -> None:
    queue = harness.queue(max_priority=2)
    run = [message(b"a"), message(b"b", priority=2), message(b"c")]
    assert queue.place(run, size_of(run), False) == [Placement(1, 0, 1, 2, 2), Placement(1, 2, 1, 1, 2)]
    assert queue.place(run[:1], size_of(run[:1]), False) == [Placement(1, 0, 3, 1, 2)]


def test_getting_looks_past_a_lane_whose_last_message_has_died(harness: QueueHarness) -> None:
    queue = harness.queue(max_priority=1)
    high, dying = message(b"high", priority=1), message(b"dying", priority=1, deadline=harness.clock.now() + 1)
    harness.publish(queue, high, dying, message(b"low"))
    harness.turn()
    harness.advance(1)
    for body in (b"high", b"low"):
        taken = queue.get(no_ack=True)
        assert taken is not None
        assert body_of(taken.message[0]) == body
    assert queue.get(no_ack=True) is None


def test_delivery_goes_on_past_a_lane_whose_last_message_has_died(harness: QueueHarness) -> None:
    queue = harness.queue(max_priority=1)
    consumer = consumer_of(queue, credit=0)
    high, dying = message(b"high", priority=1), message(b"dying", priority=1, deadline=harness.clock.now() + 1)
    harness.publish(queue, high, dying, message(b"low"))
    harness.turn()
    harness.advance(1)
    consumer.credit = 5
    queue.touch()
    harness.turn()
    assert consumer.bodies == [b"high", b"low"]


# ---- by hand


def test_getting_takes_the_first_and_tells_how_many_are_left(harness: QueueHarness) -> None:
    queue = harness.queue()
    harness.publish(queue, *messages(b"a", b"b", b"c"))
    taken = queue.get(no_ack=False)
    assert taken is not None
    assert (body_of(taken.message[0]), taken.sequence, taken.delivery_count, taken.left) == (b"a", 1, 0, 2)
    assert (queue.unacked, queue.counters.got, queue.counters.received) == (1, 1, 3)
    queue.requeue(taken.lane, taken.sequence, [taken.message], taken.delivery_count)
    again = queue.get(no_ack=True)
    assert again is not None
    assert (again.sequence, again.delivery_count) == (1, 1)
    assert queue.counters.redelivered == 1


def test_getting_comes_after_consumers_that_were_there_first(harness: QueueHarness) -> None:
    queue = harness.queue()
    consumer = consumer_of(queue, credit=1)
    harness.publish(queue, *messages(b"a", b"b"))
    taken = queue.get(no_ack=True)
    assert taken is not None
    assert (consumer.bodies, body_of(taken.message[0])) == ([b"a"], b"b")


# ---- back to its place


@pytest.mark.feature("S4-55")
def test_a_requeued_message_returns_to_its_original_place(harness: QueueHarness) -> None:
    queue = harness.queue()
    consumer = consumer_of(queue, credit=3)
    harness.publish(queue, *messages(b"a", b"b", b"c", b"d"))
    harness.turn()
    queue.remove_consumer(consumer)
    for body in (b"c", b"a"):
        consumer.requeue(body)
    harness.turn()
    assert ready(queue) == [b"a", b"c", b"d"]
    other = consumer_of(queue)
    harness.turn()
    assert [(given.body, given.count) for given in other.given] == [(b"a", 1), (b"c", 1), (b"d", 0)]
    assert queue.counters.redelivered == 2


def test_every_return_counts_one_delivery_more(harness: QueueHarness) -> None:
    queue = harness.queue()
    consumer = consumer_of(queue, credit=1)
    harness.publish(queue, message(b"a"))
    for tries in range(4):
        harness.turn()
        assert [given.count for given in consumer.given] == [tries]
        consumer.requeue(b"a")


# ---- the books


@pytest.mark.feature("S0-28")
def test_counters_tell_everything_that_happened(harness: QueueHarness) -> None:
    queue = harness.queue()
    consumer = consumer_of(queue, credit=4)
    harness.publish(queue, *messages(b"a", b"b", b"c", b"d", b"e"))
    harness.turn()
    consumer.ack(b"a")
    consumer.drop(b"b")
    consumer.requeue(b"c")
    consumer.credit = 0
    harness.turn()
    queue.purge()
    counters = queue.counters
    told = {name: getattr(counters, name) for name in counters.__slots__}
    assert told == {
        "received": 5,
        "delivered": 4,
        "delivered_no_ack": 0,
        "got": 0,
        "got_no_ack": 0,
        "got_nothing": 0,
        "redelivered": 0,
        "acked": 1,
        "requeued": 1,
        "dropped": 1,
        "dead_lettered": 0,
        "duplicates": 0,
        "refused": 0,
        "timed_out": 0,
        "expired": 0,
        "purged": 2,
    }


def test_deliveries_that_need_no_ack_are_counted_apart(harness: QueueHarness) -> None:
    queue = harness.queue()
    consumer_of(queue, no_ack=True)
    harness.publish(queue, *messages(b"a", b"b"))
    harness.turn()
    assert (queue.counters.delivered, queue.counters.delivered_no_ack, queue.unacked) == (2, 2, 0)


def leave_by_ack(harness: QueueHarness, queue: ClassicQueue) -> None:
    consumer = consumer_of(queue)
    harness.turn()
    consumer.ack(b"a")
    consumer.ack(b"b")


def leave_by_drop(harness: QueueHarness, queue: ClassicQueue) -> None:
    consumer = consumer_of(queue)
    harness.turn()
    consumer.drop(b"b")
    consumer.drop(b"a")


def leave_by_no_ack(harness: QueueHarness, queue: ClassicQueue) -> None:
    consumer_of(queue, no_ack=True)


def leave_by_get(harness: QueueHarness, queue: ClassicQueue) -> None:
    queue.get(no_ack=True)
    taken = queue.get(no_ack=False)
    assert taken is not None
    queue.settle(taken.lane, taken.sequence, [taken.message])
    queue.touch()


def leave_by_purge(harness: QueueHarness, queue: ClassicQueue) -> None:
    assert queue.purge() == 2


def leave_by_redelivery(harness: QueueHarness, queue: ClassicQueue) -> None:
    consumer = consumer_of(queue, credit=1)
    harness.turn()
    queue.remove_consumer(consumer)
    consumer.requeue(b"a")
    consumer_of(queue, no_ack=True)


def leave_by_time(harness: QueueHarness, queue: ClassicQueue) -> None:
    harness.advance(60)


def leave_by_death(harness: QueueHarness, queue: ClassicQueue) -> None:
    consumer_of(queue, credit=1)
    harness.turn()
    assert queue.die() == 1


@pytest.mark.parametrize("arguments", [{}, {"max_priority": 2}, {"message_ttl": 60_000}], ids=str)
@pytest.mark.parametrize(
    "leave",
    [
        *(leave_by_ack, leave_by_drop, leave_by_no_ack, leave_by_get, leave_by_purge, leave_by_redelivery),
        *(leave_by_time, leave_by_death),
    ],
)
def test_memory_returns_to_zero_in_every_way_a_message_leaves(
    harness: QueueHarness, leave: Callable[[QueueHarness, ClassicQueue], None], arguments: dict[str, object]
) -> None:
    queue = harness.queue(**arguments)
    own = harness.clock.now() + 60
    harness.publish(queue, message(b"a", deadline=own, priority=1), message(b"b", deadline=own))
    harness.turn()
    assert harness.gauge.used > queue.bytes > 0
    leave(harness, queue)
    harness.turn()
    assert (queue.bytes, queue.ready, queue.unacked, harness.gauge.used) == (0, 0, 0, 0)


def test_a_durable_queue_tells_the_log_what_is_done_with() -> None:
    log = SpyLog()
    harness = QueueHarness(log)
    queue = harness.queue(durable=True)
    consumer = consumer_of(queue, credit=2)
    harness.publish(queue, *messages(b"a", b"b", b"c"))
    harness.turn()
    consumer.drop(b"b")
    consumer.ack(b"a")
    consumer.credit = 0
    queue.purge()
    assert log.settled == [(1, 0, 2, 1), (1, 0, 1, 1), (1, 0, 3, 1)]
    queue.die()
    assert log.forgotten == [1]


def test_a_transient_queue_never_bothers_the_log(harness: QueueHarness) -> None:
    queue = harness.queue()
    harness.publish(queue, message())
    harness.turn()
    queue.purge()
    queue.die()
    assert isinstance(harness.log, SpyLog)
    assert (harness.log.settled, harness.log.forgotten) == ([], [])
