"""A member that copies the leader's data directory (cluster/snapshot.py), because the log alone does not lead there.

A copy that is interrupted starts again, with whatever node leads then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec

from leveret.cluster.engine import Engine, EngineUnavailable
from leveret.cluster.lease import Lease, LeaseHolder
from leveret.cluster.link import Frame, Link, LinkLost, LinkRefused, Peer, open_link
from leveret.cluster.log_faults import SnapshotNeeded
from leveret.cluster.snapshot import CHUNK, SNAPSHOT, Progress, Worker
from leveret.errors import StoreError
from leveret.logs import get_log
from leveret.store.received_snapshot import ReceivedSnapshot
from leveret.store.replica_note import ReplicaNote

LONGEST_PAUSE = 10.0  # seconds between two attempts
SILENCE = 30.0  # seconds without anything from the leader: start again


class SnapshotCopy:
    """``need``: why the files are copied, while they are. ``found`` is called with the node that leads."""

    def __init__(
        self,
        engine: Engine,
        lease: Lease,
        peer: Peer,
        folder: Path,
        found: Callable[[LeaseHolder | None], None],
    ) -> None:
        self.need = ""
        self.has_copied = False  # and has not caught up with the log since
        self._engine = engine
        self._lease = lease
        self._peer = peer
        self._folder = folder
        self._found = found
        self._failures = 0  # in a row
        self._log = get_log("cluster").bind(cell=peer.cell, node=peer.node)

    async def run(self, need: SnapshotNeeded) -> None:
        """Until the data directory is a copy of the leader's, as soon as there is one."""
        if self.has_copied:
            self._log.warning(
                "the log does not reach back to the snapshot", reason=str(need), remedy="increase cluster_log_size"
            )
        self._log.info("copying the leader's data directory", reason=str(need))
        self.need = str(need)
        self._failures = 0
        try:
            while not await self._try():
                await asyncio.sleep(min(self._lease.look_every * 2**self._failures, LONGEST_PAUSE))
            self.has_copied = True
            self._log.info("the leader's data directory was copied")
        finally:
            self.need = ""

    async def _try(self) -> bool:
        try:
            leader = await self._find_leader()
            self._found(leader)
            if leader is None:
                return False
            await copy_snapshot((leader.host, leader.port), self._peer, self._folder)
        except (LinkLost, LinkRefused, EngineUnavailable, StoreError, OSError) as problem:
            self._log.warning("snapshot not copied", reason=str(problem) or type(problem).__name__)
            self._failures += 1
            return False
        return True

    async def _find_leader(self) -> LeaseHolder | None:
        """Another node."""
        connection = await self._engine.connect()
        try:
            held = await self._lease.read(connection)
        finally:
            await connection.close()
        if held is None or held.holder.is_released or held.holder.node == self._peer.node:
            return None
        return held.holder


async def copy_snapshot(address: tuple[str, int], peer: Peer, path: Path) -> ReplicaNote:
    """Replace the data directory by a snapshot of the leader's. Raises ConnectionRefusedError, LinkLost, LinkRefused or
    StoreError; the directory is then as it was."""
    link = await open_link(address, peer, SNAPSHOT)
    try:
        head = await _receive(link)
        note = msgspec.convert(head.get("note"), ReplicaNote)
        worker = Worker()
        received = await worker.do(ReceivedSnapshot, path)
        try:
            progress = Progress(int(head.get("bytes", 0)), node=peer.node)
            while not (frame := await _receive(link)).get("done"):
                await _receive_file(link, worker, received, frame, progress)
            await worker.do(received.install, note)
            progress.complete()
            return note
        finally:
            await asyncio.shield(worker.do(received.close))
            worker.end()
    except msgspec.ValidationError as problem:
        raise LinkRefused(f"the leader's version of Leveret is another one ({problem})") from problem
    except TimeoutError as problem:
        raise LinkLost(f"nothing was received for {SILENCE:.0f} seconds") from problem
    finally:
        link.close()


async def _receive_file(
    link: Link, worker: Worker, received: ReceivedSnapshot, frame: Frame, progress: Progress
) -> None:
    await worker.do(received.begin, str(frame.get("name")))
    left = int(frame.get("size", 0))
    while left:
        async with asyncio.timeout(SILENCE):
            part = await link.receive_bytes(min(left, CHUNK))
        await worker.do(received.write, part)
        left -= len(part)
        progress.add(len(part))
    await worker.do(received.end, str((await _receive(link)).get("digest")))


async def _receive(link: Link) -> Frame:
    while True:
        async with asyncio.timeout(SILENCE):
            frame = await link.receive()
        if (error := frame.get("error")) is not None:
            raise LinkRefused(str(error))
        if not frame.get("wait"):
            return frame
