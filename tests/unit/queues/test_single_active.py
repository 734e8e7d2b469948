"""x-single-active-consumer: one gets everything, the others stand by and take over in the order they came."""

from __future__ import annotations

import pytest

from leveret.delivery.consumer_ring import SingleActive
from leveret.errors import AccessRefused
from leveret.queues.classic import ClassicQueue
from leveret.wire.methods import BasicCancel, BasicConsume, ChannelClose
from tests.support.peer_pair import Client, Harness
from tests.support.selector_consumers import consumer_of, die, given
from tests.support.spies import QueueHarness, SpyConsumer, messages


@pytest.fixture
def harness() -> QueueHarness:
    return QueueHarness()


@pytest.fixture
def queue(harness: QueueHarness) -> ClassicQueue:
    return harness.queue(single_active_consumer=True)


def active(queue: ClassicQueue) -> SpyConsumer | None:
    assert isinstance(queue.consumers, SingleActive)
    found = queue.consumers.active
    assert found is None or isinstance(found, SpyConsumer)
    return found


def test_the_first_consumer_gets_everything(harness: QueueHarness, queue: ClassicQueue) -> None:
    assert active(queue) is None
    first, second = consumer_of(queue), consumer_of(queue)
    harness.publish(queue, *messages(b"1", b"2", b"3"))
    harness.turn()
    assert (given(first), given(second)) == ("1 2 3", "")
    assert active(queue) is first


def test_a_full_active_consumer_is_not_helped_out(harness: QueueHarness, queue: ClassicQueue) -> None:
    first, second = consumer_of(queue, 1), consumer_of(queue)
    harness.publish(queue, *messages(b"1", b"2"))
    harness.turn()
    assert (given(first), given(second), queue.ready) == ("1", "", 1)


def test_others_take_over_in_the_order_they_came(harness: QueueHarness, queue: ClassicQueue) -> None:
    consumers = [consumer_of(queue, tag=str(number)) for number in range(4)]
    for number, consumer in enumerate(consumers):
        assert active(queue) is consumer
        harness.publish(queue, *messages(b"%d" % number))
        harness.turn()
        assert given(consumer) == str(number)
        queue.remove_consumer(consumer)
    assert active(queue) is None


def test_what_a_dead_active_consumer_held_goes_to_the_next_in_order(harness: QueueHarness, queue: ClassicQueue) -> None:
    first, second = consumer_of(queue, 2), consumer_of(queue)
    harness.publish(queue, *messages(b"1", b"2", b"3"))
    harness.turn()
    die(first)
    harness.turn()
    assert [(each.body, each.count) for each in second.given] == [(b"1", 1), (b"2", 1), (b"3", 0)]


def test_one_that_stands_by_may_leave(harness: QueueHarness, queue: ClassicQueue) -> None:
    first, second, third = (consumer_of(queue) for _ in range(3))
    queue.remove_consumer(second)
    assert active(queue) is first
    queue.remove_consumer(first)
    assert active(queue) is third


def test_a_higher_priority_takes_over_for_what_is_new(harness: QueueHarness, queue: ClassicQueue) -> None:
    """What the former one holds stays with it."""
    first = consumer_of(queue)
    harness.publish(queue, *messages(b"1"))
    harness.turn()
    second = consumer_of(queue, priority=1)
    equal = consumer_of(queue, priority=1)
    harness.publish(queue, *messages(b"2"))
    harness.turn()
    assert (given(first), given(second), given(equal)) == ("1", "2", "")
    assert active(queue) is second
    first.ack(b"1")
    queue.remove_consumer(second)
    harness.publish(queue, *messages(b"3"))
    harness.turn()
    assert (given(first), given(equal)) == ("", "3")


def test_a_lower_priority_does_not_take_over(harness: QueueHarness, queue: ClassicQueue) -> None:
    first = consumer_of(queue)
    consumer_of(queue, priority=-1)
    assert active(queue) is first


def test_who_pulls_one_message_hands_over_after_it(harness: QueueHarness, queue: ClassicQueue) -> None:
    first, second = consumer_of(queue, one_shot=True), consumer_of(queue)
    harness.publish(queue, *messages(b"1", b"2"))
    harness.turn()
    assert (given(first), first.cancelled, given(second)) == ("1", 1, "2")


def test_an_exclusive_consumer_is_refused_as_rabbitmq_does(queue: ClassicQueue) -> None:
    """403, also when nobody consumes."""
    with pytest.raises(AccessRefused, match="queue 'q' in vhost '/' in exclusive use"):
        consumer_of(queue, exclusive=True)
    assert len(queue.consumers) == 0
    consumer_of(queue)
    with pytest.raises(AccessRefused):
        consumer_of(queue, exclusive=True)


# ---- over AMQP: every way to lose a consumer


@pytest.fixture
def clients() -> list[Client]:
    harness = Harness()
    clients = [harness.client() for _ in range(3)]
    clients[0].declare("q", arguments={"x-single-active-consumer": True})
    for client in clients:
        client.consume("q")
    return clients


def test_the_next_is_active_after_a_cancel(clients: list[Client]) -> None:
    clients[2].publish("q", b"1")
    clients[0].send(BasicCancel("tag"))
    clients[2].publish("q", b"2")
    assert [client.bodies() for client in clients] == [[b"1"], [b"2"], []]


def test_the_next_is_active_after_a_channel_is_closed(clients: list[Client]) -> None:
    clients[2].publish("q", b"1")
    clients[0].send(ChannelClose(200, "", 0, 0))
    clients[2].publish("q", b"2")
    assert clients[1].bodies() == [b"1", b"2"]


def test_the_next_is_active_after_a_connection_is_lost(clients: list[Client]) -> None:
    clients[2].publish("q", b"1")
    clients[0].vanish()
    clients[2].publish("q", b"2")
    assert [client.bodies() for client in clients[1:]] == [[b"1", b"2"], []]
    clients[1].vanish()
    assert clients[2].bodies() == [b"1", b"2"]


def test_exclusive_over_amqp_is_a_403(clients: list[Client]) -> None:
    clients[0].send(BasicConsume("q", "another", exclusive=True))
    assert clients[0].error() == (403, "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use")
