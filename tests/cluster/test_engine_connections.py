"""Connections to servers that accept and do not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from leveret.cluster.engine import EngineConnection, EngineUnavailable

Attempt = Callable[[str, asyncio.Event], Awaitable[None]]


async def cancelled(url: str, accepted: asyncio.Event) -> None:
    opening = asyncio.create_task(EngineConnection.open(url, "test"))
    await accepted.wait()
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening


async def timed_out(url: str, accepted: asyncio.Event) -> None:
    with pytest.raises(EngineUnavailable):
        await EngineConnection.open(url, "test")


@pytest.mark.parametrize("attempt", [cancelled, timed_out])
def test_a_connection_that_is_given_up_is_closed(attempt: Attempt) -> None:
    async def run() -> None:
        accepted, ended = asyncio.Event(), asyncio.Event()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            accepted.set()
            try:
                await reader.read()
            except ConnectionResetError:
                pass
            finally:
                writer.close()
            ended.set()

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        async with server:
            await attempt(f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}", accepted)
            await asyncio.wait_for(ended.wait(), 10)

    asyncio.run(run())
