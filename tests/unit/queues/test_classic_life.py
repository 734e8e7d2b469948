"""A queue's life: consumers, exclusiveness, disuse and death (S4-73)."""

from __future__ import annotations

import pytest

from leveret.errors import AccessRefused
from tests.support.spies import QueueHouse, SpyConsumer, message, messages, ready


@pytest.fixture
def house() -> QueueHouse:
    return QueueHouse()


def test_an_exclusive_consumer_wants_the_queue_for_itself(house: QueueHouse) -> None:
    queue = house.queue()
    first = SpyConsumer(queue=queue)
    queue.add_consumer(first)
    with pytest.raises(AccessRefused, match="queue 'q' in vhost '/' in exclusive use"):
        queue.add_consumer(SpyConsumer(queue=queue, exclusive=True))
    queue.remove_consumer(first)
    queue.add_consumer(SpyConsumer(queue=queue, exclusive=True))
    with pytest.raises(AccessRefused):
        queue.add_consumer(SpyConsumer(queue=queue))


@pytest.mark.feature("S4-73")
def test_an_auto_delete_queue_asks_to_go_with_its_last_consumer(house: QueueHouse) -> None:
    queue = house.queue(auto_delete=True)
    house.turn()
    assert house.retired == [], "never consumed: it stays"
    one, two = SpyConsumer(queue=queue), SpyConsumer(queue=queue)
    queue.add_consumer(one)
    queue.add_consumer(two)
    queue.remove_consumer(one)
    assert house.retired == []
    queue.remove_consumer(two)
    assert house.retired == [queue]


def test_removing_a_consumer_that_is_not_there_changes_nothing(house: QueueHouse) -> None:
    queue = house.queue(auto_delete=True)
    queue.remove_consumer(SpyConsumer(queue=queue))
    assert house.retired == []


def test_an_unused_queue_expires(house: QueueHouse) -> None:
    queue = house.queue(expires=1000)
    house.advance(0.9)
    assert house.retired == []
    house.advance(0.1)
    assert house.retired == [queue]


def test_every_use_starts_the_clock_of_disuse_again(house: QueueHouse) -> None:
    queue = house.queue(expires=1000)
    for use in (queue.note_use, lambda: queue.get(no_ack=True)):
        house.advance(0.9)
        use()
    house.advance(0.9)
    assert house.retired == []
    house.advance(0.1)
    assert house.retired == [queue]


def test_publishing_is_no_use(house: QueueHouse) -> None:
    queue = house.queue(expires=1000)
    house.advance(0.9)
    house.publish(queue, message())
    house.turn()
    house.advance(0.1)
    assert house.retired == [queue]


def test_a_consumer_keeps_the_queue_and_leaving_starts_the_clock(house: QueueHouse) -> None:
    queue = house.queue(expires=1000)
    consumer = SpyConsumer(queue=queue)
    queue.add_consumer(consumer)
    house.advance(10)
    assert house.retired == []
    queue.remove_consumer(consumer)
    house.advance(0.9)
    assert house.retired == []
    house.advance(0.1)
    assert house.retired == [queue]


def test_a_dead_queue_does_nothing_any_more(house: QueueHouse) -> None:
    queue = house.queue(expires=1000, message_ttl=500, auto_delete=True)
    consumer = SpyConsumer(queue=queue, credit=2)
    queue.add_consumer(consumer)
    house.publish(queue, *messages(b"a", b"b", b"c"))
    house.turn()
    assert queue.die() == 1
    assert (consumer.cancelled, len(queue.consumers)) == (1, 0)
    consumer.ack(b"a")
    consumer.requeue(b"b")
    queue.drop(0, 9, messages(b"x"))
    queue.remove_consumer(consumer)
    house.turn()
    house.advance(10)
    assert (house.gauge.used, queue.bytes, queue.unacked, ready(queue)) == (0, 0, 0, [])
    assert house.retired == []


def test_a_dirty_queue_that_dies_delivers_nothing(house: QueueHouse) -> None:
    queue = house.queue()
    consumer = SpyConsumer(queue=queue)
    queue.add_consumer(consumer)
    house.publish(queue, message())
    queue.die()
    house.turn()
    assert consumer.given == []
    assert house.gauge.used == 0


@pytest.mark.feature("S0-01")
def test_what_reaches_a_dead_queue_is_not_kept(house: QueueHouse) -> None:
    """Vanished destinations are skipped, and cost no memory."""
    queue = house.queue()
    queue.die()
    house.publish(queue, message(b"late"))
    assert queue.place(messages(b"later"), 10, False) == []
    house.turn()
    assert (queue.ready, queue.bytes, house.gauge.used, house.context.dirty) == (0, 0, 0, [])


def test_a_touched_queue_is_on_the_list_once(house: QueueHouse) -> None:
    queue = house.queue()
    queue.touch()
    queue.touch()
    house.publish(queue, message())
    assert house.context.dirty == [queue]


@pytest.mark.feature("S4-49")
def test_no_thread_serves_a_queue(house: QueueHouse) -> None:
    """Queues are plain objects; a thousand of them cost no thread."""
    import threading

    before = threading.active_count()
    queues = [house.queue(f"q{number}") for number in range(1000)]
    for queue in queues:
        house.publish(queue, message())
    house.turn()
    assert sum(queue.ready for queue in queues) == 1000
    assert threading.active_count() == before
