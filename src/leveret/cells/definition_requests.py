"""Requests for changes of shared definitions, as another cell makes them; the first cell handles them in
definition_service.py.

{"id": 7, "put": [kind, item]}                              declare an exchange or a queue, or bind
{"id": 8, "drop": [kind, key], "if_unused": true}           delete an exchange, or unbind
{"id": 9, "sync": true}                                     answer only: the sender has all earlier changes then
{"removed": [vhost, name]}                                  a queue of the sender does not exist any more
{"moving": {...}}                                           about a queue that moves, see cells/queue_moves.py
{"counts": [[vhost, name, ready, unacknowledged], ...]}     of queues of the sender, as far as they have changed
{"shards": [vhost, exchange, cell, state]}                  of an ordered exchange (sharding/cell_slots.py)
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any, NamedTuple, Protocol

from leveret.broker.broker import Broker
from leveret.broker.cells import Answered
from leveret.broker.vhost import MADE_UP, Vhost
from leveret.cells.counts_report import CountsReport
from leveret.cells.definition_copy import DefinitionCopy, QueueHomes, unpacked
from leveret.cells.definition_feed import Frame, Send, packed
from leveret.cells.shared_definitions import (
    Item,
    SharedQueue,
    key_of,
    shared_binding,
    shared_exchange,
    shared_queue,
)
from leveret.errors import AmqpError, PreconditionFailed, error_of
from leveret.queues.declared_queue import DeclaredQueue
from leveret.routing.bindings import Binding
from leveret.routing.exchange import Exchange
from leveret.store.definitions import Change
from leveret.wire.fields import encode_table

FIRST = "c1"  # the name of the first cell
PATIENCE = 10.0  # seconds that a request waits for the first cell


class MoveOrders(QueueHomes, Protocol):
    """The part of this cell in moves of queues (cells/move_agent.py)."""

    def order(self, frame: Frame) -> None: ...

    def first_lost(self) -> None: ...


class Request(NamedTuple):
    """``waits``: while the first cell is away, for a limited time."""

    frame: Frame
    answered: Answered
    waits: bool = True


class FirstCell:
    """The first cell, as another one sees it: broker.cells.SharedChanges and DefinitionWatcher. ``connected`` and
    ``lost`` follow each other any number of times."""

    def __init__(self, broker: Broker, cell: str, copy: DefinitionCopy) -> None:
        """``cell``: the own name."""
        self.name = FIRST
        self.is_current = False  # the own definitions were compared since the connection was made
        self._broker = broker
        self._cell = cell
        self._copy = copy
        self.moves: MoveOrders | None = None
        self._send: Send | None = None
        self._numbers = count(1)
        self._waiting: dict[int, Request] = {}
        self._unsent: dict[int, float] = {}  # of those: when they fail
        self._is_copying = False
        self._made: list[tuple[str, str]] = []  # queues of this cell that the first one is about to get
        self._is_reported = True  # the first cell has got what was reported to it when it was connected
        self._counts = CountsReport(broker, self._tell)
        broker.cells.watcher, broker.cells.changes, broker.cells.name = self, self, cell

    # ---- the connection

    def connected(self, send: Send) -> None:
        self._send = send

    def lost(self) -> None:
        """Requests without an answer are made again: a change that was made already stays as it is."""
        self._send = None
        self.is_current = False
        self._counts.forget()
        for number in sorted(self._waiting.keys() - self._unsent.keys()):
            if self._waiting[number].waits:
                self._wait(number)
            else:
                self._waiting.pop(number).answered(_unreachable())
        if self.moves is not None:
            self.moves.first_lost()
        self._broker.wake()

    def receive(self, frame: Frame) -> None:
        if "move" in frame:
            if self.moves is not None:
                self.moves.order(frame["move"])
        elif "definitions" in frame:
            self._compare([unpacked(pair) for pair in frame["definitions"]])
        elif "put" in frame:
            item = unpacked(frame["put"])
            self._copying(lambda: self._copy.put(item))
            if isinstance(item, SharedQueue) and self._copy.lacks_own(item):
                self._report_removed(item.vhost, item.name)
        elif "drop" in frame:
            kind, key = frame["drop"]
            if kind != "queue" or tuple(key) not in self._made:
                self._copying(lambda: self._copy.drop(kind, key))
        elif (waiting := self._waiting.pop(frame["id"], None)) is not None:
            error = frame.get("error")
            waiting.answered(None if error is None else error_of(*error))
        self._broker.wake()

    def _compare(self, items: list[Item]) -> None:
        unknown, gone = self._copying(lambda: self._copy.compare(items, self._is_reported))
        self.is_current = True
        self._is_reported = not unknown
        for item in unknown:
            self._tell({"put": packed(item)})
        if unknown:
            self._ask({"sync": True}, self._reported, waits=False)
        for queue in gone:
            self._report_removed(queue.vhost, queue.name)
        if self.moves is not None:
            self.report_move({"held": self.moves.held()})
        unsent, self._unsent = self._unsent, {}
        for number in sorted(unsent):
            self._tell(self._waiting[number].frame)
        if self._broker.cells.shards is not None:
            self._broker.cells.shards.compared()

    def _reported(self, error: AmqpError | None) -> None:
        self._is_reported = self._is_reported or error is None

    def report_shards(self, report: list[Any]) -> None:
        if self.is_current:
            self._tell({"shards": report})

    def _copying(self, job: Any) -> Any:
        self._is_copying = True
        try:
            return job()
        finally:
            self._is_copying = False

    def _tell(self, frame: Frame) -> None:
        if self._send is not None:
            self._send(frame)

    def follow_moves(self, moves: MoveOrders) -> None:
        self.moves = self._copy.moves = moves

    def report_move(self, report: Frame) -> None:
        self._tell({"moving": report})

    # ---- counts

    def report_counts(self) -> None:
        """Of the queues of this cell that have changed since the last call: the first cell shows them."""
        if self.is_current:
            self._counts.begin()

    # ---- requests

    def _ask(self, frame: Frame, answered: Answered, *, waits: bool = True) -> None:
        if not self.is_current and not waits:
            answered(_unreachable())
            return
        number = frame["id"] = next(self._numbers)
        self._waiting[number] = Request(frame, answered, waits)
        if self.is_current:
            self._tell(frame)
        else:
            self._wait(number)

    def _wait(self, number: int) -> None:
        """For the first cell, which is away."""
        until = self._unsent[number] = self._broker.clock.now() + PATIENCE
        self._broker.timers.at(until, lambda: self._expire(number))

    def _expire(self, number: int) -> None:
        if number in self._unsent and self._unsent[number] <= self._broker.clock.now():
            del self._unsent[number]
            self._waiting.pop(number).answered(_unreachable())
            self._broker.wake()

    def declare_exchange(self, vhost: str, exchange: Exchange, answered: Answered) -> None:
        self._ask({"put": packed(shared_exchange(vhost, exchange))}, answered)

    def delete_exchange(self, vhost: str, name: str, if_unused: bool, answered: Answered) -> None:
        self._ask({"drop": ["exchange", [vhost, name]], "if_unused": if_unused}, answered)

    def declare_queue(
        self,
        vhost: str,
        name: str,
        *,
        durable: bool,
        auto_delete: bool,
        owner: str,
        arguments: Mapping[str, object],
        answered: Answered,
    ) -> None:
        is_bound_to_client = bool(owner) or auto_delete or name.startswith(MADE_UP)
        home = self._cell if is_bound_to_client else ""  # the first cell decides
        item = SharedQueue(vhost, name, durable, auto_delete, owner, encode_table(arguments), home)
        self._ask({"put": packed(item)}, answered)

    def sync(self, answered: Answered, *, waits: bool = True) -> None:
        self._ask({"sync": True}, answered, waits=waits)

    def bind(self, vhost: str, binding: Binding, answered: Answered) -> None:
        self._ask({"put": packed(shared_binding(vhost, binding))}, answered)

    def unbind(self, vhost: str, binding: Binding, answered: Answered) -> None:
        self._ask({"drop": packed(shared_binding(vhost, binding))}, answered)

    # ---- from the broker: what was changed here and not requested, as by sharding or in the process

    def queue_added(self, vhost: Vhost, queue: DeclaredQueue) -> None:
        key = vhost.name, queue.name
        if queue.home is None:
            self._copy.removed.forget(*key)
            if self._report({"put": packed(shared_queue(queue, self._cell))}, "queue", *key):
                self._made.append(key)  # until then, a report that it is removed is about a former one
                self._ask({"sync": True}, lambda _: self._made.remove(key), waits=False)

    def queue_removed(self, vhost: Vhost, queue: DeclaredQueue) -> None:
        is_ordered = self._is_copying and self._copy.applying == ("queue", vhost.name, queue.name)
        if queue.home is None and not is_ordered and self._broker.vhosts.get(vhost.name) is vhost:
            if self._copy.applying != ("vhost", vhost.name):
                self._copy.removed.note(queue)
            self._report_removed(vhost.name, queue.name)

    def _report_removed(self, vhost: str, queue: str) -> None:
        """Until the first cell answers, this cell remembers it."""

        def answered(error: AmqpError | None) -> None:
            if error is None:
                self._copy.removed.forget(vhost, queue)
                if self.moves is not None:
                    self.moves.confirm_arrival(vhost, queue)

        self._ask({"removed": [vhost, queue]}, answered, waits=False)

    def exchange_added(self, vhost: Vhost, exchange: Exchange) -> None:
        self._report({"put": packed(shared_exchange(vhost.name, exchange))}, "exchange", vhost.name, exchange.name)

    def exchange_removed(self, vhost: Vhost, name: str) -> None:
        self._report({"drop": ["exchange", [vhost.name, name]]}, "exchange", vhost.name, name)

    def bound(self, vhost: Vhost, binding: Binding) -> None:
        item = shared_binding(vhost.name, binding)
        self._report({"put": packed(item)}, *key_of(item))

    def unbound(self, vhost: Vhost, binding: Binding) -> None:
        item = shared_binding(vhost.name, binding)
        self._report({"drop": packed(item)}, *key_of(item))

    def recorded(self, change: Change) -> None:
        """Users, policies and the like are changed in the first cell only."""

    def _report(self, frame: Frame, *key: str) -> bool:
        """Unless the first cell has just reported it. Without a connection nothing is lost: it is compared when there
        is one."""
        is_new = self.is_current and not (self._is_copying and self._copy.applying == key)
        if is_new:
            self._tell(frame)
        return is_new


def _unreachable() -> PreconditionFailed:
    return PreconditionFailed("the first cell, which changes the definitions of all cells, is down or inaccessible")
