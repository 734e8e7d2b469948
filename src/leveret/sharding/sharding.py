"""Sharded exchanges: the part of a broker that follows sharding policies.

``Sharding(broker).start()`` is called once, after definitions and messages are restored. It then follows the policies
of each exchange and the nodes of the membership.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from leveret.broker.broker import Broker
from leveret.broker.parameters import SLOT_TABLES
from leveret.broker.vhost import Vhost
from leveret.logs import get_log
from leveret.sharding.cell_slots import CellSlots
from leveret.sharding.leftover_holds import move_leftovers
from leveret.sharding.membership import Membership
from leveret.sharding.ordered_slots import finish_left
from leveret.sharding.pseudo_queues import PseudoQueues
from leveret.sharding.sharded_exchange import Plan, ShardedExchange, Unfinished


class Sharding:
    """A broker.cells.SharedShards."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._sharded: dict[tuple[str, str], ShardedExchange] = {}
        self._unfinished: Unfinished = {}
        self._nodes: set[str] = set()
        self._names = PseudoQueues(self.find, broker)
        self._log = get_log("sharding")
        self.membership = Membership(broker, self._follow_members)
        broker.cells.shards = self

    def start(self) -> None:
        self._nodes = {*self.membership.names}
        self._broker.policies.watch_exchanges(self._follow_policy, [*self._broker.vhosts.values()])
        for vhost in self._broker.vhosts.values():
            if self.membership.are_cells:
                move_leftovers(self._broker, vhost)
            for exchange in vhost.parameters.names(SLOT_TABLES):
                found = self.find(vhost.name, exchange)
                if found is None or found.slots is None:
                    self._finish(vhost, exchange)

    def _finish(self, vhost: Vhost, exchange: str) -> None:
        """The exchange had ordered-resize in the previous run, and no longer has it."""
        if not self.membership.are_cells:
            self._unfinished[vhost.name, exchange] = finish_left(self._broker, vhost, exchange)
        elif self._broker.cells.changes is None:
            vhost.parameters.drop(SLOT_TABLES, exchange)

    def is_settled(self, name: str) -> bool:
        """Whether no slot of an ordered exchange is leaving a shard of this cell. With ``leave`` that is true once its
        shards are drained, and nothing is held back for them."""
        cells = self.membership.cells
        cell = name if name in cells else next((each for each, node in cells.items() if node == name), name)
        tables = [slots.table for slots in self._cell_slots()]
        is_leaving = any(record.home == cell for table in tables for record in table.records.values())
        return not is_leaving and all(slots.planner is None or slots.planner.is_settled for slots in self._cell_slots())

    def find(self, vhost: str, exchange: str) -> ShardedExchange | None:
        return self._sharded.get((vhost, exchange))

    def _follow_policy(self, vhost: Vhost, name: str, definition: Mapping[str, object]) -> None:
        exchange = vhost.exchanges.get(name)
        known = self._sharded.get((vhost.name, name))
        plan = None if exchange is None else Plan.of(definition, exchange)
        if known is not None and (plan is None or known.exchange is not exchange):
            known.stop()
            del self._sharded[vhost.name, name], vhost.pools[name]
            self._names.needed(bool(self._sharded))
            known = None
        if plan is None or exchange is None:
            return
        if known is None:
            known = ShardedExchange(self._broker, vhost, exchange, self.membership, self._unfinished)
            self._sharded[vhost.name, name] = vhost.pools[name] = known
            self._names.needed(True)
        if definition.get("ordered-resize") and not plan.is_ordered:
            told = {"exchange": name, "vhost": vhost.name, "kind": exchange.kind}
            remedy = "it needs an exchange of type x-modulus-hash over queues that are no streams"
            self._log.warning(f"ordered-resize has no effect: {remedy}", **told)
        known.follow(plan)
        self._broker.wake()

    def _follow_members(self) -> None:
        names = {*self.membership.names}
        left: Collection[str] = self._nodes - names
        self._nodes = names
        for sharded in self._sharded.values():
            sharded.follow(sharded.plan, left)
        for slots in self._cell_slots():
            if slots.planner is not None:
                slots.planner.give_up(self.membership.gone())
        self._broker.wake()

    # ---- broker.cells.SharedShards

    def _cell_slots(self) -> Iterator[CellSlots]:
        for sharded in list(self._sharded.values()):
            if isinstance(sharded.slots, CellSlots):
                yield sharded.slots

    def table_changed(self, vhost: str, exchange: str) -> None:
        found = self.find(vhost, exchange)
        if found is not None and isinstance(found.slots, CellSlots):
            found.slots.follow()

    def members_changed(self) -> None:
        self._follow_members()

    def left_cells(self) -> list[str]:
        return self.membership.left_cells()

    def compared(self) -> None:
        for slots in self._cell_slots():
            slots.tell()

    def has_bound(self, vhost: str, exchange: str, shard: str) -> bool:
        found = self.find(vhost, exchange)
        return found is not None and found.has_bound(shard)

    def reported(self, report: list[Any]) -> None:
        vhost, exchange, cell, state = report
        found = self.find(vhost, exchange)
        if found is not None and isinstance(found.slots, CellSlots) and found.slots.planner is not None:
            found.slots.planner.reported(cell, state)
