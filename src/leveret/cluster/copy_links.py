"""Connections on the cluster port that carry the messages of queues that move: one for each move.

Their frames are MessagePack, since JSON has no bytes. An empty frame is a heartbeat.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

import msgspec

from leveret.cells.queue_copy import QueueCopy, Send
from leveret.cells.queue_move import QueueMove, Stage
from leveret.cluster.cell_addresses import CellAddresses
from leveret.cluster.cell_links import FrameSender
from leveret.cluster.link import SIZE, Frame, Link, LinkLost, LinkRefused, Peer, open_link

COPIES = "copies"  # the request on the cluster port
LARGEST = 1 << 30  # a frame with one message of the largest size


class PackedLink:
    def __init__(self, link: Link) -> None:
        self._link = link

    @property
    def received(self) -> int:
        return self._link.received

    async def send(self, frame: Frame) -> None:
        data = msgspec.msgpack.encode(frame)
        await self._link.send_bytes(SIZE.pack(len(data)) + data)

    async def receive(self) -> Frame:
        (size,) = SIZE.unpack(await self._link.receive_bytes(SIZE.size))
        if size > LARGEST:
            raise LinkLost(f"a frame of {size} bytes: the other side is no cell of Leveret")
        try:
            return msgspec.msgpack.decode(await self._link.receive_bytes(size), type=Frame)
        except msgspec.MsgspecError as problem:
            raise LinkLost(f"a frame cannot be read ({problem})") from problem

    def abort(self) -> None:
        self._link.abort()


class CheckedEnds(Protocol):
    """Checked for heartbeats (CellLinks.ends)."""

    def add(self, end: FrameSender, /) -> None: ...

    def discard(self, end: FrameSender, /) -> None: ...


class CopyLinks:
    """``accept`` returns the copy for a connection of another cell."""

    def __init__(
        self, peer: Peer, addresses: CellAddresses, ends: CheckedEnds, accept: Callable[[Send], QueueCopy]
    ) -> None:
        self._peer = peer
        self._addresses = addresses
        self._ends = ends
        self._accept = accept
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def services(self) -> Mapping[str, Callable[[Link, Frame], Awaitable[None]]]:
        """For the cluster port."""
        return {COPIES: self._serve}

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    # ---- the cell that gets the queue

    async def _serve(self, link: Link, request: Frame) -> None:
        await link.send({})
        packed = PackedLink(link)
        sender = FrameSender(packed, f"cell {request['node']} (copies) -> cell {self._peer.node}")
        copy = self._accept(sender.send)
        sending = asyncio.create_task(sender.run())
        self._ends.add(sender)
        try:
            while True:
                if frame := await packed.receive():
                    copy.receive(frame)
        finally:
            self._ends.discard(sender)
            copy.lost()
            sending.cancel()

    # ---- the cell where the queue is

    def connect(self, cell: str, move: QueueMove) -> None:
        task = asyncio.create_task(self._copy(cell, move))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _copy(self, cell: str, move: QueueMove) -> None:
        """Until the move is over."""
        address = self._addresses.of(cell)
        try:
            if address is None:
                raise LinkLost(f"cell {cell} is not connected")
            link = await open_link(address, self._peer, COPIES)
        except (OSError, LinkLost, LinkRefused) as problem:
            move.lost(str(problem))
            return
        packed = PackedLink(link)
        sender = FrameSender(packed, f"cell {self._peer.node} (copies) -> cell {cell}")
        sending = asyncio.create_task(sender.run())
        self._ends.add(sender)
        move.connected(sender.send)
        move.when_over(packed.abort)
        try:
            while move.stage is not Stage.OVER:
                if frame := await packed.receive():
                    move.receive(frame)
        except LinkLost as problem:
            move.lost(f"the connection to cell {cell} is lost: {problem}")
        finally:
            self._ends.discard(sender)
            sending.cancel()
            link.close()
