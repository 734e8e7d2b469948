"""A shard that slots are leaving, with the gates in front of it: at its home, and in other cells (cell_slots.py)."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from leveret.broker.internal_queues import HELD
from leveret.delivery.receipts import Receipt
from leveret.message import Message
from leveret.queues.queue import Queue
from leveret.routing.bindings import Destination
from leveret.sharding.hold import Hold
from leveret.sharding.slot_gate import SlotGate
from leveret.sharding.slot_table import Record
from leveret.sharding.slots import slot_of

if TYPE_CHECKING:
    from leveret.sharding.cell_slots import CellSlots

CLOSED_SECONDS = 10.0  # at most, before a gate passes messages to the hold again


class LeavingShard:
    """A shard of this cell that slots are leaving: its gate and its hold."""

    def __init__(self, slots: CellSlots, old: str, record: Record, hold: Hold) -> None:
        self._slots = slots
        self.old = old
        self.record = record
        self.hold: Hold | None = hold  # None: it is moved
        self.since = -1  # the wait that has begun
        self.is_drained = False
        self.gate = SlotGate(f"{HELD}{secrets.token_hex(16)}", slots.broker, self.target)

    def target(self, message: Message) -> Queue | None:
        vhost, address = self._slots.vhost, message[1]
        if not address.exchange or self._is_bound_to(address.exchange):
            return vhost.queues.get(self.old)
        slot = slot_of(address.key)
        if slot not in self.record.slots and self.old in self._slots.table.owners:
            return vhost.queues.get(self.old)
        return self._slots.owner_of(slot) if self.hold is None else self.hold.queue

    def _is_bound_to(self, exchange: str) -> bool:
        """Whether messages of this other exchange are for the shard itself."""
        bindings = self._slots.vhost.bindings.of_destination(Destination("queue", self.old))
        return exchange != self._slots.exchange.name and any(each.source == exchange for each in bindings)

    def wait(self) -> None:
        """Until all messages that are in the shard now have left it."""
        if self.hold is not None and self.since != self.record.since:
            self.since, self.is_drained = self.record.since, False
            self.hold.wait_for(self._slots.vhost.queues.get(self.old))

    def keep_back(self) -> None:
        self.gate.close()
        broker = self._slots.broker
        broker.timers.at(broker.clock.now() + CLOSED_SECONDS, self.gate.open)


class Crossing:
    """Another cell's shard that slots have left, while messages of this cell are on their way to it.

    Publishes are answered soon, and the gate is closed until then. Committed messages wait for a cell that is away."""

    def __init__(self, slots: CellSlots, old: str, unanswered: list[Receipt]) -> None:
        self._slots = slots
        self._unanswered = unanswered
        self.gate = SlotGate(f"{HELD}{secrets.token_hex(16)}", slots.broker, self._target)
        self.gate.close()
        transfers = slots.broker.cells.transfers
        if transfers is not None:
            self.gate.awaits_transfers = transfers.when_passed(slots.vhost, old, self._transferred)

    def _transferred(self) -> None:
        self.gate.transferred()
        self._slots.look_soon()

    def _target(self, message: Message) -> Queue | None:
        return self._slots.owner_of(slot_of(message[1].key))

    @property
    def is_answered(self) -> bool:
        self._unanswered = [receipt for receipt in self._unanswered if receipt.is_open]
        return not self._unanswered

    @property
    def is_over(self) -> bool:
        return self.is_answered and not self.gate.awaits_transfers
