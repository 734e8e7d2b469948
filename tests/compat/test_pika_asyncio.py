"""pika's AsyncioConnection: callbacks all the way, hung on futures here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pika
import pytest
from pika.adapters.asyncio_connection import AsyncioConnection
from pika.channel import Channel

import leveret
from tests.compat.waiting import soon


async def answer_of(method: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call with a callback and wait for it."""
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    method(
        *arguments, callback=lambda *reply: future.done() or future.set_result(reply[0] if reply else None), **options
    )
    return await asyncio.wait_for(future, 10)


class Session:
    """A connection with one channel; remembers how they ended."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.closed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self.channel_closed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

    async def open(self) -> Channel:
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.connection = AsyncioConnection(
            pika.URLParameters(self._url),
            on_open_callback=lambda _: opened.set_result(None),
            on_open_error_callback=lambda _, error: opened.set_exception(error),
            on_close_callback=lambda _, reason: self.closed.set_result(reason),
        )
        await asyncio.wait_for(opened, 10)
        return await self.open_channel()

    async def open_channel(self) -> Channel:
        made: asyncio.Future[Channel] = asyncio.get_running_loop().create_future()
        self.connection.channel(on_open_callback=made.set_result)
        channel = await asyncio.wait_for(made, 10)
        channel.add_on_close_callback(
            lambda _, reason: self.channel_closed.done() or self.channel_closed.set_result(reason)
        )
        return channel

    async def close(self) -> None:
        self.connection.close()
        await asyncio.wait_for(self.closed, 10)


def run(broker: leveret.Broker, scenario: Callable[[Session, Channel], Awaitable[None]]) -> None:
    async def live() -> None:
        session = Session(broker.amqp_url)
        channel = await session.open()
        await scenario(session, channel)
        if not session.connection.is_closed:
            await session.close()

    asyncio.run(live())


def test_messages_go_round_and_are_acked(leveret_broker: leveret.Broker) -> None:
    async def scenario(session: Session, channel: Channel) -> None:
        declared = await answer_of(channel.queue_declare, "", exclusive=True)
        queue = declared.method.queue
        await answer_of(channel.queue_bind, queue, "amq.topic", "word.#")
        await answer_of(channel.basic_qos, prefetch_count=10)
        seen: list[bytes] = []

        def take(channel: Channel, method: Any, properties: Any, body: bytes) -> None:
            seen.append(body)
            channel.basic_ack(method.delivery_tag)

        await answer_of(channel.basic_consume, queue, take)
        for number in range(100):
            channel.basic_publish("amq.topic", f"word.{number}", str(number).encode())
        await soon(lambda: len(seen) == 100)
        assert seen == [str(number).encode() for number in range(100)]
        left = await answer_of(channel.queue_declare, queue, passive=True)
        assert left.method.message_count == 0

    run(leveret_broker, scenario)


@pytest.mark.feature("S4-58", "S4-74")
def test_confirms_under_way_all_arrive(leveret_broker: leveret.Broker) -> None:
    """No waiting between publishes; the broker may confirm many at once."""

    async def scenario(session: Session, channel: Channel) -> None:
        confirmed: set[int] = set()
        nacked: list[int] = []

        def settled(frame: Any) -> None:
            tag = frame.method.delivery_tag
            if frame.method.NAME == "Basic.Nack":
                nacked.append(tag)
            confirmed.update(range(1, tag + 1) if frame.method.multiple else [tag])

        await answer_of(channel.confirm_delivery, settled)
        await answer_of(channel.queue_declare, "bulk")
        for number in range(2000):
            channel.basic_publish("", "bulk", str(number).encode())
        await soon(lambda: len(confirmed) == 2000)
        assert (confirmed, nacked) == (set(range(1, 2001)), [])

    run(leveret_broker, scenario)


@pytest.mark.feature("S4-05", "S4-81")
def test_a_channel_that_the_broker_closes_can_be_replaced(leveret_broker: leveret.Broker) -> None:

    async def scenario(session: Session, channel: Channel) -> None:
        channel.queue_declare("nowhere", passive=True, callback=lambda _: None)
        reason = await asyncio.wait_for(session.channel_closed, 10)
        assert isinstance(reason, pika.exceptions.ChannelClosedByBroker)
        assert reason.reply_code == 404
        again = await session.open_channel()
        assert (await answer_of(again.queue_declare, "", exclusive=True)).method.queue

    run(leveret_broker, scenario)


def test_a_cancelled_consumer_hears_of_it(leveret_broker: leveret.Broker) -> None:
    async def scenario(session: Session, channel: Channel) -> None:
        await answer_of(channel.queue_declare, "doomed")
        cancelled: list[str] = []
        channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
        ok = await answer_of(channel.basic_consume, "doomed", lambda *_: None)
        await answer_of(channel.queue_delete, "doomed")
        await soon(lambda: cancelled)
        assert cancelled == [ok.method.consumer_tag]

    run(leveret_broker, scenario)


def test_a_broker_that_stops_says_so(leveret_broker: leveret.Broker) -> None:
    async def scenario(session: Session, channel: Channel) -> None:
        stopping = asyncio.get_running_loop().run_in_executor(None, leveret_broker.stop)
        reason = await asyncio.wait_for(session.closed, 10)
        assert isinstance(reason, pika.exceptions.ConnectionClosedByBroker)
        assert reason.reply_code == 320
        await asyncio.wait_for(stopping, 10)

    run(leveret_broker, scenario)
