"""The first cell: decides about moves of queues between cells.

Theory of operation. The home cell of a queue copies it to another cell, and reports when the copy is complete and the
queue is held (cells/queue_move.py). Then the other cell is ordered to make the copy the queue, which it does or refuses
(cells/queue_copy.py). Then all cells are told the new home, or the old home cell that it keeps the queue:

    copying ──ready──> committing ──moved──> done
       └─────failed────────┴──────────────> failed

A cell that is away is waited for in ``committing``: it knows whether it has the queue. Moves are not recorded here. A
home cell that holds a queue reports that whenever it connects, and the question is put to the other cell again.
"""

from __future__ import annotations

from collections.abc import Callable

from leveret.broker.broker import Broker
from leveret.broker.vhost_cells import refuse_moves
from leveret.cells.definition_feed import DefinitionFeed
from leveret.cells.move_agent import MoveAgent
from leveret.cells.placeholder import movable
from leveret.cells.queue_copy import Frame
from leveret.errors import NotFound, PreconditionFailed
from leveret.logs import get_log
from leveret.queues.declared_queue import DeclaredQueue, home_of
from leveret.queues.stream_options import STREAM

COPYING, COMMITTING, DONE, FAILED = "copying", "committing", "done", "failed"
MOST_KEPT = 200
SHARD = "sharding: "  # how the names of shards begin


class RequestedMove:
    """One move, under way or over. Times are wall times."""

    def __init__(self, id_: str, vhost: str, queue: str, source: str, to: str, began: float) -> None:
        self.id, self.vhost, self.queue = id_, vhost, queue
        self.source, self.to = source, to
        self.state = COPYING
        self.reason = ""
        self.copied = self.total = 0
        self.began = began
        self.ended: float | None = None

    @property
    def is_over(self) -> bool:
        return self.state in (DONE, FAILED)


class QueueMoves:
    """``cell``: the name of the first cell, ``cells`` returns those of all cells that are connected, ``new_id`` a
    number that no move has had."""

    def __init__(
        self,
        broker: Broker,
        cell: str,
        feed: DefinitionFeed,
        agent: MoveAgent,
        cells: Callable[[], list[str]],
        new_id: Callable[[], str],
    ) -> None:
        self.all: dict[str, RequestedMove] = {}
        self.cells = cells
        self._broker = broker
        self._cell = cell
        self._feed = feed
        self._agent = agent
        self._new_id = new_id
        agent.first = self
        broker.cells.queue_moves = self

    def start(self) -> None:
        """Queues of this cell that were held in the previous run."""
        self._decide_held(self._cell, self._agent.held())

    # ---- requests

    def home(self, queue: DeclaredQueue) -> str:
        return home_of(queue) or self._cell

    def begin(self, vhost: str, name: str, to: str, *, is_shard: bool = False) -> RequestedMove:
        """AmqpError with the cause and the remedy if the queue cannot be moved there. ``is_shard``: a shard may be
        moved, since its cell leaves."""
        host = self._broker.vhost(vhost)
        refuse_moves(host)
        queue = host.queue(name)
        source = self.home(queue)
        self._refuse(queue, source, to, is_shard)
        move = RequestedMove(self._new_id(), vhost, name, source, to, self._broker.clock.wall())
        move.total = queue.ready + queue.unacked
        self._remember(move)
        if not self._send(source, {"start": [move.id, vhost, name, to]}):
            self._end(move, FAILED, f"cell {source} is not connected")
        return move

    def _refuse(self, queue: DeclaredQueue, source: str, to: str, is_shard: bool) -> None:
        name, known = queue.name, self.cells()
        if to not in known:
            raise NotFound(f"no cell '{to}': it must be one of {', '.join(sorted(known))}")
        if to == source:
            raise PreconditionFailed(f"queue '{name}' is in cell {to} already")
        if queue.options.kind == STREAM:
            raise PreconditionFailed(
                f"queue '{name}' is a stream, which cannot be moved: declare a new one from a connection of cell {to}"
            )
        if queue.owner is not None:
            raise PreconditionFailed(f"queue '{name}' is exclusive, and stays in the cell of its connection")
        if name.startswith(SHARD) and not is_shard:
            raise PreconditionFailed(
                f"queue '{name}' is a shard, whose cell follows from the sharding policy: change the policy instead"
            )
        if source == self._cell:
            movable(queue)
        if self.of(queue.vhost, name) is not None:
            raise PreconditionFailed(f"queue '{name}' in vhost '{queue.vhost}' is being moved already")

    def of(self, vhost: str, name: str) -> RequestedMove | None:
        """The move of a queue that is under way."""
        moves = (each for each in self.all.values() if not each.is_over)
        return next((each for each in moves if (each.vhost, each.queue) == (vhost, name)), None)

    def _remember(self, move: RequestedMove) -> None:
        over = [each.id for each in self.all.values() if each.is_over]
        for id_ in over[: max(0, len(self.all) - MOST_KEPT + 1)]:
            del self.all[id_]
        self.all[move.id] = move

    def is_decided_elsewhere(self, vhost: str, queue: str) -> bool:
        move = self.of(vhost, queue)
        return move is not None and move.state == COMMITTING

    # ---- reports of the cells

    def report_move(self, report: Frame) -> None:
        """Of this cell."""
        self.handle(self._cell, report)

    def handle(self, sender: str, report: Frame) -> None:
        if "held" in report:  # the cell has connected
            self._decide_held(sender, report["held"])
            return
        move = self.all.get(report["id"])
        if move is None or move.is_over:
            if move is not None and move.state == FAILED and "ready" in report:  # its connection was lost meanwhile
                self._send(sender, {"release": [move.id, move.vhost, move.queue]})
            return
        if "copied" in report:
            move.copied, move.total = report["copied"], report["total"]
        elif "ready" in report:
            self._commit(move)
        elif "moved" in report:
            self._moved(move)
        else:
            self._failed(sender, move, str(report["failed"]))

    def left(self, cell: str) -> None:
        """The cell has lost its connection to this one."""
        for move in list(self.all.values()):
            if move.state == COPYING and cell == move.source:
                self._end(move, FAILED, f"cell {cell} has lost its connection to cell {self._cell}")

    def _decide_held(self, sender: str, held: list[list[str]]) -> None:
        for id_, vhost, queue, to in held:
            move = self.all.get(id_)
            if move is None:
                move = RequestedMove(id_, vhost, queue, sender, to, self._broker.clock.wall())
                self._remember(move)
            move.reason, move.ended = "", None  # the report that it is ready was lost, with the connection
            self._commit(move)
        for move in [each for each in self.all.values() if each.state == COMMITTING and each.to == sender]:
            self._commit(move)

    def _commit(self, move: RequestedMove) -> None:
        """Also to ask again. The order waits while the other cell is away."""
        move.state = COMMITTING
        self._send(move.to, {"commit": [move.id, move.vhost, move.queue, move.source]})

    def _failed(self, sender: str, move: RequestedMove, reason: str) -> None:
        if move.state == COMMITTING and sender == move.to:
            self._send(move.source, {"release": [move.id, move.vhost, move.queue]})
        self._end(move, FAILED, reason)

    def _moved(self, move: RequestedMove) -> None:
        vhost = self._broker.vhosts.get(move.vhost)
        queue = None if vhost is None else vhost.queues.get(move.queue)
        if vhost is None or queue is None:
            self._feed.send_to(move.source, {"drop": ["queue", [move.vhost, move.queue]]})
            self._end(move, FAILED, "the queue was deleted")
            return
        if move.to != self._cell:
            self._agent.rehome(move.vhost, move.queue, move.to)
        self._broker.when_granted(lambda: self._tell(move))

    def _tell(self, move: RequestedMove) -> None:
        """The new home is on disk here: nothing can bring the old one back."""
        vhost = self._broker.vhosts.get(move.vhost)
        queue = None if vhost is None else vhost.queues.get(move.queue)
        if vhost is not None and queue is not None and self.home(queue) == move.to:
            if move.to == self._cell:
                self._agent.rehome(move.vhost, move.queue, move.to)
            self._feed.queue_moved(queue)
        self._end(move, DONE)

    def _end(self, move: RequestedMove, state: str, reason: str = "") -> None:
        move.state, move.reason, move.ended = state, reason, self._broker.clock.wall()
        if state == DONE:
            move.copied = move.total
            get_log("cells").info("queue moved", queue=move.queue, vhost=move.vhost, source=move.source, to=move.to)

    def _send(self, cell: str, order: Frame) -> bool:
        if cell == self._cell:
            self._agent.order(order)
            return True
        return self._feed.send_to(cell, {"move": order})
