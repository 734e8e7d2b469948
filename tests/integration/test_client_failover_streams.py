"""Readers of streams over a failover: connection go on where they were."""

from __future__ import annotations

import pytest

import leveret
from leveret.client import Channel, Consumer
from leveret.wire.fields import Table
from tests.support.failover_client import told
from tests.support.failover_connection import Line, one_of, play

STREAM: Table = {"x-queue-type": "stream"}


async def read(consumer: Consumer, count: int) -> list[bytes]:
    bodies = []
    for _ in range(count):
        delivery = await one_of(consumer)
        delivery.ack()
        bodies.append(delivery.body)
    return bodies


async def write(channel: Channel, *numbers: int) -> None:
    for number in numbers:
        await channel.publish(b"%d" % number, routing_key="s")


async def miss(line: Line, broker: leveret.Broker, *numbers: int) -> None:
    """These are published while there is no connection."""
    await line.proxy.refuse()
    await told(line.connection, "lost", line.proxy.cut)
    async with await leveret.client.connect(broker.amqp_url) as other:
        channel = await other.channel()
        await channel.confirm_select()
        await write(channel, *numbers)
    again = told(line.connection, "reconnected", lambda: None)
    await line.proxy.listen()
    await again


@pytest.mark.parametrize("is_declared_here", [True, False])
@pytest.mark.parametrize("start", ["first", "next", None])
def test_a_reader_goes_on_behind_what_it_has_read(
    leveret_broker: leveret.Broker, start: str | None, is_declared_here: bool
) -> None:
    """It misses nothing of what was published in the outage, and reads nothing twice."""

    async def story(line: Line) -> None:
        channel = line.channel
        if is_declared_here:
            await channel.declare_queue("s", durable=True, arguments=STREAM)
        else:
            async with await leveret.client.connect(leveret_broker.amqp_url) as other:
                await (await other.channel()).declare_queue("s", durable=True, arguments=STREAM)
        await channel.confirm_select()
        await channel.qos(2)
        consumer = await channel.consume("s", arguments={} if start is None else {"x-stream-offset": start})
        await write(channel, 0, 1, 2, 3)
        assert await read(consumer, 2) == [b"0", b"1"]  # and up to two more wait in the client
        await miss(line, leveret_broker, 4, 5)
        await write(channel, 6)
        assert await read(consumer, 5) == [b"2", b"3", b"4", b"5", b"6"]
        await miss(line, leveret_broker, 7)
        assert await read(consumer, 1) == [b"7"]

    play(leveret_broker, story)


def test_a_message_in_hand_is_not_read_again(leveret_broker: leveret.Broker) -> None:
    async def story(line: Line) -> None:
        channel = line.channel
        await channel.declare_queue("s", durable=True, arguments=STREAM)
        await channel.confirm_select()
        await channel.qos(10)
        consumer = await channel.consume("s", arguments={"x-stream-offset": "first"})
        await write(channel, 0, 1)
        first, second = await one_of(consumer), await one_of(consumer)
        await line.cut()
        await write(channel, 2)
        assert await read(consumer, 1) == [b"2"]
        for delivery in (first, second):
            delivery.ack()

    play(leveret_broker, story)


def test_a_reader_whose_place_the_broker_keeps_goes_on_there(leveret_broker: leveret.Broker) -> None:
    """What it has not acked comes again."""

    async def story(line: Line) -> None:
        channel = line.channel
        await channel.declare_queue("s", durable=True, arguments=STREAM)
        await channel.confirm_select()
        await channel.qos(10)
        arguments: Table = {"x-stream-offset": "first", "x-stream-consumer": "ann"}
        consumer = await channel.consume("s", arguments=arguments)
        await write(channel, 0, 1)
        assert await read(consumer, 1) == [b"0"]
        await channel.qos(10)
        await one_of(consumer)
        await line.cut()
        assert await read(consumer, 1) == [b"1"]

    play(leveret_broker, story)


def test_a_queue_that_was_filled_from_a_stream_is_no_stream(leveret_broker: leveret.Broker) -> None:
    """Its messages have the header, too, in any order."""

    async def story(line: Line) -> None:
        channel = line.channel
        await channel.declare_queue("q")
        await channel.confirm_select()
        consumer = await channel.consume("q")
        for offset in (7, 3):
            properties = leveret.client.Properties(headers={"x-stream-offset": offset})
            await channel.publish(b"%d" % offset, routing_key="q", properties=properties)
        first = await one_of(consumer)
        await line.cut()
        assert (await one_of(consumer)).body in (b"3", b"7")
        first.ack()

    play(leveret_broker, story)
