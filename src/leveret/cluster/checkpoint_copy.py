"""The leader's newest checkpoint (store/checkpoint.py), copied by the members that follow it.

A member with a checkpoint reads only the journal behind it when it takes over. Without one it reads all of it, so a
copy that fails costs time and nothing else. The leader announces new checkpoints in its beats (leader_watch.py).

    member                                  leader
    request "checkpoint"            ->
                                    <-      {} or {"error"}
                                    <-      {"epoch", "following", "size"}, the bytes
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from leveret.cluster.leader_watch import LeaderWatch
from leveret.cluster.lease import LeaseHolder
from leveret.cluster.link import Frame, Link, LinkLost, LinkRefused, Peer, open_link
from leveret.cluster.snapshot import CHUNK, Worker
from leveret.cluster.standby import Standby
from leveret.logs import get_log
from leveret.store.store import Store

CHECKPOINT = "checkpoint"
COPY = "checkpoint.copy"  # in the data directory, while it is received
LOOK = 1.0  # seconds between two looks for a new one
SILENCE = 10.0  # seconds without anything from the leader: try again


class CheckpointService:
    """On the cluster port. ``store``: that of the leader's broker, None if this node does not lead. ``epoch``: that of
    this leader."""

    def __init__(self, store: Callable[[], Store | None], epoch: Callable[[], int]) -> None:
        self._store = store
        self._epoch = epoch

    async def serve(self, link: Link, request: Frame) -> None:
        store, epoch, worker = self._store(), self._epoch(), Worker()  # this node may follow another one soon
        newest = None if store is None else store.newest_checkpoint()
        try:
            if newest is None:
                await link.send({"error": "there is no checkpoint"})
                return
            following, path = newest
            opened = await worker.do(_open, path)
            if opened is None:
                await link.send({"error": "there is a newer checkpoint"})
                return
            with opened:
                await link.send({})
                size = os.fstat(opened.fileno()).st_size
                await link.send({"epoch": epoch, "following": following, "size": size})
                while part := await worker.do(opened.read, CHUNK):
                    async with asyncio.timeout(SILENCE):
                        await link.send_bytes(part)
        finally:
            worker.end()


def _open(path: Path) -> BinaryIO | None:
    try:
        return path.open("rb")
    except FileNotFoundError:
        return None


class CheckpointCopy:
    def __init__(self, peer: Peer, watch: LeaderWatch, folder: Path) -> None:
        self._peer = peer
        self._watch = watch
        self._path = folder / COPY
        self.copied = (0, 0)  # epoch and segment
        self._log = get_log("cluster").bind(cell=peer.cell)

    async def run(self, standby: Standby, leader: Callable[[], LeaseHolder | None]) -> None:
        """While this node follows."""
        self.copied = (0, 0)
        while True:
            await asyncio.sleep(LOOK)
            beat, holder = self._watch.beat, leader()
            if beat is None or holder is None or (holder.epoch, beat.checkpoint) <= self.copied or not beat.checkpoint:
                continue
            if standby.position.epoch != holder.epoch:
                continue  # the claim of the leader is not read yet, and so its checkpoint would not be taken
            try:
                self.copied = await self._copy(standby, (holder.host, holder.port))
            except (LinkLost, LinkRefused, OSError, TimeoutError) as problem:
                self._log.info("checkpoint of the leader not copied", reason=str(problem) or type(problem).__name__)

    async def _copy(self, standby: Standby, address: tuple[str, int]) -> tuple[int, int]:
        link, worker = await open_link(address, self._peer, CHECKPOINT), Worker()
        try:
            async with asyncio.timeout(SILENCE):
                head = await link.receive()
            epoch, following = int(head.get("epoch", 0)), int(head.get("following", 0))
            await self._receive(link, worker, int(head.get("size", 0)))
            await standby.install_checkpoint(epoch, following, self._path)
            return epoch, following
        finally:
            link.close()
            worker.end(lambda: self._path.unlink(missing_ok=True))

    async def _receive(self, link: Link, worker: Worker, left: int) -> None:
        opened = await worker.do(self._path.open, "wb")
        try:
            while left:
                async with asyncio.timeout(SILENCE):
                    part = await link.receive_bytes(min(left, CHUNK))
                await worker.do(opened.write, part)
                left -= len(part)
        finally:
            opened.close()
