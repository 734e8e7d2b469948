"""The client ports of a standby, with a leader that echoes: limits, waiting for a leader, ends of connections."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import uvloop

from leveret.cluster import relay as relay_module
from leveret.cluster.cluster_port import ClusterPort
from leveret.cluster.lease import LeaseHolder
from leveret.cluster.link import Peer
from leveret.cluster.relay import RELAY, Relay, RelayService
from leveret.config import Settings

HOST = "127.0.0.1"
SECONDS = 60.0
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Story = Callable[["Standby"], Awaitable[None]]


class Standby:
    """``leader``: the one that the relay knows. Leaders accept all clients, and echo what they send."""

    def __init__(self, settings: Settings) -> None:
        self.leader: LeaseHolder | None = None
        self.adopted: list[tuple[str, int]] = []
        self.reason = ""
        self._peer = Peer("main", "b", b"secret")
        self.relay = Relay(self._peer, settings, lambda: self.leader, self._changed, lambda: self.reason)
        self.ports: dict[str, int] = {}
        self._nodes: list[ClusterPort] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._opened: list[asyncio.StreamWriter] = []

    async def start_leader(self, life: str = "1") -> LeaseHolder:
        adopters = {"amqp": self._adopt, "http": self._adopt}
        node = ClusterPort(self._peer._replace(node="a"), {RELAY: RelayService(lambda: adopters).serve})
        port = await node.listen((HOST,), 0)
        self._nodes.append(node)
        return LeaseHolder("a", life, 1, host=HOST, port=port)

    async def _changed(self) -> None:
        await asyncio.sleep(0.01)

    def _adopt(self, client: socket.socket, address: tuple[str, int]) -> None:
        self.adopted.append(address)
        task = asyncio.create_task(self._echo(client))
        self._tasks.add(task)

    async def _echo(self, client: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=client)
        self._opened.append(writer)
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def connect(self, scheme: str = "amqp") -> Streams:
        streams = await asyncio.open_connection(HOST, self.ports[scheme])
        self._opened.append(streams[1])
        return streams

    async def echoes(self, streams: Streams) -> None:
        streams[1].write(b"ping")
        assert await streams[0].readexactly(4) == b"ping"

    async def close(self) -> None:
        await self.relay.close()
        for node in self._nodes:
            node.close()
        for writer in self._opened:
            writer.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def started(settings: Settings) -> AsyncIterator[Standby]:
    standby = Standby(settings)
    try:
        standby.ports = await standby.relay.listen({"amqp": 0, "http": 0})
        yield standby
    finally:
        await standby.close()


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def play(request: pytest.FixtureRequest) -> Callable[..., None]:
    def play(story: Story, **settings: object) -> None:
        async def run() -> None:
            async with asyncio.timeout(SECONDS), started(replace(Settings(), host=(HOST,), **settings)) as standby:  # type: ignore[arg-type]
                await story(standby)

        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(run())

    return play


async def is_closed(streams: Streams) -> bool:
    try:
        return await streams[0].read(1) == b""
    except ConnectionError:
        return True


Play = Callable[..., None]


def test_bytes_are_copied_in_both_directions_with_the_address_of_the_client(play: Play) -> None:
    async def story(standby: Standby) -> None:
        standby.leader = await standby.start_leader()
        reader, writer = await standby.connect()
        sent = bytes(range(256)) * 40_000  # more than all buffers hold
        writing = asyncio.create_task(drained(writer, sent))
        assert await reader.readexactly(len(sent)) == sent
        await writing
        assert standby.adopted == [writer.get_extra_info("sockname")[:2]]
        writer.write_eof()
        assert await reader.read() == b""  # the end is passed on, and the leader closes

    play(story)


async def drained(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await writer.drain()


def test_a_client_waits_for_a_leader_with_what_it_has_sent(play: Play) -> None:
    async def story(standby: Standby) -> None:
        streams = await standby.connect()
        streams[1].write(b"early")
        while not standby.relay.clients:
            await asyncio.sleep(0)
        standby.leader = await standby.start_leader()
        assert await streams[0].readexactly(5) == b"early"
        await standby.echoes(streams)

    play(story)


def test_a_client_that_ends_its_input_while_it_waits_gets_its_answer(play: Play) -> None:
    async def story(standby: Standby) -> None:
        reader, writer = await standby.connect()
        writer.write(b"early")
        writer.write_eof()
        while not standby.relay.clients:
            await asyncio.sleep(0)
        standby.leader = await standby.start_leader()
        assert await reader.read() == b"early"

    play(story)


def test_without_a_leader_the_connection_is_closed_in_the_end(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "WAIT_SECONDS", 0.2)

    async def story(standby: Standby) -> None:
        assert await is_closed(await standby.connect())
        gone = await standby.start_leader()
        standby._nodes.pop().close()
        standby.leader = gone  # a leader that does not accept connections
        assert await is_closed(await standby.connect())
        assert not standby.relay.clients
        assert standby.relay.admission.sockets == 0
        reader, writer = await standby.connect("http")
        writer.write(b"GET /api/queues HTTP/1.1\r\n\r\n")
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        assert answer.endswith(b'"reason":"the cell has no leader: try again, or see the logs of the nodes"}')

    play(story)


def test_connections_to_a_former_leader_are_closed_when_there_is_another_one_or_none(play: Play) -> None:
    async def story(standby: Standby) -> None:
        standby.leader = await standby.start_leader("1")
        first = await standby.connect()
        await standby.echoes(first)
        standby.leader = await standby.start_leader("2")
        assert await is_closed(first)
        second = await standby.connect()
        await standby.echoes(second)
        standby.leader = None
        assert await is_closed(second)

    play(story)


def test_an_attempt_to_reach_a_silent_leader_ends_when_there_is_another_one(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leveret.cluster.link.HANDSHAKE_SECONDS", 2 * SECONDS)

    async def story(standby: Standby) -> None:
        with socket.create_server((HOST, 0)) as silent:  # accepts, and never answers
            standby.leader = LeaseHolder("a", "1", 1, host=HOST, port=silent.getsockname()[1])
            streams = await standby.connect()
            while not any(client.attempt for client in standby.relay.clients):
                await asyncio.sleep(0)
            standby.leader = await standby.start_leader("2")
            await standby.echoes(streams)

    play(story)


def test_no_more_clients_than_connection_max_are_relayed(play: Play) -> None:
    async def story(standby: Standby) -> None:
        standby.leader = await standby.start_leader()
        first, second = await standby.connect(), await standby.connect()
        await standby.echoes(first)
        await standby.echoes(second)
        assert await is_closed(await standby.connect())
        first[1].close()
        while len(standby.relay.clients) > 1:
            await asyncio.sleep(0)
        await standby.echoes(await standby.connect())
        assert await is_closed(await standby.connect())
        standby.relay.apply(replace(Settings(), connection_max=3))  # reloaded
        await standby.echoes(await standby.connect())

    play(story, connection_max=2)


def test_a_relayed_client_takes_two_descriptors(play: Play) -> None:
    async def story(standby: Standby) -> None:
        standby.leader = await standby.start_leader()
        standby.relay.admission.most_sockets = -15  # loopback has 16 in reserve
        await standby.echoes(await standby.connect())
        assert await is_closed(await standby.connect())
        assert standby.relay.admission.refused == 1

    play(story)


def test_a_client_that_does_not_read_stops_the_leader_from_being_read(play: Play) -> None:
    async def story(standby: Standby) -> None:
        standby.leader = await standby.start_leader()
        reader, writer = await standby.connect()
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        writer.transport.set_write_buffer_limits(high=1)
        sent, portion = 0, bytes(1 << 20)
        try:
            while sent < 1 << 30:
                writer.write(portion)
                async with asyncio.timeout(0.5):
                    await writer.drain()
                sent += len(portion)
        except TimeoutError:
            pass
        assert sent < 64 << 20  # what the buffers of six sockets hold
        (client,) = standby.relay.clients
        assert client._transport.get_write_buffer_size() < 1 << 20
        assert client._link.get_write_buffer_size() < 1 << 20

    play(story)


def test_a_probe_of_the_port_does_not_reach_the_leader(play: Play) -> None:
    async def story(standby: Standby) -> None:
        reader, writer = await standby.connect()
        writer.write_eof()
        assert await is_closed((reader, writer))
        standby.leader = await standby.start_leader()
        await standby.echoes(await standby.connect())
        assert len(standby.adopted) == 1

    play(story)


def test_stopping_closes_all_connections(play: Play) -> None:
    async def story(standby: Standby) -> None:
        waiting = await standby.connect()
        while not standby.relay.clients:
            await asyncio.sleep(0)
        standby.leader = await standby.start_leader()
        joined = await standby.connect()
        await standby.echoes(joined)
        standby.leader = None
        await standby.relay.close()
        assert await is_closed(waiting)
        assert await is_closed(joined)
        assert not standby.relay.clients
        with pytest.raises(OSError):
            await standby.connect()

    play(story)


def test_a_standby_answers_probes_and_relays_other_requests(play: Play) -> None:
    async def story(standby: Standby) -> None:
        standby.reason = "the cell has no leader"
        reader, writer = await standby.connect("http")
        for part in (b"GET /api/health/checks", b"/is-in-service HTTP/1.1\r\nHo", b"st: a\r\n\r\n"):
            writer.write(part)
            await asyncio.sleep(0.01)  # arrives in pieces
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert answer.endswith(b'{"status":"failed","reason":"the cell has no leader"}')
        assert not standby.adopted
        standby.leader = await standby.start_leader()
        reader, writer = await standby.connect("http")
        request = b"GET /api/queues HTTP/1.1\r\n\r\n"
        for part in (request[:9], request[9:]):
            writer.write(part)
        assert await reader.readexactly(len(request)) == request

    play(story)


def test_a_request_line_that_does_not_come_closes_the_connection(play: Play) -> None:
    async def story(standby: Standby) -> None:
        silent, slow = await standby.connect("http"), await standby.connect("http")
        slow[1].write(b"GET /metrics HTTP/1.1\r\nHost")
        assert await is_closed(silent)
        assert await is_closed(slow)

    play(story, handshake_timeout=0.2)
