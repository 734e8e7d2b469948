"""Cells with disks, each with a Spark sink, without a server: the test carries the transfers between them.

cells = SinkCells()
outcomes = cells.commit(0, "orders", "key", b"1", b"2")   # in the first cell
cells.carry()
cells.crash(2)
"""

from __future__ import annotations

from typing import NamedTuple

from leveret.pipeline.outboxes import Answered, Transfer
from tests.support.cell_cluster import CellCluster, CellHarness, StoredCell
from tests.support.sinks import Outcome, Sink
from tests.support.stored_harness import StoredLife

MOST_STEPS = 1_000


class Sent(NamedTuple):
    by: CellHarness
    cell: str
    transfer: Transfer
    answered: Answered


class SinkCells(CellCluster):
    def __init__(self) -> None:
        self.sent: list[Sent] = []
        super().__init__(3, has_disks=True)
        self._sinks = {cell.cell: Sink(cell, cell.commits) for cell in self.cells}

    def transfer(self, here: CellHarness, cell: str, transfer: Transfer, answered: Answered) -> None:
        self.sent.append(Sent(here, cell, transfer, answered))

    def restarted(self, place: int, life: StoredLife) -> StoredCell:
        """As node.py does."""
        former = self.cells[place]
        cell = super().restarted(place, life)
        self.sent = [each for each in self.sent if each.by is not former]
        cell.sharding.start()
        for other in reversed(self.cells):  # the last one first: it leaves, and is given up while it is not connected
            cell.sharding.membership.joined(other.cell)
        self._sinks[cell.cell] = Sink(cell, cell.commits)
        return cell

    def commit(self, batch: int, exchange: str, key: str, *bodies: bytes) -> list[Outcome]:
        """In the first cell; the outcome when there is one."""
        sink = self._sinks["c1"]
        outcomes = sink.send("T", batch, sink.stage("T", batch, *bodies, exchange=exchange, key=key))
        self.rest()
        return outcomes

    def carry(self, *, is_answered: bool = True) -> None:
        """The next transfer arrives. ``is_answered`` False: the link is lost before its answer."""
        here, cell, transfer, answered = self.sent.pop(0)
        (there,) = [each for each in self.cells if each.cell == cell]
        problem = there.receive_transfer(here.cell, transfer)
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
