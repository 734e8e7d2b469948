"""A snapshot on its way over a link of loopback, from leaders that stop on the way."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from xxhash import xxh3_64

from leveret.cluster import snapshot, snapshot_copy
from leveret.cluster.cell_stream import CellStream
from leveret.cluster.cluster_port import ClusterPort
from leveret.cluster.engine import Engine, EngineOptions
from leveret.cluster.lease import Lease, LeaseHolder
from leveret.cluster.link import Frame, Link, LinkLost, LinkRefused, Peer
from leveret.cluster.log_faults import SnapshotNeeded
from leveret.cluster.snapshot import SNAPSHOT, Progress, SnapshotService, Worker
from leveret.cluster.snapshot_copy import SnapshotCopy, copy_snapshot
from leveret.errors import StoreError
from leveret.store.replica_note import ReplicaNote, read_note

ANN, BOB = Peer("orders", "ann", b"secret"), Peer("orders", "bob", b"secret")
NOTE = ReplicaNote("orders", 9, 2, 7, 1, 100, "log1")
Service = Callable[[Link, Frame], Awaitable[None]]


async def no_note() -> None:
    pass


def copied(path: Path, service: Service) -> ReplicaNote:
    async def run() -> ReplicaNote:
        port = ClusterPort(ANN, {SNAPSHOT: service})
        address = "127.0.0.1", await port.listen(("127.0.0.1",), 0)
        try:
            async with asyncio.timeout(20):
                return await copy_snapshot(address, BOB, path)
        finally:
            port.close()
            await asyncio.sleep(0)

    return asyncio.run(run())


async def begin(link: Link) -> None:
    await link.send({})
    await link.send({"wait": True})
    await link.send({"note": list(NOTE), "bytes": 2000})


async def send_file(link: Link, data: bytes, digest: str) -> None:
    await link.send({"name": "journal/0000000001.seg", "size": len(data)})
    await link.send_bytes(data)
    await link.send({"digest": digest})


def test_a_whole_snapshot_is_installed(tmp_path: Path) -> None:
    data = b"x" * (3 << 20)

    async def whole(link: Link, request: Frame) -> None:
        await begin(link)
        await send_file(link, data, xxh3_64(data).hexdigest())
        await link.send({"done": True})

    assert copied(tmp_path, whole) == read_note(tmp_path) == NOTE
    assert (tmp_path / "journal/0000000001.seg").read_bytes() == data


def test_a_leader_that_ends_on_the_way_leaves_the_directory_as_it_was(tmp_path: Path) -> None:
    async def half(link: Link, request: Frame) -> None:
        await begin(link)
        await link.send({"name": "journal/0000000001.seg", "size": 2000})
        await link.send_bytes(b"x" * 1000)

    with pytest.raises(LinkLost, match="closed"):
        copied(tmp_path, half)
    assert read_note(tmp_path) is None
    assert not list(tmp_path.glob("snapshot.*"))


def test_a_silent_leader_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_copy, "SILENCE", 0.05)

    async def silent(link: Link, request: Frame) -> None:
        await begin(link)
        await asyncio.sleep(15)

    with pytest.raises(LinkLost, match="nothing was received"):
        copied(tmp_path, silent)


def test_damaged_files_and_errors_are_refused(tmp_path: Path) -> None:
    async def damaged(link: Link, request: Frame) -> None:
        await begin(link)
        await send_file(link, b"good", xxh3_64(b"evil").hexdigest())

    async def failed(link: Link, request: Frame) -> None:
        await link.send({})
        await link.send({"error": "the leader's disk is full or has failed"})

    async def another_version(link: Link, request: Frame) -> None:
        await link.send({})
        await link.send({"note": {"where": 9}})

    with pytest.raises(StoreError, match="damaged on its way"):
        copied(tmp_path, damaged)
    with pytest.raises(LinkRefused, match="disk is full"):
        copied(tmp_path, failed)
    with pytest.raises(LinkRefused, match="version"):
        copied(tmp_path, another_version)
    with pytest.raises(LinkRefused, match="does not lead"):
        copied(tmp_path, SnapshotService(lambda: None, no_note).serve)
    assert read_note(tmp_path) is None


def test_a_member_that_does_not_read_does_not_keep_a_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process may be stopped: the connection stays."""
    monkeypatch.setattr(snapshot, "SEND_SECONDS", 0.2)
    (tmp_path / "file").write_bytes(bytes(8 << 20))

    async def run() -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        service, worker, progress = SnapshotService(lambda: None, no_note), Worker(), Progress(1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(20) as whole:
                await service._send(Link(ours), worker, tmp_path, ("file", 8 << 20), progress)
        assert not whole.expired()
        worker.end()
        ours.close()
        theirs.close()

    asyncio.run(run())


def test_an_interrupted_copy_starts_again_with_the_node_that_leads_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"all of it"
    asked: list[str] = []

    async def serve(link: Link, request: Frame) -> None:
        asked.append(str(request["node"]))
        await begin(link)
        if len(asked) > 1:
            await send_file(link, data, xxh3_64(data).hexdigest())
            await link.send({"done": True})

    async def story() -> None:
        port, seen = ClusterPort(ANN, {SNAPSHOT: serve}), []
        bound = await port.listen(("127.0.0.1",), 0)
        leaders = [None, LeaseHolder("ann", "life", 1, host="127.0.0.1", port=bound)]
        lease = Lease(CellStream("orders"), 1)
        copy = SnapshotCopy(Engine(EngineOptions(("nats://127.0.0.1:1",)), "bob"), lease, BOB, tmp_path, seen.append)

        async def find_leader() -> LeaseHolder | None:
            return leaders.pop(0) if len(leaders) > 1 else leaders[0]

        monkeypatch.setattr(copy, "_find_leader", find_leader)
        async with asyncio.timeout(20):
            await copy.run(SnapshotNeeded("too far behind"))
        assert [None if each is None else each.node for each in seen] == [None, "ann", "ann"]
        assert copy.has_copied
        port.close()
        await asyncio.sleep(0)

    asyncio.run(story())
    assert asked == ["bob", "bob"]
    assert read_note(tmp_path) == NOTE
