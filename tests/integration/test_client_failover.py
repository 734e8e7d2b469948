"""failover: addresses against brokers behind a proxy that cuts, delays, half-closes and stalls connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pytest

import leveret
from leveret.client import Channel, Connection, Delivery, Properties, connect
from leveret.client.errors import ConnectionLost, TransactionRolledBack, Unroutable
from leveret.errors import LoginRefused, NotFound
from tests.support.chaos_proxy import ChaosProxy

T = TypeVar("T")
SECONDS = 30.0  # the longest that anything here may take
QUICK = "initialReconnectDelay=1&maxReconnectDelay=50"


def run(work: Coroutine[Any, Any, T], seconds: float = SECONDS) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(seconds):
            return await work

    return asyncio.run(bounded())


@asynccontextmanager
async def failing_over(*urls: str, options: str = QUICK) -> AsyncIterator[tuple[Connection, Channel, list[str]]]:
    """A connection, a channel and the kinds of what happens."""
    connection = await connect(f"failover:({','.join(urls)})?{options}")
    kinds: list[str] = []
    connection.listeners.append(lambda happening: kinds.append(happening.kind))
    try:
        yield connection, await connection.channel(), kinds
    finally:
        await connection.close()


async def told(connection: Connection, kind: str, cause: Callable[[], object]) -> Exception | None:
    """Until a listener is told of it, after ``cause``."""
    seen: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def look(happening: Any) -> None:
        if happening.kind == kind and not seen.done():
            seen.set_result(happening.problem)

    connection.listeners.append(look)
    cause()
    try:
        return await seen
    finally:
        connection.listeners.remove(look)


async def taken(consumer: Any, count: int) -> list[bytes]:
    """That many messages, acked."""
    bodies = []
    for _ in range(count):
        delivery = await consumer.next()
        delivery.ack()
        bodies.append(delivery.body)
    return bodies


# ---- what lives on


def test_s3_08_everything_lives_on_when_the_connection_is_cut(leveret_broker: leveret.Broker) -> None:
    """S3-08: it connects again by itself: topology, consumers, qos and confirms are as before."""

    async def work() -> None:
        async with (
            ChaosProxy(leveret_broker.amqp_url) as proxy,
            failing_over(proxy.url) as (connection, channel, kinds),
        ):
            await channel.declare_exchange("prices", "topic")
            queue = (await channel.declare_queue(exclusive=True)).queue
            await channel.bind_queue(queue, "prices", "eu.#")
            await channel.confirm_select()
            await channel.qos(10)
            consumer = await channel.consume(queue)
            await channel.publish(b"one", "prices", "eu.oats")
            assert await taken(consumer, 1) == [b"one"]
            await told(connection, "reconnected", proxy.cut)
            assert kinds == ["lost", "reconnecting", "reconnected"]
            await channel.publish(b"two", "prices", "eu.oats")
            assert await taken(consumer, 1) == [b"two"]
            assert (await channel.declare_queue(queue, passive=True)).consumer_count == 1
            await channel.publish(b"three", "", queue)  # by the name that it had at first
            assert await taken(consumer, 1) == [b"three"]

    run(work())
    assert proxy_free(leveret_broker)


def proxy_free(broker: leveret.Broker) -> bool:
    """The exclusive queues of all lives are gone with their connections."""
    return broker.call(lambda: list(broker.node.broker.vhost("/").queues)) == []
