"""Ordered resizing of an exchange that spans cells: the part of every cell. The first one has a SlotPlanner too.

Theory of operation. The order of a key must hold from any cell to any shard, also if its publisher connects to another
cell. So for each key there is one place through which all of its messages pass, at any time: the home of the shard that
its slot is in, or is leaving. The states of a shard that slots leave, as the table of all cells has them
(slot_table.py):

    (settled) ──resize──> HOLDING ──drained──> MOVING ──moved──> PASSING ──all cells have seen it──> (settled)

HOLDING, MOVING: all cells still send to the old shard. Its home has a gate in front of it (slot_gate.py), which passes
messages of the slots that leave to the hold (hold.py), beside the old shard; so nothing changes for other cells, and it
does not matter when they learn of it. When the shard is drained, its home reports that, and gets the permission to move
the hold. This way the first cell may give held slots other owners as long as nothing has moved.

When the last stretch of the hold is on its way, the gate is closed; when it has arrived, the hold is gone and the gate
passes messages to the new owners, and waits for their confirms. The home reports that as moved.

PASSING: every cell sends to the new owners directly. What it has sent to the old shard before may still be on its way,
so a cell first closes a gate of its own, until all that is answered. Committed messages of Spark on their way to the
old shard (pipeline/outboxes.py) may wait for longer, if its cell is away: meanwhile publishes pass the gate, and later
commits do not. Then the cell reports the version of the table. When all cells have, nothing comes to the old shard by
the old route, and its gate is removed.

After a restart a cell finds the table as it was when it stopped, has no publishes on the way but its outboxes, and
compares its table with that of the first cell before clients can connect. The reports of a cell are its whole state,
so they may be repeated; a cell that is away delays a resize until it is back or leaves, and no publish.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from leveret.broker.broker import Broker
from leveret.broker.internal_queues import HELD
from leveret.broker.parameters import SLOT_TABLES
from leveret.broker.vhost import Vhost
from leveret.message import Message
from leveret.queues.classic import ClassicQueue
from leveret.queues.declared_queue import Declaration, DeclaredQueue
from leveret.queues.options import QueueOptions
from leveret.queues.queue import Queue
from leveret.routing.bindings import Destination
from leveret.routing.modulus_hash import ModulusHashExchange
from leveret.sharding.hold import Hold
from leveret.sharding.leaving_shard import Crossing, LeavingShard
from leveret.sharding.leftover_holds import LEFT, Leftover
from leveret.sharding.slot_gate import SlotGate
from leveret.sharding.slot_planner import SlotPlanner
from leveret.sharding.slot_table import Record, RecordState, SlotTable, table_of
from leveret.sharding.slots import NO_SHARD, SLOTS, dealt, slot_of

LOOK_SECONDS = 0.005  # between two looks at publishes that are not answered


class CellSlots:
    """The partitioner of an exchange (routing/modulus_hash.py), and the owners of its holds (hold.SlotOwners).
    ``changed`` is called when shards change."""

    def __init__(
        self, broker: Broker, vhost: Vhost, exchange: ModulusHashExchange, changed: Callable[[], None]
    ) -> None:
        self.broker, self.vhost, self.exchange = broker, vhost, exchange
        self.table = SlotTable("", -1, tuple(dealt(())), {}, frozenset())
        self.planner: SlotPlanner | None = None
        self._cell = broker.cells.name
        self._changed = changed
        self._leaving: dict[str, LeavingShard] = {}
        self._crossings: dict[str, Crossing] = {}
        self._crossed = -1  # the version up to which no publish is on its way by an old route
        self._reach: list[tuple[Destination, ...]] = []
        self._is_over = False
        self._is_watching = False
        self._lead()

    # ---- called by the exchange

    def reach(self, key: str) -> Iterable[Destination]:
        return self._reach[slot_of(key)]

    def rebound(self) -> None:
        if self.planner is not None:
            self.planner.rebound()
        self._lead()

    @contextmanager
    def rebinding(self) -> Iterator[None]:
        """All changes of bindings within this context are one resize."""
        if self.planner is None:
            yield
        else:
            with self.planner.rebinding():
                yield

    # ---- state

    @property
    def draining(self) -> list[str]:
        """Shards without slots whose messages must be consumed before held messages can move."""
        return sorted(self.table.records.keys() - set(self.table.owners))

    @property
    def is_settled(self) -> bool:
        is_planned = self.planner is None or self.planner.is_settled
        return is_planned and not (self.table.records or self._leaving or self._crossings)

    def owner(self, slot: int) -> str:
        return self.table.owners[slot]

    def owner_of(self, slot: int) -> DeclaredQueue | None:
        queues = self.vhost.queues
        found = queues.get(self.table.owners[slot])  # missing if the shard was deleted after the policy
        return found or next((queues[shard] for shard in self.table.shards if shard in queues), None)

    def report(self) -> dict[str, Any]:
        """The state of this cell, for the planner."""
        drained = {old: each.since for old, each in self._leaving.items() if each.is_drained}
        moved = [old for old, each in self._leaving.items() if each.hold is None]
        return {"epoch": self.table.epoch, "version": self._crossed, "drained": drained, "moved": moved}

    # ---- the table

    def begin(self, planner: SlotPlanner | None) -> None:
        self.planner = planner
        self.exchange.partitioner = self
        self.vhost.moves = True
        self.follow()
        if planner is not None:
            planner.begin()
            self.tell()
        self._lead()

    def follow(self) -> None:
        """The table may have changed."""
        value = self.vhost.parameters.get(SLOT_TABLES, self.exchange.name)
        table = None if value is None else table_of(value, self.exchange.name, self._cell)
        if table is None or self._is_over or table == self.table:
            return
        before, self.table = self.table, table
        for old, record in table.records.items():
            if record.home == self._cell:
                self._leave(old, record)
            elif record.state is RecordState.PASSING:
                self._cross(old, before)
        for old in [old for old in self._leaving if old not in table.records]:
            self._forget(old)
        self._lead()
        self._look()
        self._changed()
        self.broker.wake()

    def _leave(self, old: str, record: Record) -> None:
        found = self._leaving.get(old)
        if found is None:
            hold = Hold(self.broker, self.vhost, old, self._hold_queue(old), self)
            found = self._leaving[old] = LeavingShard(self, old, record, hold)
            self._show(found.gate)
            self.vhost.gates[old] = found.gate
        found.record = record
        if record.state is RecordState.HOLDING:
            found.wait()
        elif found.hold is not None:
            found.hold.release()

    def _cross(self, old: str, before: SlotTable) -> None:
        known = before.records.get(old)
        if old in self._crossings or (known is not None and known.state is RecordState.PASSING):
            return
        queue = self.vhost.queues.get(old)
        log = None if queue is None else queue.remote_log
        crossing = Crossing(self, old, [] if log is None else log.unanswered())
        if not crossing.is_over:
            self._crossings[old] = crossing
            self._show(crossing.gate)

    def _show(self, gate: SlotGate) -> None:
        self.vhost.hidden[gate.name] = self.vhost.gates[gate.name] = gate

    def _look(self) -> None:
        """Open the gates whose earlier publishes are answered. Called again until there are none."""
        crossings = self._crossings
        is_open = {old: crossing.is_answered for old, crossing in crossings.items()}
        for old in [old for old in crossings if is_open[old]]:
            crossings[old].gate.open()
        over = [old for old, crossing in crossings.items() if crossing.is_over]
        if over:
            gates = [self._crossings.pop(old).gate for old in over]
            self._lead()
            for gate in gates:
                self._end(gate)
        if not all(is_open.values()):
            self.look_soon()
        elif not self._crossings and self._crossed != self.table.version:
            self._crossed = self.table.version
            self.tell()

    def look_soon(self) -> None:
        if not self._is_watching:
            self._is_watching = True
            self.broker.timers.at(self.broker.clock.now() + LOOK_SECONDS, self._look_again)

    def _look_again(self) -> None:
        self._is_watching = False
        self._look()
        self.broker.wake()

    def tell(self) -> None:
        """Report the state of this cell to the planner."""
        changes = self.broker.cells.changes
        if self._is_over:
            return
        if self.planner is not None:
            self.planner.reported(self._cell, self.report())
        elif changes is not None:
            changes.report_shards([self.vhost.name, self.exchange.name, self._cell, self.report()])

    def _forget(self, old: str) -> None:
        shard = self._leaving.pop(old)
        self.vhost.gates.pop(old, None)
        if shard.hold is not None:  # its record was given up: the messages move to the owners without one
            self._leftover(shard)
        self._end(shard.gate)

    def _end(self, gate: SlotGate) -> None:
        self.vhost.hidden.pop(gate.name, None)
        self.vhost.gates.pop(gate.name, None)
        gate.end(self._routed)

    def _routed(self, message: Message) -> Queue | None:
        """The queue that the exchange routes a message to."""
        vhost = self.vhost
        exchange = vhost.exchanges.get(self.exchange.name)
        names = () if exchange is None else vhost.route_unattended(exchange, (message[1].key,), {}).queues
        return next(iter(vhost.live_queues(names)), None)

    def _lead(self) -> None:
        """Update the routes of all slots."""
        owners = self.table.owners if self.table.version >= 0 else tuple(dealt(self._bound()))
        leaving = self.table.leaving()
        self._reach = [_to(self._name(slot, owners[slot], leaving.get(slot))) for slot in range(SLOTS)]
        self.vhost.epoch += 1

    def _name(self, slot: int, owner: str, old: str | None) -> str:
        if old is None:
            return owner
        if old in self._leaving:
            return self._leaving[old].gate.name
        if old in self._crossings:
            return self._crossings[old].gate.name
        is_there = self.table.records[old].state is not RecordState.PASSING and old in self.vhost.queues
        return old if is_there else owner

    def _bound(self) -> list[str]:
        return [name for kind, name in self.exchange.bound() if kind == "queue"]

    def _hold_queue(self, old: str) -> ClassicQueue:
        vhost, name = self.vhost, f"{HELD}{self.table.epoch}.{self.exchange.name}.{old}"
        of_single_broker = vhost.internal.queues.get(f"{HELD}{self.exchange.name}.{old}")  # before it was a cell
        found = of_single_broker or vhost.internal.queues.get(name)
        if found is None and self.exchange.durable:
            found = vhost.internal.open(name, QueueOptions(), vhost.queue_context)
        elif found is None:
            found = ClassicQueue(Declaration(vhost.next_id(), name, vhost.name, QueueOptions()), vhost.queue_context)
            vhost.internal.queues[name] = found
        return found

    # ---- called by holds (hold.SlotOwners)

    @property
    def has_no_shard(self) -> bool:
        return self.owner_of(0) is None

    def target(self, slot: int) -> DeclaredQueue:
        found = self.owner_of(slot)
        assert found is not None  # has_no_shard
        return found

    def record(self) -> None:
        """The first cell writes the table."""

    def drained(self, hold: Hold) -> None:
        found = self._leaving.get(hold.old)
        if found is not None and found.hold is hold:
            found.is_drained = True
            self.broker.timers.at(self.broker.clock.now(), self.tell)  # not in the middle of the work of a queue

    def last_stretch(self, hold: Hold) -> None:
        found = self._leaving.get(hold.old)
        if found is not None and found.hold is hold:
            found.keep_back()

    def freed(self, hold: Hold) -> None:
        found = self._leaving.get(hold.old)
        if found is not None and found.hold is hold:
            found.hold = None
            found.gate.open()

    def ended(self, hold: Hold) -> None:
        if hold.queue.name in self.vhost.internal.queues:  # unless the virtual host was deleted
            self.vhost.internal.remove(hold.queue.name)
        if hold.old in self._leaving:
            self.tell()
        self._changed()

    # ---- stopping

    def stop(self) -> None:
        """The policy or the exchange was deleted: held messages move at once."""
        self.exchange.partitioner = None
        self._is_over = True
        for old in [*self._leaving]:
            self._forget(old)
        for crossing in self._crossings.values():
            crossing.gate.open()
            self._end(crossing.gate)
        self._crossings.clear()
        self.vhost.epoch += 1
        if self.planner is not None:
            self.planner.stop()

    def _leftover(self, shard: LeavingShard) -> None:
        shard.gate.open()
        hold = shard.hold
        assert hold is not None
        if self.exchange.durable:
            self.vhost.parameters.put(LEFT, hold.queue.name, self.table.as_json())
        hold.owners = Leftover(self.vhost, self.table)
        hold.release()


def _to(name: str) -> tuple[Destination, ...]:
    return () if name == NO_SHARD else (Destination("queue", name),)
