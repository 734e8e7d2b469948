"""A queue's life: consumers, exclusiveness, disuse and death (S4-73)."""

from __future__ import annotations

import pytest

from leveret.errors import AccessRefused
from tests.support.spies import QueueHarness, SpyConsumer, message, messages, ready


@pytest.fixture
def harness() -> QueueHarness:
    return QueueHarness()


def test_an_exclusive_consumer_wants_the_queue_for_itself(harness: QueueHarness) -> None:
    queue = harness.queue()
    first = SpyConsumer(queue=queue)
    queue.add_consumer(first)
    with pytest.raises(AccessRefused, match="queue 'q' in vhost '/' in exclusive use"):
        queue.add_consumer(SpyConsumer(queue=queue, exclusive=True))
    queue.remove_consumer(first)
    queue.add_consumer(SpyConsumer(queue=queue, exclusive=True))
    with pytest.raises(AccessRefused):
        queue.add_consumer(SpyConsumer(queue=queue))


@pytest.mark.feature("S4-73")
def test_an_auto_delete_queue_asks_to_go_with_its_last_consumer(harness: QueueHarness) -> None:
    queue = harness.queue(auto_delete=True)
    harness.turn()
    assert harness.retired == [], "never consumed: it stays"
    one, two = SpyConsumer(queue=queue), SpyConsumer(queue=queue)
    queue.add_consumer(one)
    queue.add_consumer(two)
    queue.remove_consumer(one)
    assert harness.retired == []
    queue.remove_consumer(two)
    assert harness.retired == [queue]


def test_removing_a_consumer_that_is_not_there_changes_nothing(harness: QueueHarness) -> None:
    queue = harness.queue(auto_delete=True)
    queue.remove_consumer(SpyConsumer(queue=queue))
    assert harness.retired == []


def test_an_unused_queue_expires(harness: QueueHarness) -> None:
    queue = harness.queue(expires=1000)
    harness.advance(0.9)
    assert harness.retired == []
    harness.advance(0.1)
    assert harness.retired == [queue]


def test_every_use_starts_the_clock_of_disuse_again(harness: QueueHarness) -> None:
    queue = harness.queue(expires=1000)
    for use in (queue.note_use, lambda: queue.get(no_ack=True)):
        harness.advance(0.9)
        use()
    harness.advance(0.9)
    assert harness.retired == []
    harness.advance(0.1)
    assert harness.retired == [queue]


def test_publishing_is_no_use(harness: QueueHarness) -> None:
    queue = harness.queue(expires=1000)
    harness.advance(0.9)
    harness.publish(queue, message())
    harness.turn()
    harness.advance(0.1)
    assert harness.retired == [queue]


def test_a_consumer_keeps_the_queue_and_leaving_starts_the_clock(harness: QueueHarness) -> None:
    queue = harness.queue(expires=1000)
    consumer = SpyConsumer(queue=queue)
    queue.add_consumer(consumer)
    harness.advance(10)
    assert harness.retired == []
    queue.remove_consumer(consumer)
    harness.advance(0.9)
    assert harness.retired == []
    harness.advance(0.1)
    assert harness.retired == [queue]


def test_a_dead_queue_does_nothing_any_more(harness: QueueHarness) -> None:
    queue = harness.queue(expires=1000, message_ttl=500, auto_delete=True)
    consumer = SpyConsumer(queue=queue, credit=2)
    queue.add_consumer(consumer)
    harness.publish(queue, *messages(b"a", b"b", b"c"))
    harness.turn()
    assert queue.die() == 1
    assert (consumer.cancelled, len(queue.consumers)) == (1, 0)
    consumer.ack(b"a")
    consumer.requeue(b"b")
    queue.drop(0, 9, messages(b"x"))
    queue.remove_consumer(consumer)
    harness.turn()
    harness.advance(10)
    assert (harness.gauge.used, queue.bytes, queue.unacked, ready(queue)) == (0, 0, 0, [])
    assert harness.retired == []


def test_a_dirty_queue_that_dies_delivers_nothing(harness: QueueHarness) -> None:
    queue = harness.queue()
    consumer = SpyConsumer(queue=queue)
    queue.add_consumer(consumer)
    harness.publish(queue, message())
    queue.die()
    harness.turn()
    assert consumer.given == []
    assert harness.gauge.used == 0


@pytest.mark.feature("S0-01")
def test_what_reaches_a_dead_queue_is_not_kept(harness: QueueHarness) -> None:
    """Vanished destinations are skipped, and cost no memory."""
    queue = harness.queue()
    queue.die()
    harness.publish(queue, message(b"late"))
    assert queue.place(messages(b"later"), 10, False) == []
    harness.turn()
    assert (queue.ready, queue.bytes, harness.gauge.used, harness.context.dirty) == (0, 0, 0, [])


def test_a_touched_queue_is_on_the_list_once(harness: QueueHarness) -> None:
    queue = harness.queue()
    queue.touch()
    queue.touch()
    harness.publish(queue, message())
    assert harness.context.dirty == [queue]


@pytest.mark.feature("S4-49")
def test_no_thread_serves_a_queue(harness: QueueHarness) -> None:
    """Queues are plain objects; a thousand of them cost no thread."""
    import threading

    before = threading.active_count()
    queues = [harness.queue(f"q{number}") for number in range(1000)]
    for queue in queues:
        harness.publish(queue, message())
    harness.turn()
    assert sum(queue.ready for queue in queues) == 1000
    assert threading.active_count() == before
