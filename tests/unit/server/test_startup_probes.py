"""What the HTTP port responds while the broker recovers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest
import uvloop

from leveret.server.admission import Admission
from leveret.server.startup_probes import LONGEST_HEAD, StartupProbes, response_to
from tests.support.cell_ports import free_ports

STATUS_OK, UNAVAILABLE = "HTTP/1.1 200 OK", "HTTP/1.1 503 Service Unavailable"
FAILED = {"status": "failed"}
STARTING = {"error": "not_ready", "reason": "the broker is starting: try again"}


@pytest.mark.parametrize(
    ("line", "status", "body"),
    [
        ("GET /health/live HTTP/1.1", STATUS_OK, {"status": "ok"}),
        ("GET /health/live?x=1 HTTP/1.0", STATUS_OK, {"status": "ok"}),
        ("HEAD /health/live HTTP/1.1", STATUS_OK, None),
        ("GET /health/ready HTTP/1.1", UNAVAILABLE, FAILED),
        ("POST /health/live HTTP/1.1", UNAVAILABLE, FAILED),
        ("GET /health/live/ HTTP/1.1", UNAVAILABLE, STARTING),
        ("GET /api/overview HTTP/1.1", UNAVAILABLE, STARTING),
        ("", UNAVAILABLE, STARTING),
        ("\xff\xfe", UNAVAILABLE, STARTING),
    ],
)
def test_only_the_broker_itself_is_alive(line: str, status: str, body: object) -> None:
    head, _, answer = response_to(line.encode("latin-1") + b"\r\nHost: a\r\n\r\n").partition(b"\r\n\r\n")
    first, *headers = head.decode().split("\r\n")
    assert first == status
    assert "Connection: close" in headers
    assert (json.loads(answer) if answer else None) == body
    assert ("Retry-After: 1" in headers) == (status == UNAVAILABLE)


InLoop = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def in_loop(request: pytest.FixtureRequest) -> InLoop:
    """The broker runs on uvloop where there is one: its transports are of other classes."""

    def run(coroutine: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(coroutine)

    return run


class Running:
    """Probes on a free port."""

    def __init__(self, head_timeout: float = 30.0, places: int = 64) -> None:
        self.admission = Admission(1 << 40, most_sockets=places)
        self.probes = StartupProbes(self.admission, head_timeout)
        (self.port,) = free_ports(1)
        self.writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Running:
        await self.probes.start(("127.0.0.1",), self.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.probes.stop()
        for writer in self.writers:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def connect(self, *pieces: bytes) -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers.append(writer)
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        return reader


async def end_of(reader: asyncio.StreamReader) -> bytes:
    try:
        return await asyncio.wait_for(reader.read(), 10)
    except ConnectionResetError:
        return b""


def test_a_request_in_pieces_is_answered_and_the_connection_closed(in_loop: InLoop) -> None:
    async def run() -> None:
        async with Running() as running:
            reader = await running.connect(b"GET /health/li", b"ve HTTP/1.1\r\nHost: a\r\n", b"\r\n")
            assert (await end_of(reader)).startswith(b"HTTP/1.1 200")
            assert running.admission.sockets == 0

    in_loop(run())


@pytest.mark.parametrize(
    ("data", "head_timeout"),
    [(b"GET /health/live", 0.05), (b"", 0.05), (b"x" * (LONGEST_HEAD + 1), 30.0)],
    ids=["slow head", "nothing", "long head"],
)
def test_a_head_that_is_late_or_long_ends_the_connection(in_loop: InLoop, data: bytes, head_timeout: float) -> None:
    async def run() -> None:
        async with Running(head_timeout) as running:
            assert await end_of(await running.connect(data)) == b""

    in_loop(run())


def test_connections_are_limited_as_unauthenticated_ones(in_loop: InLoop) -> None:
    async def run() -> None:
        async with Running(places=8) as running:
            first = await running.connect(b"GET /")
            for _ in range(running.admission.places):
                await running.connect(b"GET /")
            assert await end_of(first) == b""
            assert running.admission.evicted == 1

    in_loop(run())


def test_the_port_is_free_when_the_probes_have_stopped_and_open_connections_end(in_loop: InLoop) -> None:
    async def run() -> None:
        async with Running() as running:
            waiting = await running.connect(b"GET /")
            async with asyncio.timeout(10):
                while not running.admission.sockets:
                    await asyncio.sleep(0)
            await running.probes.stop()
            (await asyncio.start_server(lambda *_: None, "127.0.0.1", running.port)).close()
            assert await end_of(waiting) == b""

    in_loop(run())


def test_a_port_that_is_taken_is_left_to_the_broker_to_report(in_loop: InLoop) -> None:
    async def run() -> None:
        async with Running() as running:
            other = StartupProbes(running.admission, 1.0)
            await other.start(("127.0.0.1",), running.port)
            await other.stop()
            assert b"200" in await end_of(await running.connect(b"GET /health/live HTTP/1.1\r\n\r\n"))

    in_loop(run())
