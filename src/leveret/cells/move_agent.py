"""The part of one cell in moves of queues: it carries out the orders of the first cell (cells/queue_moves.py).

{"start": [id, vhost, queue, to]}         copy a queue of this cell, and hold it
{"commit": [id, vhost, queue, source]}    make the copy the queue; or say whether that was done
{"release": [id, vhost, queue]}           the queue stays here
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from leveret.broker.broker import Broker
from leveret.broker.rows import queue_row
from leveret.broker.vhost import HOME, Vhost
from leveret.cells.home_cells import HomeCells
from leveret.cells.placeholder import Placeholder
from leveret.cells.queue_copy import MOVED, Frame, QueueCopy, Send, discard_copies, hand_over, take_back
from leveret.cells.queue_move import MOVING, MoveOrder, QueueMove, Stage
from leveret.cells.remote_queue import RemoteQueue
from leveret.cells.split_queue import SplitQueue, go_on_merging, mergeable
from leveret.errors import LeveretError
from leveret.logs import get_log
from leveret.queues.declared_queue import Declaration, DeclaredQueue
from leveret.store.definitions import Drop, Put, QueueRow

Connect = Callable[[str, QueueMove], None]


class MoveDecisions(Protocol):
    def report_move(self, report: Frame) -> None: ...


class MoveAgent:
    """``first``, to be set: the first cell. ``connect`` opens the connection for a copy to a cell."""

    def __init__(self, broker: Broker, cell: str, homes: HomeCells, connect: Connect) -> None:
        self.first: MoveDecisions | None = None
        self._broker = broker
        self._cell = cell
        self._homes = homes
        self._connect = connect
        self._moves: dict[str, QueueMove] = {}
        self._copies: list[QueueCopy] = []
        self._promoted: set[str] = set()  # moves to this cell since its start; durable queues have a parameter too
        self._arrived: set[tuple[str, str]] = set()  # queues of such moves, until the first cell has their new home
        self._splits: dict[DeclaredQueue, SplitQueue] = {}
        self._log = get_log("cells").bind(cell=cell)

    def start(self) -> None:
        """Once, when the definitions are restored, and before anything can be published."""
        discard_copies(self._broker)
        go_on_merging(self._broker)
        for vhost in self._broker.vhosts.values():
            for queue in vhost.parameters.names(MOVING):
                to, id_ = (vhost.parameters.get(MOVING, queue) or b"").decode().split()
                if queue in vhost.queues:
                    self._add(MoveOrder(id_, vhost.name, queue, to)).freeze()
                else:
                    vhost.parameters.drop(MOVING, queue)

    def _add(self, order: MoveOrder) -> QueueMove:
        move = QueueMove(self._broker, self._cell, order, self.report, self._over)
        self._moves[order.id] = move
        return move

    def _over(self, move: QueueMove) -> None:
        self._moves.pop(move.order.id, None)

    # ---- the first cell

    def report(self, report: Frame) -> None:
        if self.first is not None:
            self.first.report_move(report)

    def held(self) -> list[list[str]]:
        return [list(move.order) for move in self._moves.values() if move.stage is Stage.READY]

    def first_lost(self) -> None:
        for move in list(self._moves.values()):
            if move.stage is not Stage.READY:
                move.fail("the connection to the first cell is lost")

    def order(self, frame: Frame) -> None:
        ((kind, value),) = frame.items()
        if kind == "start":
            self._start(MoveOrder(*value))
        elif kind == "commit":
            self._commit(MoveOrder(*value))
        elif (move := self._moves.get(value[0])) is not None:
            move.release()
        self._broker.wake()

    def _start(self, order: MoveOrder) -> None:
        try:
            move = self._add(order)
        except LeveretError as problem:
            self.report({"id": order.id, "failed": str(problem)})
            return
        move.start()
        self._connect(order.to, move)

    def _commit(self, order: MoveOrder) -> None:
        """``order.to``: the cell where the queue comes from."""
        id_, vhost, name, source = order
        copy = next((each for each in self._copies if each.id == id_ and each.is_complete), None)
        host = self._broker.vhosts.get(vhost)
        try:
            if copy is not None:
                copy.promote(source)
                self._promoted.add(id_)
                self._arrived.add((vhost, name))
            elif id_ in self._promoted:
                pass
            elif host is None or host.parameters.get(MOVED, name) != f"{source} {id_}".encode():
                self.report({"id": id_, "failed": f"cell {self._cell} does not have the copy any more"})
                return
        except LeveretError as problem:
            self.report({"id": id_, "failed": str(problem)})
            return
        self._broker.when_granted(lambda: self.report({"id": id_, "moved": True}))

    # ---- the other cell of a move

    def accept(self, send: Send) -> QueueCopy:
        copy = QueueCopy(self._broker, send, self._copies.remove)
        self._copies.append(copy)
        return copy

    # ---- the home of a queue

    def rehome(self, vhost_name: str, name: str, home: str) -> None:
        """The home of the queue, as the first cell has it: the queue may have moved."""
        vhost = self._broker.vhost(vhost_name)
        queue = vhost.queues[name]
        if home == self._cell:
            self.confirm_arrival(vhost_name, name)
            if (split := self._splits.get(queue)) is not None:
                split.cancel()
        elif isinstance(queue, Placeholder):
            move = next(each for each in self._moves.values() if each.placeholder is queue)
            if move.order.to == home:
                move.finish()
        elif isinstance(queue, RemoteQueue):
            if queue.cell.name != home:
                self._follow(vhost, queue, home)
        else:
            self._give_up(queue, home)

    def _give_up(self, queue: DeclaredQueue, home: str) -> None:
        """The first cell has another home of a queue of this cell: it does not know yet that the queue has moved here,
        or both cells have made it."""
        is_moving = any(move.queue is queue for move in self._moves.values())
        has_moved = is_moving or self._has_arrived(queue.vhost, queue.name)
        if queue in self._splits:
            self._splits[queue].home = home
        elif not has_moved and (own := mergeable(queue)) is not None:
            split = self._splits[queue] = SplitQueue(self._broker, own, home, lambda: self._splits.pop(queue))
            split.start()
        else:
            self._log.warning("queue is here, and in another cell", queue=queue.name, vhost=queue.vhost, other=home)

    def _has_arrived(self, vhost_name: str, name: str) -> bool:
        vhost = self._broker.vhosts.get(vhost_name)
        return (vhost_name, name) in self._arrived or (
            vhost is not None and vhost.parameters.get(MOVED, name) is not None
        )

    def confirm_arrival(self, vhost_name: str, name: str) -> bool:
        """The first cell has this cell as the home of the queue, or had it when it was deleted. Whether it has moved
        here, and the first cell has not confirmed that before."""
        has_moved = self._has_arrived(vhost_name, name)
        self._arrived.discard((vhost_name, name))
        if has_moved and vhost_name in self._broker.vhosts:
            self._broker.vhosts[vhost_name].parameters.drop(MOVED, name)
        return has_moved

    def _follow(self, vhost: Vhost, old: RemoteQueue, home: str) -> None:
        """A queue of one other cell is in another one now."""
        facts = old.name, old.vhost, old.options, old.durable, old.auto_delete, old.owner
        new = self._homes.make_queue(Declaration(vhost.next_id(), *facts, arguments=old.arguments, home=home))
        if new.is_lasting:
            vhost.record(Drop(QueueRow, (old.id,)))
            vhost.record(Put(queue_row(new)))
            vhost.parameters.put(HOME, new.name, home.encode())
        take_back(self._broker, old)
        new.counts = old.counts
        consumers = new.follow(old)
        vhost.substitute(new)
        hand_over(consumers, new)
        self._broker.wake()
