"""Resizing of a sharded exchange that keeps the order of messages of each key: ``ordered-resize``.

Theory of operation. Keys belong to slots, and slots to shards (slots.py). Messages of a *settled* slot go to its owner.
Messages of a *held* slot wait in the hold of the shard that it left (hold.py); its owner is the shard that it moves to.
A further resize only changes the owners of held slots: their messages stay in the hold, since none has reached an owner
yet. This is no longer true once a hold moves; a resize then waits until the hold is empty.

The shards are the queues that are bound to the exchange, by the policy or by clients. The row of the exchange
(parameters of the virtual host, component ``sharding``) has the owners and the held slots. It is written before any
change. After a restart, a hold that had not started to move waits for all messages in its old shard, which is more than
needed.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from leveret.broker.broker import Broker
from leveret.broker.internal_queues import HELD
from leveret.broker.parameters import SLOT_TABLES
from leveret.broker.vhost import Vhost
from leveret.errors import ResourceFault
from leveret.logs import get_log
from leveret.queues.classic import ClassicQueue
from leveret.queues.declared_queue import Declaration, DeclaredQueue
from leveret.queues.options import QueueOptions
from leveret.routing.bindings import Destination
from leveret.routing.modulus_hash import ModulusHashExchange
from leveret.sharding.hold import Hold, State
from leveret.sharding.slots import NO_SHARD, SLOTS, dealt, resettled, slot_of


class OrderedSlots:
    """The partitioner of an exchange (routing/modulus_hash.py). ``changed`` is called when shards or holds change."""

    def __init__(
        self,
        broker: Broker,
        vhost: Vhost,
        exchange: ModulusHashExchange,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._broker = broker
        self._vhost = vhost
        self._exchange = exchange
        self._changed = changed
        self._owners: list[str] = dealt(())
        self._holds: dict[str, Hold] = {}  # by old shard
        self._held: dict[int, Hold] = {}  # by slot
        self._hidden: dict[Hold, str] = {}  # the names under which exchanges reach the holds
        self._reach: list[tuple[Destination, ...]] = []
        self._is_rebinding = False
        self._has_changed = False
        self._is_over = False
        self._lead()

    # ---- called by the exchange

    def reach(self, key: str) -> Iterable[Destination]:
        return self._reach[slot_of(key)]

    def rebound(self) -> None:
        self._has_changed = True
        if self._is_rebinding:
            return
        if any(hold.may_move or hold.state is State.ENDING for hold in self._holds.values()):
            self._replace_dead()  # the rest is done once no hold moves
        else:
            self._resize()

    @contextmanager
    def rebinding(self) -> Iterator[None]:
        """All changes of bindings within this context are one resize."""
        self._is_rebinding = True
        try:
            yield
        finally:
            self._is_rebinding = False
            if self._has_changed:
                self.rebound()

    # ---- state

    @property
    def shards(self) -> list[str]:
        """The owners of the slots, or their future owners."""
        return sorted(set(self._owners) - {NO_SHARD})

    def _bound(self) -> list[str]:
        return [name for kind, name in self._exchange.bound() if kind == "queue"]

    @property
    def draining(self) -> list[str]:
        """Shards without slots whose messages must be consumed before held messages can move."""
        return sorted(self._holds.keys() - set(self._owners))

    @property
    def is_settled(self) -> bool:
        return not self._holds and not self._has_changed

    def owner(self, slot: int) -> str:
        return self._owners[slot]

    # ---- resizing

    def _resize(self) -> None:
        self._has_changed = False
        shards = self._bound()
        homes = {slot: hold.old for slot, hold in self._held.items()}
        before = self._owners
        self._owners = resettled(before, shards, homes) if any(before) else dealt(shards)
        stricter: set[Hold] = set()
        for slot, (old, new) in enumerate(zip(before, self._owners, strict=True)):
            if old != new and slot not in self._held and self._is_busy(old):
                hold = self._hold_for(old)
                hold.slots.add(slot)
                self._held[slot] = hold
                stricter.add(hold)
        self.record()
        self._lead()
        for hold in [*self._holds.values()]:
            if all(self._owners[slot] == hold.old for slot in hold.slots):
                hold.release()  # all of its slots are back in their old shard
            elif hold in stricter:
                hold.wait_for(self._vhost.queues.get(hold.old))
            hold.queue.touch()
        self._changed()

    def _replace_dead(self) -> None:
        """Slots of deleted shards get other owners at once: their messages are gone."""
        rest = self._bound()
        if not rest or all(shard in self._vhost.queues for shard in self.shards):
            return
        known = self._vhost.queues
        self._owners = [owner if owner in known else rest[slot % len(rest)] for slot, owner in enumerate(self._owners)]
        self.record()
        self._lead()

    def _is_busy(self, shard: str) -> bool:
        queue = self._vhost.queues.get(shard)
        backlog = None if queue is None else queue.backlog
        return backlog is not None and (backlog.outstanding > 0 or backlog.reads_expired)

    def _hold_for(self, shard: str) -> Hold:
        hold = self._holds.get(shard)
        if hold is None:
            hold = self._holds[shard] = Hold(self._broker, self._vhost, shard, self._hold_queue(shard), self)
            name = self._hidden[hold] = f"{HELD}{secrets.token_hex(16)}"
            self._vhost.hidden[name] = hold.queue
        return hold

    def _hold_queue(self, shard: str) -> ClassicQueue:
        vhost, name = self._vhost, f"{HELD}{self._exchange.name}.{shard}"
        found = vhost.internal.queues.get(name)
        if found is None and self._exchange.durable:
            found = vhost.internal.open(name, QueueOptions(), vhost.queue_context)
        elif found is None:
            found = ClassicQueue(Declaration(vhost.next_id(), name, vhost.name, QueueOptions()), vhost.queue_context)
            vhost.internal.queues[name] = found
        return found

    def _lead(self) -> None:
        """Update the routes of all slots."""
        self._shards = self.shards
        self._reach = []
        for slot, owner in enumerate(self._owners):
            hold = self._held.get(slot)
            name = owner if hold is None or owner == NO_SHARD else self._hidden[hold]
            self._reach.append(() if name == NO_SHARD else (Destination("queue", name),))
        self._vhost.epoch += 1

    # ---- called by holds (hold.SlotOwners)

    @property
    def has_no_shard(self) -> bool:
        return not any(shard in self._vhost.queues for shard in self._shards)

    def target(self, slot: int) -> DeclaredQueue:
        queues = self._vhost.queues
        found = queues.get(self._owners[slot])  # missing if the shard was deleted after the policy
        return found or next(queues[shard] for shard in self._shards if shard in queues)

    def drained(self, hold: Hold) -> None:
        hold.release()

    def last_stretch(self, hold: Hold) -> None:
        """All shards are here: the hold is emptied at once."""

    def freed(self, hold: Hold) -> None:
        for slot in hold.slots:
            self._held.pop(slot, None)
        self._lead()

    def ended(self, hold: Hold) -> None:
        del self._holds[hold.old]
        self._vhost.hidden.pop(self._hidden.pop(hold), None)
        try:
            self.record()
            if hold.queue.name in self._vhost.internal.queues:  # unless the virtual host was deleted
                self._vhost.internal.remove(hold.queue.name)
        except ResourceFault:  # the store is read-only: the empty hold is removed at the next start
            return
        self._changed()
        if self._has_changed:
            self.rebound()

    # ---- the row

    def record(self) -> None:
        if self._is_over and not self._holds:
            self._vhost.parameters.drop(SLOT_TABLES, self._exchange.name)
        elif self._exchange.durable:
            self._vhost.parameters.put(SLOT_TABLES, self._exchange.name, self._as_json())

    def _as_json(self) -> bytes:
        shards = self.shards
        places = {shard: place for place, shard in enumerate(shards)}
        row = {
            "shards": shards,
            "owners": [places.get(owner, -1) for owner in self._owners],
            "held": {hold.old: sorted(hold.slots) for hold in self._holds.values()},
            "moving": [hold.old for hold in self._holds.values() if hold.state is not State.HOLDING],
        }
        return json.dumps(row).encode()

    def begin(self) -> None:
        """Continue from the state in the row, or assign all slots if there is none."""
        self._restore()
        self._exchange.partitioner = self
        if sorted(self._bound()) != self.shards:
            self.rebound()

    def _restore(self) -> None:
        value = self._vhost.parameters.get(SLOT_TABLES, self._exchange.name)
        row = {} if value is None else _checked(value, self._exchange.name)
        if not row:
            return
        self._owners = [NO_SHARD if place < 0 else row["shards"][place] for place in row["owners"]]
        for old, slots in row["held"].items():
            hold = self._hold_for(old)
            hold.slots.update(slots)
            self._held.update(dict.fromkeys(slots, hold))
        self._lead()
        for old, hold in [*self._holds.items()]:
            if old in row["moving"]:
                hold.release()
            else:
                hold.wait_for(self._vhost.queues.get(old))

    # ---- stopping

    def is_for(self, vhost: Vhost) -> bool:
        """Whether this exchange still has holds and belongs to this virtual host."""
        return self._vhost is vhost and bool(self._holds)

    def resume(self, exchange: ModulusHashExchange, changed: Callable[[], None]) -> None:
        """Start again after ``stop``, while there are still holds."""
        self._exchange, self._changed, self._is_over = exchange, changed, False
        exchange.partitioner = self
        self.record()
        self._lead()
        self.rebound()

    def stop(self) -> None:
        """The policy or the exchange was deleted: held messages move at once."""
        self._exchange.partitioner = None
        self._vhost.epoch += 1
        self._is_over, self._has_changed = True, False
        for hold in [*self._holds.values()]:
            hold.release()
        self.record()


def finish_left(broker: Broker, vhost: Vhost, exchange: str) -> OrderedSlots:
    """Move held messages of an exchange that had ordered-resize in the previous run and no longer has it."""
    left = OrderedSlots(broker, vhost, ModulusHashExchange(exchange, durable=True))
    left._restore()
    left.stop()
    return left


def _checked(value: bytes, exchange: str) -> dict[str, Any]:
    """The row, if it is valid. With an invalid row the exchange loses the order of messages, but no message."""
    try:
        row = dict(json.loads(value))
        if len(row["owners"]) == SLOTS and max(row["owners"]) < len(row["shards"]):
            return row
        problem = "it has another number of slots"
    except (ValueError, KeyError, TypeError) as fault:
        problem = repr(fault)
    get_log("sharding").error("stored state of a sharded exchange is invalid", exchange=exchange, reason=problem)
    return {}
