"""Connections that live long: a silent peer is noticed, we are never silent ourselves, and connecting has an end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

import leveret
from leveret.client import ConnectionLost, Happening, connect
from leveret.wire.constants import HEARTBEAT_FRAME
from leveret.wire.frames import method_frame
from leveret.wire.methods import ConnectionOpenOk, ConnectionStart, ConnectionTune
from tests.support.client_scenarios import run


class FalseBroker:
    """It shakes hands as it is told, and then says nothing any more. ``heard`` is what came since."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def shake_hands(self, heartbeat: int) -> None:
        await self.reader.readexactly(8)
        self.writer.write(method_frame(0, ConnectionStart(0, 9, {}, b"PLAIN", b"en_US")))
        await self._frame()
        self.writer.write(method_frame(0, ConnectionTune(10, 131_072, heartbeat)))
        await self._frame()
        await self._frame()
        self.writer.write(method_frame(0, ConnectionOpenOk()))

    async def _frame(self) -> None:
        head = await self.reader.readexactly(7)
        await self.reader.readexactly(int.from_bytes(head[3:7], "big") + 1)

    async def heard_until_the_end(self) -> bytes:
        try:
            return await self.reader.read()
        except ConnectionResetError:
            return b""


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(handle: Handler) -> AsyncIterator[str]:
    """The address of a listener. It ends when all whom it served have gone."""
    served: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        served.add(task)
        try:
            await handle(reader, writer)
        finally:
            writer.transport.abort()
            await asyncio.sleep(0)  # the transport closes in the next turn

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"amqp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await asyncio.gather(*served)


@asynccontextmanager
async def listening(
    *, answers: bool = True, heartbeat: int = 1, connection_timeout: int = 30
) -> AsyncIterator[tuple[str, asyncio.Future[bytes]]]:
    """Its address, and what it heard after the handshake, once the client has gone."""
    heard: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = FalseBroker(reader, writer)
        if answers:
            await peer.shake_hands(heartbeat)
        heard.set_result(await peer.heard_until_the_end())

    async with serving(handle) as url:
        yield f"{url}?heartbeat=1&connection_timeout={connection_timeout}", heard


@pytest.mark.feature("S3-09")
def test_a_broker_that_falls_silent_is_noticed_and_everybody_is_told() -> None:
    async def story() -> None:
        async with listening() as (url, heard):
            connection = await connect(url)
            happened: list[Happening] = []
            connection.listeners.append(happened.append)
            begun = time.monotonic()
            with pytest.raises(ConnectionLost, match=r"no data received from amqp://guest@127.0.0.1:.* for 2 s"):
                await connection.channel()  # whose answer never comes
            assert time.monotonic() - begun > 1.5
            assert connection.is_closed
            told = [happening.kind for happening in happened]
            assert told[-2:] == ["silent", "lost"]
            assert set(told[:-2]) == {"keep-alive sent"}
            assert len(told) <= 10  # within 4 s: the client sends one every half interval
            assert HEARTBEAT_FRAME in await heard

    run(story)


@pytest.mark.feature("S3-10")
def test_a_client_with_nothing_to_say_keeps_alive_and_the_broker_answers(broker: leveret.Broker) -> None:
    """The broker would drop a peer that is silent for two intervals."""

    async def story() -> None:
        async with await connect(f"{broker.amqp_url}?heartbeat=1") as connection:
            beats = asyncio.Semaphore(0)

            def count(happening: Happening) -> None:
                assert happening.kind == "keep-alive sent"
                beats.release()

            connection.listeners.append(count)
            for _ in range(6):  # three intervals
                await beats.acquire()
            assert not connection.is_closed
            await connection.channel()
            connection.listeners.clear()

    run(story)


@pytest.mark.feature("S3-11")
def test_connecting_has_an_end_though_somebody_listens() -> None:
    async def story() -> None:
        async with listening(answers=False, connection_timeout=1) as (url, _):
            begun = time.monotonic()
            with pytest.raises(
                ConnectionLost,
                match=r"no connection to amqp://guest@127.* within 1 s: check that a broker is running there",
            ):
                await connect(url)
            assert time.monotonic() - begun < 30

    run(story)


def test_somebody_who_speaks_another_language_is_found_out_at_once() -> None:
    async def story() -> None:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            await FalseBroker(reader, writer).heard_until_the_end()

        async with serving(answer) as url:
            with pytest.raises(leveret.errors.FrameError, match="is this an AMQP broker"):
                await connect(url)

    run(story)


def test_a_connection_that_is_cut_ends_all_who_wait() -> None:
    async def story() -> None:
        cut = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await FalseBroker(reader, writer).shake_hands(0)
            await cut.wait()

        async with serving(serve) as url:
            connection = await connect(url)
            asking = [asyncio.create_task(connection.channel()) for _ in range(3)]
            await asyncio.sleep(0)
            cut.set()
            outcomes = await asyncio.gather(*asking, return_exceptions=True)
            assert {type(outcome) for outcome in outcomes} == {ConnectionLost}
            assert "was lost" in str(outcomes[0])
            with pytest.raises(ConnectionLost):
                await connection.channel()

    run(story)
