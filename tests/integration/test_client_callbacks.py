"""Functions of the application that raise: the loop's handler is told, and nothing else of the client is harmed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import leveret
from leveret.client import Channel, Connection, Delivery
from tests.support.chaos_proxy import ChaosProxy
from tests.support.client_scenarios import live
from tests.support.failover_client import failing_over, run, told


def fail(*_: object) -> None:
    raise ValueError("the test's own")


def reports() -> list[Any]:
    """What the loop's handler is told from now on."""
    told: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
    return told


def is_own(problem: object) -> bool:
    return isinstance(problem, ValueError) and str(problem) == "the test's own"


async def awaited_by(event: asyncio.Event) -> None:
    event.set()


async def queue_of(channel: Channel) -> str:
    return (await channel.declare_queue(exclusive=True)).queue


def test_a_callback_that_raises_does_not_end_the_connection(broker: leveret.Broker) -> None:
    async def story(connection: Connection) -> None:
        heard = reports()
        channel = await connection.channel()
        queue = await queue_of(channel)
        got: list[bytes] = []

        def take(delivery: Delivery) -> None:
            got.append(delivery.body)
            fail()

        await channel.consume(queue, take)
        for body in (b"1", b"2"):
            channel.send(body, "", queue)
        await channel.qos(1)
        await channel.qos(1)
        assert got == [b"1", b"2"]
        assert [is_own(each) for each in heard] == [True, True]

    live(broker.amqp_url, story)


def test_what_a_callback_returns_is_awaited_if_it_can_be_and_else_no_matter(broker: leveret.Broker) -> None:
    async def story(connection: Connection) -> None:
        heard = reports()
        channel = await connection.channel()
        queue = await queue_of(channel)
        got: list[bytes] = []
        awaited = asyncio.Event()
        outcomes: list[Any] = [True, "text", awaited_by(awaited), 0, None]

        def take(delivery: Delivery) -> object:
            got.append(delivery.body)
            return outcomes[len(got) - 1]

        await channel.consume(queue, take)
        for body in (b"1", b"2", b"3", b"4", b"5"):
            channel.send(body, "", queue)
        await channel.qos(1)
        await channel.qos(1)
        assert got == [b"1", b"2", b"3", b"4", b"5"]
        assert awaited.is_set()
        assert heard == []

    live(broker.amqp_url, story)


def test_returns_and_ends_that_raise(broker: leveret.Broker) -> None:
    async def story(connection: Connection) -> None:
        heard = reports()
        first, second = await connection.channel(), await connection.channel()
        first.on_return = fail
        first.on_close = fail
        waiting = asyncio.ensure_future((await second.consume(await queue_of(second))).next())
        first.send(b"", "", "nowhere", mandatory=True)
        await first.qos(1)
        await connection.close()
        await asyncio.wait([waiting])
        assert waiting.exception() is not None
        assert [is_own(each) for each in heard] == [True, True]

    live(broker.amqp_url, story)


@pytest.mark.feature("S3-08")
def test_a_listener_that_raises_does_not_keep_the_connection_down(leveret_broker: leveret.Broker) -> None:
    """It is made again, and the other listeners are told."""

    async def work() -> None:
        heard = reports()
        async with (
            ChaosProxy(leveret_broker.amqp_url) as proxy,
            failing_over(proxy.url) as (connection, channel, kinds),
        ):
            connection.listeners.insert(0, fail)
            await told(connection, "reconnected", proxy.cut)
            await channel.qos(1)
            assert kinds == ["lost", "reconnecting", "reconnected"]
        assert len(heard) == 4
        assert all(is_own(each) for each in heard)

    run(work)
