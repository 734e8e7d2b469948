"""The first cell: takes other cells out of service.

A cell that leaves gets no new queues, and its shards get no new messages: they are taken out of the bindings of
sharded exchanges, in all cells (sharding/membership.py, which also records the cells that have left). Its queues move
to the other cells, one after the other (cells/queue_moves.py); a shard moves when its messages are consumed, because
later messages of its keys are in other shards already. When the cell has no queues but exclusive ones, which end with
their connections, and nothing waits for its shards, it is removed. A restart of any cell goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Protocol

from leveret.broker.broker import Broker
from leveret.broker.cells import CellState, Proposal
from leveret.cells.queue_moves import FAILED, SHARD, QueueMoves
from leveret.cells.rebalance import QueueLoad, proposals
from leveret.errors import AmqpError, NotFound, PreconditionFailed
from leveret.logs import get_log
from leveret.queues.declared_queue import DeclaredQueue
from leveret.queues.stream_options import STREAM

LOOK_EVERY = 1.0  # seconds
RETRY_AFTER = 5.0
RUNNING, LEAVES, DRAINED, REMOVED = "running", "leaving", "drained", "removed"


class Membership(Protocol):
    """The cells that are used (sharding/membership.py)."""

    def left_cells(self) -> list[str]: ...

    def leave(self, name: str) -> None: ...

    def rejoin(self, name: str) -> None: ...


class CellRemovals:
    """``is_settled``: whether nothing waits for the shards of a cell, or is on its way to it. ``remove`` is called with
    the name of a cell that can be stopped; without it, the cells are stopped by hand."""

    def __init__(
        self,
        broker: Broker,
        cell: str,
        moves: QueueMoves,
        members: Membership,
        is_settled: Callable[[str], bool],
        remove: Callable[[str], None] | None,
    ) -> None:
        self._broker = broker
        self._cell = cell
        self._moves = moves
        self._members = members
        self._is_settled = is_settled
        self._remove = remove
        self.removed: set[str] = set()
        self._failed: dict[tuple[str, str], tuple[float, str]] = {}  # when, and why, by virtual host and queue
        self._is_looking = False
        broker.cells.removals = self

    def start(self) -> None:
        """Go on with what the previous run has begun."""
        self._look_later()

    # ---- requests

    def begin(self, name: str) -> None:
        if name == self._cell:
            raise PreconditionFailed(
                f"cell {name} is the first, which has the definitions of all: it cannot be removed"
            )
        if name not in self._moves.cells():
            raise NotFound(f"no cell '{name}' is connected")
        self._members.leave(name)
        self._look_later()
        self._broker.wake()

    def cancel(self, name: str) -> None:
        """The cell stays. Queues that have moved stay where they are."""
        if name not in self._members.left_cells() or name in self.removed:
            raise PreconditionFailed(f"cell {name} does not leave")
        self._members.rejoin(name)
        self._broker.wake()

    def states(self) -> list[CellState]:
        leaving, connected = self._members.left_cells(), self._moves.cells()
        queues, messages = Counter[str](), Counter[str]()
        for queue in self._queues():
            home = self._moves.home(queue)
            queues[home] += 1
            messages[home] += queue.ready + queue.unacked
        names = sorted({*connected, *queues, *leaving})
        return [
            CellState(name, self._state(name, connected, leaving), queues[name], messages[name], self._waiting(name))
            for name in names
        ]

    def _state(self, name: str, connected: list[str], leaving: list[str]) -> str:
        if name in self.removed:
            return REMOVED
        if name in leaving:
            return DRAINED if self._remove is None and self._is_drained(name) else LEAVES
        return RUNNING if name in connected else "down"

    def _waiting(self, name: str) -> list[str]:
        """What the removal of a cell waits for."""
        if name not in self._members.left_cells() or name in self.removed:
            return []
        found: list[str] = []
        for queue in self._left_in(name):
            if queue.name.startswith(SHARD) and queue.ready:
                found.append(f"shard '{queue.name}' has {queue.ready} messages: consume them, or purge it")
            elif queue.options.kind == STREAM:
                found.append(f"stream '{queue.name}' cannot be moved: delete it, or cancel the removal")
            elif (failure := self._failed.get((queue.vhost, queue.name))) is not None:
                found.append(f"queue '{queue.name}': {failure[1]}")
        for vhost in self._placed_in(name):
            found.append(f"vhost '{vhost}' lives there: delete it, or cancel the removal")
        if not found and not self._is_settled(name):
            found.append("messages of ordered exchanges or of Spark are on their way to it")
        if self._remove is None and self._is_drained(name):
            found.append(f"stop its nodes, remove their directories cells/{name}, and start all with fewer --cells")
        return found

    def plan(self, vhost: str | None = None) -> list[Proposal]:
        """Moves that make the load of all cells equal."""
        leaving = self._members.left_cells()
        cells = [name for name in self._moves.cells() if name not in leaving]
        loads = [
            QueueLoad(queue.vhost, queue.name, self._moves.home(queue), queue.ready + queue.unacked)
            for queue in self._queues()
            if vhost in (None, queue.vhost) and self._can_move(queue) and not queue.name.startswith(SHARD)
        ]
        return proposals(loads, cells)

    # ---- the work

    def _queues(self) -> list[DeclaredQueue]:
        vhosts = [vhost for vhost in self._broker.vhosts.values() if not vhost.cell]
        return [queue for vhost in vhosts for queue in vhost.queues.values()]

    def _can_move(self, queue: DeclaredQueue) -> bool:
        return queue.owner is None and queue.options.kind != STREAM

    def _left_in(self, cell: str) -> list[DeclaredQueue]:
        return [queue for queue in self._queues() if queue.owner is None and self._moves.home(queue) == cell]

    def _is_drained(self, cell: str) -> bool:
        return not self._left_in(cell) and not self._placed_in(cell) and self._is_settled(cell)

    def _placed_in(self, cell: str) -> list[str]:
        """Virtual hosts that are in this cell only."""
        return [vhost.name for vhost in self._broker.vhosts.values() if vhost.cell == cell]

    def _look_later(self) -> None:
        if not self._is_looking and self._members.left_cells():
            self._is_looking = True
            self._broker.timers.at(self._broker.clock.now() + LOOK_EVERY, self._look)

    def _look(self) -> None:
        self._is_looking = False
        for name in self._members.left_cells():
            if name not in self.removed and name in self._moves.cells():
                self._go_on(name)
        self._look_later()
        self._broker.wake()

    def _go_on(self, cell: str) -> None:
        left = self._left_in(cell)
        is_settled = self._is_settled(cell)
        if not left:
            if self._remove is not None and self._is_drained(cell):
                self.removed.add(cell)
                get_log("cells").info("cell has no more queues, it is stopped", cell=cell)
                self._remove(cell)
            return
        self._note_failures()
        if any(not move.is_over and move.source == cell for move in self._moves.all.values()):
            return
        now = self._broker.clock.now()
        for queue in left:
            when, _ = self._failed.get((queue.vhost, queue.name), (-RETRY_AFTER, ""))
            is_shard = queue.name.startswith(SHARD)
            is_used = is_shard and (queue.ready > 0 or not is_settled)
            if self._can_move(queue) and not is_used and now >= when + RETRY_AFTER:
                self._move(queue, is_shard)
                return

    def _move(self, queue: DeclaredQueue, is_shard: bool) -> None:
        leaving = self._members.left_cells()
        loads = Counter[str]({name: 0 for name in self._moves.cells() if name not in leaving})
        for each in self._queues():
            if (home := self._moves.home(each)) in loads:
                loads[home] += 1
        to = min(sorted(loads), key=lambda name: loads[name])
        try:
            self._moves.begin(queue.vhost, queue.name, to, is_shard=is_shard)
        except AmqpError as refusal:
            self._failed[queue.vhost, queue.name] = self._broker.clock.now(), refusal.text

    def _note_failures(self) -> None:
        for move in self._moves.all.values():
            key = move.vhost, move.queue
            if move.state == FAILED and key not in self._failed:
                self._failed[key] = self._broker.clock.now(), move.reason
            elif move.state != FAILED:
                self._failed.pop(key, None)
