"""For tests of failover: an event loop with a time limit, a connection with its events, and waits for events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from leveret.client import Channel, Connection, Consumer, Happening, connect

T = TypeVar("T")
SECONDS = 60.0  # the longest that one test may take
QUICK = "initialReconnectDelay=1&maxReconnectDelay=50"


def run(work: Callable[[], Coroutine[Any, Any, T]], seconds: float = SECONDS) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(seconds):
            return await work()

    return asyncio.run(bounded())


@asynccontextmanager
async def failing_over(*urls: str, options: str = "") -> AsyncIterator[tuple[Connection, Channel, list[str]]]:
    """A connection that tries the addresses in order, a channel, and the kinds of its events."""
    connection = await connect(f"failover:({','.join(urls)})?randomize=false&{QUICK}{options}")
    kinds: list[str] = []
    connection.listeners.append(lambda happening: kinds.append(happening.kind))
    try:
        yield connection, await connection.channel(), kinds
    finally:
        await connection.close()


async def told(connection: Connection, kind: str, cause: Callable[[], object]) -> Happening:
    """The event of that kind that a listener receives after ``cause``."""
    seen: asyncio.Future[Happening] = asyncio.get_running_loop().create_future()

    def look(happening: Happening) -> None:
        if happening.kind == kind and not seen.done():
            seen.set_result(happening)

    connection.listeners.append(look)
    cause()
    try:
        return await seen
    finally:
        connection.listeners.remove(look)


async def taken(consumer: Consumer, count: int) -> list[bytes]:
    """The bodies of the next ``count`` messages, which are acked."""
    bodies = []
    for _ in range(count):
        delivery = await consumer.next()
        assert delivery is not None
        delivery.ack()
        bodies.append(delivery.body)
    return bodies
