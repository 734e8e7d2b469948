"""Consumers: callbacks and iteration, what ends them, and where what they did not take goes."""

from __future__ import annotations

import asyncio

import pytest

import leveret
from leveret.client import Cancelled, Channel, Connection, Delivery, connect
from tests.support.client_scenarios import live


async def queue_with(channel: Channel, *bodies: bytes) -> str:
    queue = (await channel.declare_queue(exclusive=True)).queue
    for body in bodies:
        channel.send(body, "", queue)
    return queue


@pytest.mark.feature("S1-01")
def test_a_callback_gets_each_message_and_may_be_a_coroutine(broker: leveret.Broker) -> None:
    async def story(connection: Connection) -> None:
        channel = await connection.channel()
        queue = await queue_with(channel, b"1", b"2", b"3")
        plain: list[bytes] = []
        done = asyncio.Event()

        def take(message: Delivery) -> None:
            plain.append(message.body)
            message.ack()
            if len(plain) == 3:
                done.set()

        consumer = await channel.consume(queue, take)
        await done.wait()
        await consumer.cancel()
        assert plain == [b"1", b"2", b"3"]
        awaited = asyncio.Event()

        async def take_slowly(message: Delivery) -> None:
            await channel.qos(1)
            message.ack()
            awaited.set()

        await channel.consume(queue, take_slowly)
        channel.send(b"4", "", queue)
        await awaited.wait()

    live(broker.amqp_url, story)


def test_a_consumer_is_ended_when_its_queue_is_deleted(broker: leveret.Broker) -> None:
    async def story(connection: Connection) -> None:
        channel = await connection.channel()
        queue = await queue_with(channel)
        consumer = await channel.consume(queue, tag="mine")
        waiting = asyncio.create_task(consumer.next())
        async with await connect(broker.amqp_url) as _:
            deleting = await connection.channel()
            await deleting.delete_queue(queue)
        with pytest.raises(Cancelled, match=f"cancelled consumer 'mine': queue '{queue}' was deleted"):
            await waiting
        assert consumer.is_over
        await consumer.cancel()  # it is over: nothing to do
        await channel.qos(1)  # and the channel lives

    live(broker.amqp_url, story)


def test_what_a_cancelled_consumer_did_not_take_goes_back_to_its_place(broker: leveret.Broker) -> None:
    async def story(connection: Connection) -> None:
        channel = await connection.channel()
        queue = await queue_with(channel, b"1", b"2", b"3")
        async with await channel.consume(queue) as consumer:
            first = await consumer.next()
            assert first is not None
            first.ack()
        left = [await channel.get(queue, no_ack=True) for _ in range(3)]
        assert [each and each.body for each in left] == [b"2", b"3", None]

    live(broker.amqp_url, story)


def test_what_a_cancelled_consumer_without_acks_did_not_take_is_still_there(broker: leveret.Broker) -> None:
    """The broker has forgotten it: nobody else could have it."""

    async def story(connection: Connection) -> None:
        channel = await connection.channel()
        queue = await queue_with(channel, b"1", b"2", b"3")
        async with await channel.consume(queue, no_ack=True) as consumer:
            first = await consumer.next()
            assert first is not None
        assert [message.body async for message in consumer] == [b"2", b"3"]
        assert (await channel.declare_queue(queue, passive=True)).message_count == 0

    live(broker.amqp_url, story)


def test_what_is_not_acked_goes_back_when_the_channel_or_the_connection_closes(broker: leveret.Broker) -> None:
    async def story(connection: Connection) -> None:
        channel = await connection.channel()
        queue = await queue_with(channel, b"1")
        holding = await connection.channel()
        consumer = await holding.consume(queue)
        assert await consumer.next() is not None
        assert await channel.get(queue) is None
        await holding.close()
        again = await channel.get(queue)
        assert again is not None
        assert again.redelivered

    live(broker.amqp_url, story)


def test_multiple_acks_all_up_to_it_and_no_ack_asks_for_none(broker: leveret.Broker) -> None:
    async def story(connection: Connection) -> None:
        channel = await connection.channel()
        queue = await queue_with(channel, b"1", b"2", b"3")
        consumer = await channel.consume(queue)
        messages = [await consumer.next() for _ in range(3)]
        assert messages[1] is not None
        messages[1].ack(multiple=True)
        await channel.recover()
        again = await consumer.next()
        assert again is not None
        assert (again.body, again.redelivered) == (b"3", True)
        again.ack()
        await consumer.cancel()
        channel.send(b"4", "", queue)
        free = await channel.consume(queue, no_ack=True)
        assert await free.next() is not None
        await free.cancel()
        await channel.close()
        other = await connection.channel()
        assert (await other.declare_queue(queue, passive=True)).message_count == 0

    live(broker.amqp_url, story)


def test_an_exclusive_consumer_is_alone(broker: leveret.Broker) -> None:
    async def story(connection: Connection) -> None:
        channel, other = await connection.channel(), await connection.channel()
        queue = await queue_with(channel)
        await channel.consume(queue, exclusive=True)
        with pytest.raises(leveret.errors.AccessRefused, match="exclusive"):
            await other.consume(queue)

    live(broker.amqp_url, story)


def test_two_readers_of_one_consumer_share_its_messages(broker: leveret.Broker) -> None:
    async def story(connection: Connection) -> None:
        channel = await connection.channel()
        queue = await queue_with(channel)
        consumer = await channel.consume(queue, no_ack=True)
        seen: list[bytes] = []
        is_all = asyncio.Event()

        async def read() -> None:
            async for message in consumer:
                seen.append(message.body)
                if len(seen) == 50:
                    is_all.set()

        readers = [asyncio.create_task(read()) for _ in range(2)]
        for number in range(50):
            channel.send(str(number).encode(), "", queue)
            await channel.qos(0)
        await is_all.wait()
        await consumer.cancel()
        await asyncio.gather(*readers)
        assert sorted(map(int, seen)) == list(range(50))

    live(broker.amqp_url, story)
