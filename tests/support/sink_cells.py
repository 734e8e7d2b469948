"""Cells with disks, each with a Spark sink, without a server: the test carries the transfers between them.

cells = SinkCells()
outcomes = cells.commit(0, "orders", "key", b"1", b"2")   # in the first cell
cells.carry()
cells.crash(2)
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from leveret.errors import LeveretError
from leveret.pipeline.outboxes import Answered, Transfer
from leveret.pipeline.transfers import ReceivedTransfers, decoded, encoded
from tests.support.cell_cluster import CellCluster, CellHarness, StoredCell
from tests.support.sinks import Outcome, Sink
from tests.support.stored_harness import StoredLife

MOST_STEPS = 1_000
STEPS_OF_ONE = 50  # after which a transfer counts as not answered


class Sent(NamedTuple):
    by: CellHarness
    cell: str
    transfer: Transfer
    answered: Answered


class SinkCells(CellCluster):
    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.sinks: dict[str, Sink] = {}
        self._received: dict[str, ReceivedTransfers] = {}
        super().__init__(3, has_disks=True)
        for cell in self.cells:
            self._start_sink(cell)

    def restarted(self, place: int, life: StoredLife) -> StoredCell:
        """As node.py does."""
        cell = super().restarted(place, life)
        self.sent = [each for each in self.sent if each.by.cell != cell.cell]
        self._start_sink(cell)
        return cell

    def _start_sink(self, cell: CellHarness) -> None:
        is_new = cell in self.cells
        self.sinks[cell.cell] = sink = Sink(cell, prepare=lambda: None if is_new else self._start_sharding(cell))
        self._received[cell.cell] = ReceivedTransfers(cell.broker, sink.commits.outboxes)
        sink.commits.outboxes.start(lambda *sent: self.sent.append(Sent(cell, *sent)))

    def _start_sharding(self, cell: CellHarness) -> None:
        cell.sharding.start()
        for other in reversed(self.cells):  # the last one first: it leaves, and is given up while it is not connected
            cell.sharding.membership.joined(other.cell)

    def commit(self, batch: int, exchange: str, key: str, *bodies: bytes) -> list[Outcome]:
        """In the first cell; the outcome when there is one."""
        sink = self.sinks["c1"]
        outcomes = sink.send("T", batch, sink.stage("T", batch, *bodies, exchange=exchange, key=key))
        self.rest()
        return outcomes

    def carry(self, *, is_answered: bool = True) -> None:
        """The next transfer arrives. ``is_answered`` False: the link is lost before its answer."""
        _, cell, transfer, answered = self.sent.pop(0)
        problem = asyncio.run(self._receive(cell, decoded(*encoded(transfer))))
        answered(problem if is_answered else "the link is lost")
        self.rest()

    def carry_all(self) -> None:
        for _ in range(MOST_STEPS):
            if not self.sent:
                self.advance(2)  # what is sent again
            if not self.sent:
                return
            self.carry()
        raise AssertionError("the transfers do not end")

    async def _receive(self, cell: str, transfer: Transfer) -> str | None:
        sender = "c1"  # a mark is that of a cell and an outbox, and the ids of outboxes are unique
        receiving = asyncio.ensure_future(self._received[cell].receive(sender, transfer))
        for _ in range(STEPS_OF_ONE):
            await asyncio.sleep(0)
            self.rest()
            if receiving.done():
                break
        else:
            receiving.cancel()
            return "no answer"
        try:
            return await receiving
        except LeveretError as problem:
            return str(problem)
