"""What connects cells in memory (tests/support/cell_cluster.py): definitions, queues, transfers and copies."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from leveret.cells.definition_feed import Frame
from leveret.cells.queue_move import QueueMove, Stage
from leveret.pipeline.outboxes import Answered, Transfer
from leveret.session.link_connection import LinkConnection
from tests.support.peer_pair import Socket

if TYPE_CHECKING:
    from tests.support.cell_cluster import CellHarness


class DefinitionWire:
    """Carries frames between the first cell and another one."""

    def __init__(self, first: CellHarness, other: CellHarness) -> None:
        self.first, self.other = first, other
        self.to_first: deque[Frame] = deque()
        self.to_other: deque[Frame] = deque()
        self.is_held = False
        self._send = self.to_other.append
        assert other.first is not None
        other.first.connected(self.to_first.append)
        assert first.feed is not None
        first.feed.join(other.cell, self._send)

    def carry(self) -> bool:
        if self.is_held or not (self.to_first or self.to_other):
            return False
        if self.to_other:
            assert self.other.first is not None
            self.other.first.receive(self.to_other.popleft())
        else:
            assert self.first.service is not None
            self.first.service.handle(self.other.cell, self.to_first.popleft(), self._send)
        return True

    def cut(self) -> None:
        assert self.first.feed is not None
        assert self.other.first is not None
        self.first.feed.leave(self.other.cell, self._send)
        if self.first.queue_moves is not None:
            self.first.queue_moves.left(self.other.cell)
        self.other.first.lost()


class QueueWire:
    """Carries the bytes of one link."""

    def __init__(self, here: CellHarness, there: CellHarness, vhost: str, purpose: str) -> None:
        self.here, self.there = here, there
        self._here, self._there = Socket(), Socket()
        self.is_held = False
        cell = here.homes.of(vhost, there.cell)
        self._link = cell.publishing if purpose == "publishing" else cell.consuming
        self.session = LinkConnection(
            there.broker, self._there, there.limits, "link", there.broker.vhost(vhost), here.cell
        )
        there.broker.registry.add(self.session)
        self._link.connected(self._here)

    def carry(self) -> bool:
        if self.is_held:
            return False
        to_there, to_here = bytes(self._here.written), bytes(self._there.written)
        self._here.written.clear()
        self._there.written.clear()
        if to_there:
            self._there.held.append(to_there)
        while self._there.held and self._there.reading:
            self.session.receive(self._there.held.pop(0))
        if to_here:
            self._link.receive(to_here)
        return bool(to_there or to_here)

    def cut(self) -> None:
        self.session.lost()
        self._link.lost()


class TransferWire:
    """Carries messages from the outboxes of a cell to another."""

    def __init__(self, here: CellHarness, there: CellHarness) -> None:
        self.here, self.there = here, there
        self.is_held = False
        self.waiting: deque[tuple[Transfer, Answered]] = deque()

    def carry(self) -> bool:
        if self.is_held or not self.waiting:
            return False
        transfer, answered = self.waiting.popleft()
        answered(self.there.receive_transfer(self.here.cell, transfer))
        return True

    def cut(self) -> None:
        while self.waiting:
            self.waiting.popleft()[1]("the link is lost")


class CopyWire:
    """Carries the frames of one move from a cell to another."""

    def __init__(self, here: CellHarness, there: CellHarness, move: QueueMove) -> None:
        self.here, self.there = here, there
        self.move = move
        self.is_held = False
        self.to_there: deque[Frame] = deque()
        self.to_here: deque[Frame] = deque()
        self.carried = 0
        self.copy = there.moves.accept(self.to_here.append)
        self._is_open = True
        move.connected(self.to_there.append)
        move.when_over(self._close)

    def carry(self) -> bool:
        if self.is_held or not (self.to_there or self.to_here):
            return False
        self.carried += 1
        if self.to_there:
            self.copy.receive(self.to_there.popleft())
        elif self.move.stage is not Stage.OVER:
            self.move.receive(self.to_here.popleft())
        else:
            self.to_here.clear()
        return True

    def _close(self) -> None:
        if self._is_open:
            self._is_open = False
            self.to_there.clear()
            self.to_here.clear()
            self.copy.lost()

    def cut(self) -> None:
        self._close()
        self.move.lost()
