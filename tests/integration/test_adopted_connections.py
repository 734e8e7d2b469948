"""Connections that a standby has relayed, at a leader that stops: whatever the moment, each one is served or closed."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
import uvloop

from leveret.config import Settings
from leveret.http.connections import HttpProtocol
from leveret.node import Node
from leveret.server.acceptor import Acceptor
from leveret.server.admission import Admission, Admitted
from tests.support.http_api import basic

HOST = "127.0.0.1"
SECONDS = 60.0
LATER = range(8)  # iterations of the event loop between the accept and the stop
SETTINGS = replace(Settings(), cluster=("nats://127.0.0.1:1",), amqp_port=None, http_port=0, shutdown_timeout=5.0)
REQUEST = f"GET /api/whoami HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: {basic('guest', 'guest')}\r\n\r\n".encode()
Play = Callable[[Awaitable[None]], None]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def play(request: pytest.FixtureRequest) -> Play:
    def play(story: Awaitable[None]) -> None:
        async def run() -> None:
            async with asyncio.timeout(SECONDS):
                await story

        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(run())

    return play


def connected() -> tuple[socket.socket, socket.socket]:
    """A client, and the socket that a node has accepted for it."""
    with socket.create_server((HOST, 0)) as listening:
        client = socket.create_connection(listening.getsockname())
        accepted, _ = listening.accept()
    for each in (client, accepted):
        each.setblocking(False)
    return client, accepted


async def pass_iterations(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def received(client: socket.socket) -> bytes:
    """All up to the end of the connection."""
    found = b""
    with client:
        try:
            while data := await asyncio.get_running_loop().sock_recv(client, 1 << 16):
                found += data
        except ConnectionResetError:
            pass
    return found


def problems(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelname in ("WARNING", "ERROR")]


@pytest.mark.parametrize("later", LATER)
def test_a_request_is_answered_or_its_connection_is_closed(
    play: Play, later: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        node = Node(SETTINGS)
        await node.start()
        client, accepted = connected()
        client.sendall(REQUEST)
        node.adopters["http"].adopt(accepted, (HOST, client.getsockname()[1]))
        await pass_iterations(later)
        await node.stop()
        answer = await received(client)
        assert not answer or answer.startswith(b"HTTP/1.1 200"), answer

    play(story())
    assert problems(caplog) == []


def test_a_request_is_answered_if_the_node_stops_as_it_arrives(
    play: Play, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop may read the request before the task that has accepted the connection continues."""
    data_received = HttpProtocol.data_received

    async def story() -> None:
        node = Node(SETTINGS)
        await node.start()
        arrived = asyncio.Event()

        def stop(protocol: HttpProtocol, data: bytes) -> None:
            data_received(protocol, data)
            node.adopters["http"].close()
            arrived.set()

        monkeypatch.setattr(HttpProtocol, "data_received", stop)
        client, accepted = connected()
        client.sendall(REQUEST)
        node.adopters["http"].adopt(accepted, (HOST, client.getsockname()[1]))
        await arrived.wait()
        await node.stop()
        assert (await received(client)).startswith(b"HTTP/1.1 200")

    play(story())
    assert problems(caplog) == []


class Recorder(asyncio.Protocol):
    """``busy``: seconds for which it blocks the event loop when it gets a connection."""

    def __init__(self, busy: float = 0.0) -> None:
        self.admitted: Admitted | None = None
        self.calls: list[str] = []
        self._busy = busy
        self._closed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.calls.append("made")
        time.sleep(self._busy)

    def connection_lost(self, exc: Exception | None) -> None:
        self.calls.append("lost")
        self._closed.set()

    async def end(self, client: socket.socket) -> None:
        """The client closes the connection, or has never been served."""
        if self.calls:
            client.close()
            await self._closed.wait()
        else:
            assert await received(client) == b""
        await pass_iterations(3)


@pytest.mark.parametrize("later", LATER)
def test_a_protocol_that_has_a_connection_is_notified_of_its_end(play: Play, later: int) -> None:
    async def story() -> None:
        protocol = Recorder()
        acceptor = Acceptor([], lambda: protocol, lambda: SECONDS, Admission(1 << 30), None, None)
        client, accepted = connected()
        acceptor.adopt(accepted, (HOST, 1))
        await pass_iterations(later)
        acceptor.close()
        await acceptor.wait_closed()
        await protocol.end(client)
        assert protocol.calls in ([], ["made", "lost"])
        assert protocol.calls or later < LATER[-1]

    play(story())


def test_a_connection_that_is_established_just_in_time_is_kept(play: Play) -> None:
    """The deadline passes before the task that has accepted the connection continues."""

    async def story() -> None:
        protocol, seconds = Recorder(busy=0.5), 0.4
        acceptor = Acceptor([], lambda: protocol, lambda: seconds, Admission(1 << 30), None, None)
        client, accepted = connected()
        acceptor.adopt(accepted, (HOST, 1))
        await pass_iterations(LATER[-1])
        await protocol.end(client)
        assert protocol.calls in ([], ["made", "lost"])  # neither if the machine was too busy

    play(story())
