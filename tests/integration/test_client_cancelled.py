"""Tasks that are cancelled in the middle of a call, and what they leave behind: nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import leveret
from leveret.client import Channel, Closed, Connection, Fetched
from tests.support.chaos_proxy import ChaosProxy
from tests.support.client_scenarios import live
from tests.support.failover_client import failing_over, run, told

Call = Callable[[], Coroutine[Any, Any, object]]


async def given_up(call: Call) -> None:
    """The question is on its way; whoever asked is gone before the answer."""
    task = asyncio.ensure_future(call())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def filled(channel: Channel, *bodies: bytes) -> str:
    queue = (await channel.declare_queue(exclusive=True)).queue
    for body in bodies:
        channel.send(body, "", queue)
    return queue


# ---- one connection


def test_a_close_that_is_given_up_ends_the_channel_all_the_same(broker: leveret.Broker) -> None:
    """Who waits on it learns it, and its number is free again."""

    async def story(connection: Connection) -> None:
        channel, other = await connection.channel(), await connection.channel()
        consumer = await channel.consume(await filled(channel))
        waiting = asyncio.ensure_future(consumer.next())
        await given_up(channel.close)
        await other.qos(1)
        with pytest.raises(Closed):
            await waiting
        assert (await connection.channel()).number == channel.number

    live(broker.amqp_url, story)


def test_a_cancel_that_is_given_up_ends_the_consumer_all_the_same(broker: leveret.Broker) -> None:
    """What it held is back in the queue, and who waits for more learns that none will come."""

    async def story(connection: Connection) -> None:
        channel = await connection.channel()
        queue = await filled(channel, b"1", b"2")
        consumer = await channel.consume(queue)
        await channel.qos(10)
        assert len(consumer.waiting) == 2
        await given_up(consumer.cancel)
        await channel.qos(10)
        fetched = await channel.get(queue)
        assert fetched is not None
        assert (fetched.body, fetched.left) == (b"1", 1)
        with pytest.raises(Closed):
            await consumer.next()

    live(broker.amqp_url, story)


CALLS: dict[str, Callable[[Channel, str], Call]] = {
    "declare": lambda channel, queue: lambda: channel.declare_queue(queue, passive=True),
    "get": lambda channel, queue: lambda: channel.get(queue),
    "consume": lambda channel, queue: lambda: channel.consume(queue),
    "confirm": lambda channel, _: channel.confirm_select,
}


@pytest.mark.parametrize("name", CALLS)
def test_a_question_that_is_given_up_harms_no_later_one(broker: leveret.Broker, name: str) -> None:
    async def story(connection: Connection) -> None:
        channel = await connection.channel()
        queue = await filled(channel, b"1")
        await given_up(CALLS[name](channel, queue))
        await channel.qos(1)
        await channel.qos(1)  # what was given back is back
        assert (await channel.declare_queue(queue, passive=True)).consumer_count == 0
        fetched = await channel.get(queue)
        assert fetched is not None

    live(broker.amqp_url, story)


# ---- failover


@pytest.mark.feature("S3-08")
def test_a_get_that_is_given_up_keeps_nothing(leveret_broker: leveret.Broker) -> None:
    """Its message is back in the queue, and nobody takes it for one that the application has."""

    async def work() -> Fetched | None:
        async with failing_over(leveret_broker.amqp_url) as (_, channel, _):
            await channel.declare_queue("q")
            await channel.publish(b"1", "", "q")
            await given_up(lambda: channel.get("q"))
            await channel.qos(1)
            return await channel.get("q")

    fetched = run(work)
    assert fetched is not None
    assert fetched.body == b"1"


@pytest.mark.parametrize("name", ["channel", "declare"])
@pytest.mark.feature("S3-08")
def test_channels_that_nobody_got_are_closed(leveret_broker: leveret.Broker, name: str) -> None:
    """Also those that the client opens for itself."""

    async def work() -> list[int]:
        async with failing_over(leveret_broker.amqp_url) as (connection, channel, _):
            await given_up(lambda: connection.channel() if name == "channel" else channel.declare_queue("q"))
            for _ in range(3):
                await channel.qos(1)
            return sorted(connection._channels)

    assert run(work) == [1]


@pytest.mark.parametrize("is_waited_for", [True, False])
@pytest.mark.feature("S3-08")
def test_a_close_at_the_moment_of_a_loss_does_not_stop_the_others(
    leveret_broker: leveret.Broker, is_waited_for: bool
) -> None:
    """What is closed is not made again, and all else is."""

    async def work() -> None:
        async with ChaosProxy(leveret_broker.amqp_url) as proxy, failing_over(proxy.url) as (connection, channel, _):
            other = await connection.channel()
            proxy.stall()
            closing = asyncio.ensure_future(other.close())
            await asyncio.sleep(0)
            if not is_waited_for:
                closing.cancel()
                await asyncio.wait([closing])
            await told(connection, "lost", proxy.cut)
            await told(connection, "reconnected", proxy.resume)
            await channel.qos(1)
            assert sorted(connection._channels) == [channel.number]
            assert other.is_closed
            if is_waited_for:
                await closing

    run(work)


@pytest.mark.feature("S3-08")
def test_a_channel_that_is_closed_while_it_comes_back_is_closed_at_the_broker(
    leveret_broker: leveret.Broker,
) -> None:
    """Else the next channel would get a number that the broker believes to be open."""

    async def work() -> None:
        async with ChaosProxy(leveret_broker.amqp_url) as proxy, failing_over(proxy.url) as (connection, channel, _):
            other = await connection.channel()
            await other.qos(7)
            other_restore = type(other).restore  # type: ignore[attr-defined]
            begun = asyncio.Event()

            async def slowly(self: Any, grace: Any) -> None:
                if self is other:
                    asyncio.get_running_loop().call_soon(begun.set)
                await other_restore(self, grace)

            type(other).restore = slowly  # type: ignore[attr-defined]
            try:
                back = asyncio.ensure_future(told(connection, "reconnected", proxy.cut))
                await begun.wait()
                await other.close()
                await back
            finally:
                type(other).restore = other_restore  # type: ignore[attr-defined]
            again = await connection.channel()
            assert again.number == other.number
            assert proxy.accepted == 2, "once is enough to come back"
            await again.qos(1)
            await channel.qos(1)

    run(work)


@pytest.mark.feature("S3-08")
def test_a_close_of_the_connection_that_is_given_up_ends_it(leveret_broker: leveret.Broker) -> None:
    """Whoever waits for it to come back learns that it will not."""

    async def work() -> None:
        async with ChaosProxy(leveret_broker.amqp_url) as proxy, failing_over(proxy.url) as (connection, channel, _):
            await proxy.refuse()
            await told(connection, "reconnecting", proxy.cut)
            waiting = asyncio.ensure_future(channel.qos(1))
            await asyncio.sleep(0)
            await given_up(connection.close)
            with pytest.raises(Closed):
                await waiting
            assert connection.is_closed

    run(work)
