"""Connections to servers that accept and do not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from leveret.cluster.engine import Engine, EngineConnection, EngineOptions, EngineUnavailable
from leveret.errors import ClusterError
from tests.support.nats_servers import NatsServers

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


def test_a_job_is_done_again_while_the_engine_does_not_answer(servers: NatsServers) -> None:
    used: list[str] = []

    async def job(connection: EngineConnection) -> int:
        used.append(connection.url)
        if len(used) < 3:
            raise EngineUnavailable("an election")
        return 7

    assert asyncio.run(Engine(EngineOptions(tuple(servers.urls)), "test").perform(job, 30)) == 7
    assert sorted(used) == sorted(servers.urls)


def test_a_job_that_is_never_answered_fails_in_time(servers: NatsServers) -> None:
    async def job(connection: EngineConnection) -> None:
        raise EngineUnavailable("an election")

    with pytest.raises(ClusterError, match=r"does not answer \(an election\): check the NATS servers"):
        asyncio.run(Engine(EngineOptions(tuple(servers.urls)), "test").perform(job, 0.5))
