"""Links between nodes on real sockets of loopback: who gets in, and what a standby concludes from a lost link."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from struct import pack

import msgspec
import pytest

from leveret.cluster import cluster_port, leader_watch
from leveret.cluster.cluster_port import ClusterPort
from leveret.cluster.leader_watch import WATCH, Beats, LeaderWatch
from leveret.cluster.lease import HeldLease, LeaseHolder
from leveret.cluster.link import (
    LARGEST_FRAME,
    LARGEST_UNPROVED,
    Frame,
    Link,
    LinkLost,
    LinkRefused,
    Peer,
    open_link,
)
from leveret.errors import ClusterError
from leveret.replication.claims import Position
from tests.support.cell_log import until

ANN = Peer("orders", "ann", b"the secret")
BOB = ANN._replace(node="bob")
LIFE = "first life"
LONG_HANDSHAKE = 120.0  # seconds, that a test does not wait
AHEAD = Position(30, 2, 17)


async def echo(link: Link, request: Frame) -> None:
    await link.send({})
    await link.send({"from": request["node"], "word": request["word"]})


@asynccontextmanager
async def port_of(
    services: dict[str, Callable[[Link, Frame], Awaitable[None]]], port: int = 0, peer: Peer = ANN
) -> AsyncIterator[tuple[str, int]]:
    opened = ClusterPort(peer, services)
    try:
        yield "127.0.0.1", await opened.listen(("127.0.0.1",), port)
    finally:
        opened.close()
        await asyncio.sleep(0)


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(LONG_HANDSHAKE):
            await story()

    asyncio.run(bounded())


def test_an_error_of_a_service_is_told_to_the_other_node() -> None:
    async def starting(link: Link, request: Frame) -> None:
        raise ClusterError("this node is starting")

    async def story() -> None:
        async with port_of({"starting": starting}) as address:
            with pytest.raises(LinkRefused, match="this node is starting"):
                await open_link(address, BOB, "starting")

    run(story)


def test_a_port_accepts_links_of_several_secrets() -> None:
    cells = Peer("cells", "c1", b"another secret")

    async def hello(link: Link, request: Frame) -> None:
        await link.send({})
        await link.send({"hello": request["node"]})

    async def story() -> None:
        port = ClusterPort(ANN, {"echo": echo}, (cells, {"hello": hello}))
        try:
            address = "127.0.0.1", await port.listen(("127.0.0.1",), 0)
            link = await open_link(address, cells._replace(node="c2"), "hello")
            assert await link.receive() == {"hello": "c2"}
            link.close()
            with pytest.raises(LinkRefused, match="does not know the request 'hello'"):
                await open_link(address, BOB, "hello")
            with pytest.raises(LinkRefused, match="does not know the request 'echo'"):
                await open_link(address, cells, "echo", word="x")
            with pytest.raises(LinkRefused, match="secret"):
                await open_link(address, cells._replace(secret=ANN.secret), "hello")
        finally:
            port.close()

    run(story)


def test_a_node_of_the_cell_is_answered() -> None:
    async def story() -> None:
        async with port_of({"echo": echo}) as address:
            link = await open_link(address, BOB, "echo", word="hello")
            assert await link.receive() == {"from": "bob", "word": "hello"}
            link.close()

    run(story)


@pytest.mark.parametrize(
    ("peer", "ask", "reason"),
    [
        (BOB._replace(secret=b"another secret"), "echo", "does not have the secret"),
        (BOB._replace(cell="bills"), "echo", "this is a node of the cell 'orders'"),
        (BOB, "dance", "does not know the request 'dance'"),
    ],
)
def test_others_are_refused(peer: Peer, ask: str, reason: str) -> None:
    async def story() -> None:
        async with port_of({"echo": echo}) as address:
            with pytest.raises(LinkRefused, match=reason):
                await open_link(address, peer, ask, word="hello")

    run(story)


def test_a_node_without_the_secret_gets_no_service() -> None:
    """The other way round: here the side that connects does not check the proof of the port."""
    served: list[Frame] = []

    async def service(link: Link, request: Frame) -> None:
        served.append(request)

    async def story() -> None:
        async with port_of({"echo": service}) as address:
            sock = socket.create_connection(address)
            sock.setblocking(False)
            link = Link(sock)
            await link.send({"cell": "orders", "node": "eve", "nonce": "00" * 16})
            await link.receive()
            await link.send({"proof": "00" * 32, "ask": "echo"})
            assert await link.receive() == {"error": "the secret of the cell is wrong"}
            with pytest.raises(LinkLost):
                await link.receive()
            link.close()
        assert not served

    run(story)


@pytest.mark.parametrize(
    "garbage",
    [
        pack(">I", LARGEST_FRAME + 1),
        pack(">I", 5) + b"[1,2]",
        pack(">I", 2) + b"{}",
        b"GET / HTTP/1.1\r\n\r\n",
        pack(">I", 60) + msgspec.json.encode({"cell": "orders", "node": "eve", "nonce": "no number"}).ljust(60),
    ],
)
def test_garbage_ends_the_link_and_nothing_else(garbage: bytes) -> None:
    async def story() -> None:
        async with port_of({"echo": echo}) as address:
            reader, writer = await asyncio.open_connection(*address)
            writer.write(garbage)
            with suppress(ConnectionResetError):
                answer = await reader.read()
                assert not answer or b"error" in answer
            writer.close()
            link = await open_link(address, BOB, "echo", word="still here")
            assert (await link.receive())["word"] == "still here"
            link.close()

    run(story)


@pytest.mark.parametrize(
    "body",
    [b'{"a":' + b"[" * 3000 + b"]" * 3000 + b"}", b'{"a":"\xff"}'],
    ids=["nested", "no UTF-8"],
)
def test_a_frame_that_no_node_sends_is_a_lost_link(body: bytes) -> None:
    """And no internal error, which would be logged each time."""

    async def story() -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        link = Link(ours)
        theirs.sendall(pack(">I", len(body)) + body)
        with pytest.raises(LinkLost, match="cannot be read"):
            await link.receive()
        link.close()
        theirs.close()

    run(story)


@pytest.mark.parametrize(
    "frame",
    [
        pack(">I", LARGEST_UNPROVED + 1),
        pack(">I", 59 + 30) + msgspec.json.encode({"cell": "orders", "node": "eve", "nonce": "00" * 20}).ljust(89),
    ],
    ids=["large frame", "long nonce"],
)
def test_a_stranger_is_bounded(frame: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_port, "HANDSHAKE_SECONDS", LONG_HANDSHAKE)

    async def story() -> None:
        async with port_of({"echo": echo}) as address, asyncio.timeout(LONG_HANDSHAKE / 2):
            reader, writer = await asyncio.open_connection(*address)
            writer.write(frame)
            assert not await reader.read()
            writer.close()

    run(story)


def test_silent_strangers_do_not_keep_nodes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_port, "most_connections", lambda: 16)
    monkeypatch.setattr(cluster_port, "HANDSHAKE_SECONDS", LONG_HANDSHAKE)

    async def story() -> None:
        async with port_of({"echo": echo}) as address:
            strangers = [await asyncio.open_connection(*address) for _ in range(5)]
            async with asyncio.timeout(LONG_HANDSHAKE / 2):
                assert not await strangers[0][0].read()  # closed for the fifth one
                link = await open_link(address, BOB, "echo", word="hello")
                assert (await link.receive())["word"] == "hello"
            link.close()
            for _, writer in strangers:
                writer.close()

    run(story)


def test_links_of_nodes_do_not_count_as_strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_port, "most_connections", lambda: 16)

    async def wait(link: Link, request: Frame) -> None:
        await link.send({})
        await link.receive()
        await link.send({"still": "here"})

    async def story() -> None:
        async with port_of({"wait": wait}) as address:
            links = [await open_link(address, BOB, "wait") for _ in range(20)]
            for link in links:
                await link.send({})
                assert await link.receive() == {"still": "here"}
                link.close()

    run(story)


def test_a_port_that_is_closed_refuses_and_one_that_is_silent_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leveret.cluster.link.HANDSHAKE_SECONDS", 0.2)

    async def story() -> None:
        silent = socket.create_server(("127.0.0.1", 0))
        with pytest.raises(LinkLost, match="does not answer"):
            await open_link(silent.getsockname(), BOB, "echo")
        address = silent.getsockname()
        silent.close()
        with pytest.raises(ConnectionRefusedError):
            await open_link(address, BOB, "echo")

    run(story)


# ---- the watch of a standby


def lease_of(address: tuple[str, int], revision: int = 1, *, released: bool = False) -> HeldLease:
    return HeldLease(LeaseHolder("ann", LIFE, 2, released, *address), revision)


@asynccontextmanager
async def watched(beats: Beats) -> AsyncIterator[tuple[LeaderWatch, HeldLease, ClusterPort]]:
    """A standby that has a link to the leader."""
    port = ClusterPort(ANN, {WATCH: beats.serve})
    held = lease_of(("127.0.0.1", await port.listen(("127.0.0.1",), 0)))
    watch = LeaderWatch(BOB, lambda: Position(20, 2, 12), lambda: 3)
    try:
        watch.look(held)
        await until(lambda: watch.beat is not None and "bob" in beats.reports)
        yield watch, held, port
    finally:
        watch.close()
        port.close()
        await asyncio.sleep(0)


def beats_of(life: str = LIFE) -> Beats:
    return Beats(life, lambda: {"leads": True, "position": list(AHEAD), "checkpoint": 4})


def test_leader_and_standby_know_the_position_of_each_other() -> None:
    async def story() -> None:
        beats = beats_of()
        async with watched(beats) as (watch, held, _):
            assert watch.beat == (AHEAD, 4)
            assert beats.reports["bob"][::2] == (Position(20, 2, 12), 3)
            assert not watch.is_dead(held)

    run(story)


def test_a_leader_whose_port_is_gone_is_dead_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_watch, "PAUSE", 3600.0)  # between other attempts to connect

    async def story() -> None:
        async with watched(beats_of()) as (watch, held, port):
            port.close()
            await until(lambda: watch.is_dead(held))
            assert watch.wake.is_set()
            assert not watch.is_dead(held._replace(holder=held.holder._replace(life="second life")))

    run(story)


def test_a_leader_that_was_restarted_is_dead() -> None:
    async def story() -> None:
        async with port_of({WATCH: beats_of("second life").serve}) as address:
            watch = LeaderWatch(BOB, Position)
            watch.look(lease_of(address))
            await until(lambda: watch.is_dead(lease_of(address)))
            watch.close()

    run(story)


@pytest.mark.parametrize("is_refused", [True, False], ids=["refused", "another process"])
def test_a_leader_that_leads_again_was_not_dead(is_refused: bool) -> None:
    """Behind a firewall that refuses, or with a wrong address, nodes would depose each other for ever."""

    async def story() -> None:
        async with port_of({WATCH: beats_of("another life").serve}) as address:
            if is_refused:
                free = socket.create_server(("127.0.0.1", 0))
                address = free.getsockname()
                free.close()
            watch = LeaderWatch(BOB, Position)
            held = lease_of(address)
            watch.look(held)
            await until(lambda: watch.is_dead(held))
            watch.look(held._replace(revision=2))
            assert watch.is_dead(held)  # a renewal that was under way
            again = HeldLease(held.holder._replace(epoch=4), 5)
            watch.close()
            watch.look(again)
            watch.wake.clear()
            await watch.wake.wait()  # refused again
            assert not watch.is_dead(again)
            assert not watch.has_ended(LIFE)
            watch.close()

    run(story)


def test_a_silent_leader_is_dead_only_if_its_lease_is_not_renewed_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_watch, "SILENCE", 0.3)

    async def story() -> None:
        silent = socket.create_server(("127.0.0.1", 0))
        address = silent.getsockname()
        watch, loop = LeaderWatch(BOB, Position), asyncio.get_running_loop()
        begun, revision = loop.time(), 1
        while loop.time() < begun + 0.6:  # silent for long, and renewed all the time
            revision += 1
            watch.look(lease_of(address, revision))
            assert not watch.is_dead(lease_of(address, revision))
            await asyncio.sleep(0.01)
        await until(lambda: watch.is_dead(lease_of(address, revision)))
        watch.close()
        silent.close()

    run(story)


def test_a_leader_that_stops_in_good_order_wakes_its_standbys() -> None:
    async def story() -> None:
        leads = True
        beats = Beats(LIFE, lambda: {"leads": leads, "position": list(AHEAD)})
        async with watched(beats) as (watch, held, _):
            assert not watch.wake.is_set()
            leads = False
            beats.send_now()
            await watch.wake.wait()
            assert not watch.is_dead(held)
            watch.look(lease_of((held.holder.host, held.holder.port), 2, released=True))
            assert watch.beat is None

    run(story)
