"""What the memory of ids does not decide: messages that the broker took back, and streams. Returned messages, too."""

from __future__ import annotations

import pytest

import leveret
from leveret.client import Channel, Properties, Unroutable
from tests.support.chaos_proxy import ChaosProxy
from tests.support.failover_client import failing_over, run, taken, told

TEN_SECONDS = {"x-consumer-timeout": 10_000}


def bodies_in(broker: leveret.Broker, queue: str) -> list[bytes]:
    """What is in the queue, which is empty then."""
    vhost = broker.vhost()
    return [got.body for got in iter(lambda: vhost.get(queue, auto_ack=True), None)]


async def answered(channel: Channel) -> None:
    """The broker has done everything that the channel said before, and the channel knows what the broker said."""
    await channel.qos(100)


def delete_the_queue_of(broker: leveret.Broker) -> str:
    """Though it is exclusive. Its name."""
    vhost = broker.node.broker.vhost("/")
    ((name, queue),) = vhost.queues.items()
    vhost.delete_queue(name, owner=queue.owner)
    return name


@pytest.mark.parametrize("is_settled", [False, True], ids=["crashes", "acks"])
def test_a_message_that_the_broker_took_back_is_not_lost_with_a_slow_application(
    leveret_broker: leveret.Broker, is_settled: bool
) -> None:
    """It comes again while the application has it in hand: acked at once, nobody would have it after a crash."""

    async def work() -> None:
        async with failing_over(leveret_broker.amqp_url) as (_, channel, _):
            await channel.declare_queue("q", arguments=TEN_SECONDS)
            consumer = await channel.consume("q")
            channel.send(b"m", "", "q", Properties(message_id="m"))
            slow = await consumer.next()
            assert slow is not None
            leveret_broker.clock.advance(10)
            await answered(channel)
            assert not consumer.waiting, "the application has it"
            if is_settled:
                slow.ack()

    run(work)
    assert bodies_in(leveret_broker, "q") == ([] if is_settled else [b"m"])


def test_a_message_that_the_broker_took_back_is_seen_again_once_it_is_given_back(
    leveret_broker: leveret.Broker,
) -> None:
    async def work() -> None:
        async with failing_over(leveret_broker.amqp_url) as (_, channel, _):
            await channel.declare_queue("q", arguments=TEN_SECONDS)
            consumer = await channel.consume("q")
            channel.send(b"m", "", "q", Properties(message_id="m"))
            slow = await consumer.next()
            assert slow is not None
            for _ in range(3):
                leveret_broker.clock.advance(10)
                await answered(channel)
            slow.nack(requeue=True)
            assert await taken(consumer, 1) == [b"m"]

    run(work)
    assert bodies_in(leveret_broker, "q") == []


def test_two_readers_of_a_stream_see_each_message_and_so_does_one_who_goes_back(
    leveret_broker: leveret.Broker,
) -> None:
    async def work() -> None:
        async with failing_over(leveret_broker.amqp_url) as (_, channel, _):
            await channel.declare_queue("s", durable=True, arguments={"x-queue-type": "stream"})
            await channel.confirm_select()
            for name in ("a", "b", "c"):
                await channel.publish(name.encode(), routing_key="s", properties=Properties(message_id=name))
            await channel.qos(10)
            for _ in range(3):
                consumer = await channel.consume("s", arguments={"x-stream-offset": "first"})
                assert await taken(consumer, 3) == [b"a", b"b", b"c"]

    run(work)


def test_a_message_that_comes_back_from_a_queue_with_a_new_name_is_unroutable(
    leveret_broker: leveret.Broker,
) -> None:
    """It comes back with the name that the queue has now, by which the application does not know it."""

    async def work() -> None:
        async with ChaosProxy(leveret_broker.amqp_url) as proxy, failing_over(proxy.url) as (connection, channel, _):
            queue = (await channel.declare_queue(exclusive=True)).queue
            await channel.confirm_select()
            await told(connection, "reconnected", proxy.cut)
            await channel.publish(b"there", routing_key=queue, mandatory=True)
            name = leveret_broker.call(lambda: delete_the_queue_of(leveret_broker))
            assert name != queue
            with pytest.raises(Unroutable) as came_back:
                await channel.publish(b"gone", routing_key=queue, mandatory=True)
            assert came_back.value.returned.routing_key == name

    run(work)
