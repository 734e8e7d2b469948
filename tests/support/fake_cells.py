"""Cells that exist in name only, for tests of the API and the management UI of an embedded broker."""

from __future__ import annotations

from leveret.broker.cells import CellState, Proposal
from leveret.cells.queue_moves import RequestedMove
from leveret.errors import NotFound, PreconditionFailed
from leveret.queues.declared_queue import DeclaredQueue

CELLS = ("c1", "c2", "c3")


class FakeCells:
    """All queues live in c1, until they are moved. A move ends when ``finish`` is called."""

    def __init__(self) -> None:
        self.all: dict[str, RequestedMove] = {}
        self.homes: dict[str, str] = {}
        self.left: list[str] = []
        self.removed: list[str] = []

    def home(self, queue: DeclaredQueue) -> str:
        return self.homes.get(queue.name, "c1")

    # ---- moves (broker.cells.QueueMover), and CellChanges with the same name: told apart by their arguments

    def begin(self, *given: str) -> RequestedMove | None:
        if len(given) == 1:
            self.left += given
            return None
        vhost, name, to = given
        if to not in CELLS:
            raise NotFound(f"no cell '{to}'")
        if self.homes.get(name, "c1") == to:
            raise PreconditionFailed(f"queue '{name}' is in cell {to} already")
        move = self.all["1"] = RequestedMove("1", vhost, name, self.homes.get(name, "c1"), to, 0.0)
        return move

    def finish(self, reason: str = "") -> None:
        move = self.all["1"]
        move.state, move.reason, move.ended = "failed" if reason else "done", reason, 1.0
        if not reason:
            self.homes[move.queue] = move.to

    def cancel(self, name: str) -> None:
        self.left.remove(name)

    def states(self) -> list[CellState]:
        return [CellState(name, "leaving" if name in self.left else "running", 1, 2, []) for name in CELLS]

    def plan(self, vhost: str | None = None) -> list[Proposal]:
        return [Proposal("/", "orders", "c1", "c2", 5, "c1 has 100% of the load, c2 0%")]
