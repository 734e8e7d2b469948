"""Transfers of committed messages to other cells, on their cluster ports (pipeline/outboxes.py, pipeline/transfers.py).

A cell keeps one connection to each cell that it transfers to. After the request it sends the ids of its outboxes for
that cell, then one transfer after the other: a frame, and the contents of the messages. Each is answered when it is
durable: {}, or {error}. What was sent and not answered when the connection is lost is sent again by its outbox. So it
is if the cell has moved, or does not answer in time: a former leader may keep its connections open, and stores nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Any, NamedTuple

from leveret.cluster.cell_addresses import Address, CellAddresses, abort_when_moved
from leveret.cluster.link import Frame, Link, LinkLost, LinkRefused, Peer, open_link
from leveret.errors import ClusterError, LeveretError
from leveret.logs import get_log

TRANSFERS = "transfers"  # the request on the cluster port
LARGEST_FRAME = 1 << 28  # the sizes and addresses of all messages of a transfer
LARGEST_CONTENTS = 1 << 31
PIECE = 1 << 20  # bytes of contents
ANSWER_SECONDS = 30.0  # for each piece, and for the answer
Answered = Callable[[str | None], None]
Receive = Callable[[str, Frame, bytes], Awaitable[None]]


class TransferLink(NamedTuple):
    """``there``: where the cell was when the link was opened."""

    link: Link
    there: Address


class CellTransfers:
    """``ids(cell)``: those of the own outboxes for a cell. ``receive`` and ``keep_only`` are called with the name of a
    cell that sends transfers, as soon as ``is_ready`` is set."""

    def __init__(
        self,
        peer: Peer,
        addresses: CellAddresses,
        ids: Callable[[str], list[str]],
        receive: Receive,
        keep_only: Callable[[str, Collection[str]], None],
    ) -> None:
        self.is_ready = False
        self._peer = peer
        self._addresses = addresses
        self._ids = ids
        self._receive = receive
        self._keep_only = keep_only
        self._log = get_log("cells").bind(cell=peer.node)
        self._waiting: dict[str, asyncio.Queue[tuple[Frame, bytes, Answered]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._serving: set[asyncio.Task[None]] = set()

    def send(self, cell: str, head: dict[str, Any], contents: bytes, answered: Answered) -> None:
        if cell not in self._waiting:
            self._waiting[cell] = asyncio.Queue()
            self._tasks.add(asyncio.create_task(self._run(cell)))
        self._waiting[cell].put_nowait((head, contents, answered))

    async def stop(self) -> None:
        """Transfers to this cell end, too: it may store nothing more."""
        self.is_ready = False
        tasks = self._tasks | self._serving
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _run(self, cell: str) -> None:
        link: TransferLink | None = None
        try:
            while True:
                head, contents, answered = await self._waiting[cell].get()
                problem: str | None = None
                try:
                    if link is None:
                        link = await self._connect(cell)
                    problem = await self._transfer(cell, link, head, contents)
                except Exception as failure:  # noqa: BLE001 - the next transfer gets a new connection
                    problem = self._problem(failure, cell)
                    if link is not None:
                        link.link.close()
                        link = None
                try:
                    answered(problem)
                except Exception:  # noqa: BLE001 - of one outbox, the others go on
                    self._log.exception("internal error after a transfer to another cell", other=cell)
        finally:
            if link is not None:
                link.link.close()

    def _problem(self, failure: Exception, cell: str) -> str:
        if isinstance(failure, OSError | LinkLost | LinkRefused):
            return str(failure)
        self._log.exception("internal error in a transfer to another cell", other=cell)
        return "internal error"

    async def _connect(self, cell: str) -> TransferLink:
        there = self._addresses.of(cell)
        if there is None:
            raise LinkLost(f"cell {cell} has not connected yet")
        link = await open_link(there, self._peer, TRANSFERS)
        try:
            await link.send({"outboxes": self._ids(cell)})
        except BaseException:
            link.close()
            raise
        return TransferLink(link, there)

    async def _transfer(self, cell: str, to: TransferLink, head: Frame, contents: bytes) -> str | None:
        """The error of the other cell, or None. Raises LinkLost if it has moved, or takes too long."""
        link, there = to
        moving = asyncio.create_task(abort_when_moved(self._addresses, cell, there, link.abort))
        try:
            await link.send(head)
            for start in range(0, len(contents), PIECE):
                async with asyncio.timeout(ANSWER_SECONDS):
                    await link.send_bytes(contents[start : start + PIECE])
            async with asyncio.timeout(ANSWER_SECONDS):
                problem = (await link.receive()).get("error")
        except TimeoutError:
            raise LinkLost(f"cell {cell} does not answer") from None
        finally:
            moving.cancel()
        return None if problem is None else str(problem)

    async def serve(self, link: Link, request: Frame) -> None:
        """For the cluster port."""
        cell = str(request["node"])
        if not self.is_ready:
            raise ClusterError(f"cell {self._peer.node} is starting or stopping")
        await link.send({})
        serving: asyncio.Task[None] | None = asyncio.current_task()
        assert serving is not None
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)
        known = await link.receive(LARGEST_FRAME)
        self._keep_only(cell, frozenset(known["outboxes"]))
        while True:
            head = await link.receive(LARGEST_FRAME)
            size = sum(head["sizes"])
            if size > LARGEST_CONTENTS:
                raise LinkLost(f"a transfer of {size} bytes")
            contents = await link.receive_bytes(size)
            try:
                await self._receive(cell, head, contents)
            except LeveretError as problem:
                await link.send({"error": str(problem)})
            else:
                await link.send({})
