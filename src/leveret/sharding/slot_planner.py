"""The first cell: decides which slots an ordered exchange that spans cells gives to which shards (cell_slots.py).

It alone writes the table. A change of the bindings is a resize, unless a hold is moving or a cell may still use an old
route; then the resize waits until all of that is over. Reports of the cells move the records from state to state.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from leveret.broker.parameters import SLOT_TABLES
from leveret.broker.vhost import Vhost
from leveret.logs import get_log
from leveret.routing.modulus_hash import ModulusHashExchange
from leveret.sharding.slot_table import Record, RecordState, SlotTable, table_of
from leveret.sharding.slots import dealt, resettled


class SlotPlanner:
    """``follow`` is called after each change of the table. ``cells``: those that may use it; ``own``: this one."""

    def __init__(
        self,
        vhost: Vhost,
        exchange: ModulusHashExchange,
        cells: Callable[[], frozenset[str]],
        follow: Callable[[], None],
        own: str,
    ) -> None:
        self._vhost, self._exchange = vhost, exchange
        self._cells, self._follow = cells, follow
        self._own = own
        self._table = SlotTable(secrets.token_hex(8), 0, tuple(dealt(())), {}, frozenset())
        self._seen: dict[str, int] = {}  # the versions of the cells
        self._has_changed = False
        self._is_rebinding = False
        self._is_over = False
        self._log = get_log("sharding").bind(exchange=exchange.name, vhost=vhost.name)

    @property
    def is_settled(self) -> bool:
        return not self._table.records and not self._has_changed

    def begin(self) -> None:
        """Continue with the stored table, or make the first one."""
        value = self._vhost.parameters.get(SLOT_TABLES, self._exchange.name)
        stored = None if value is None else table_of(value, self._exchange.name, self._own)
        if stored is not None:
            self._table = stored if stored.epoch else stored._replace(epoch=self._table.epoch)
        self._write(self._table)
        self.rebound()

    def stop(self) -> None:
        self._is_over = True
        self._vhost.parameters.drop(SLOT_TABLES, self._exchange.name)

    # ---- resizing

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

    def rebound(self) -> None:
        self._has_changed = True
        if self._is_rebinding:
            return
        if all(record.state is RecordState.HOLDING for record in self._table.records.values()):
            self._resize()
        else:
            self._replace_dead()

    def _bound(self) -> list[str]:
        return [name for kind, name in self._exchange.bound() if kind == "queue"]

    def _home_of(self, shard: str) -> str | None:
        queue = self._vhost.queues.get(shard)
        return None if queue is None else self._own if queue.home is None else queue.home.cell_name

    def _resize(self) -> None:
        self._has_changed = False
        table, shards = self._table, self._bound()
        if table.shards == sorted(shards):
            return
        leaving = table.leaving()
        is_new = not any(table.owners)
        owners = dealt(shards) if is_new else resettled(table.owners, shards, leaving)
        left: dict[str, set[int]] = {}
        for slot, (old, new) in enumerate(zip(table.owners, owners, strict=True)):
            if old != new and slot not in leaving and not is_new:
                left.setdefault(old, set()).add(slot)
        self._log.info("sharded exchange is resized", shards=len(shards), moving_slots=sum(map(len, left.values())))
        records = self._records(left, owners, table.version + 1)
        self._write(table._replace(version=table.version + 1, owners=tuple(owners), records=records))

    def _records(self, left: Mapping[str, set[int]], owners: list[str], version: int) -> dict[str, Record]:
        """The records with slots that leave their shards now. None of them has started to move."""
        records = dict(self._table.records)
        for old, slots in left.items():
            home = self._home_of(old)
            if home is not None:  # otherwise its messages are gone
                known = records[old].slots if old in records else frozenset()
                records[old] = Record(home, known | slots, RecordState.HOLDING, version)
        for old, record in records.items():
            if all(owners[slot] == old for slot in record.slots):  # back in their old shard: nothing to wait for
                records[old] = record._replace(state=RecordState.MOVING)
        return records

    def _replace_dead(self) -> None:
        """Slots of deleted shards get other owners at once: their messages are gone."""
        rest, table = self._bound(), self._table
        known = self._vhost.queues
        if rest and not all(shard in known for shard in table.shards):
            owners = [owner if owner in known else rest[slot % len(rest)] for slot, owner in enumerate(table.owners)]
            self._write(table._replace(version=table.version + 1, owners=tuple(owners)))

    # ---- reports

    def reported(self, cell: str, report: Mapping[str, Any]) -> None:
        """The state of a cell (CellSlots.report)."""
        if self._is_over or report["epoch"] != self._table.epoch:
            return
        self._seen[cell] = int(report["version"])
        records = dict(self._table.records)
        version = self._table.version + 1
        for old, record in self._table.records.items():
            if record.home != cell:
                continue
            if record.state is RecordState.HOLDING and report["drained"].get(old) == record.since:
                records[old] = record._replace(state=RecordState.MOVING)
            elif record.state is RecordState.MOVING and old in report["moved"]:
                records[old] = record._replace(state=RecordState.PASSING, since=version)
        if records != self._table.records:
            self._write(self._table._replace(version=version, records=records))
        self.go_on()

    def go_on(self) -> None:
        """Remove the records that all cells have passed. Called when cells have reported, or have left."""
        cells = self._cells() | self._table.cells
        records = {
            old: record
            for old, record in self._table.records.items()
            if record.state is not RecordState.PASSING or any(self._seen.get(cell, -1) < record.since for cell in cells)
        }
        if records != self._table.records and not self._is_over:
            self._write(self._table._replace(version=self._table.version + 1, records=records))
            if not records:
                self._log.info("sharded exchange has been resized")
        if self._has_changed:
            self.rebound()

    def give_up(self, cells: frozenset[str]) -> None:
        """These cells have left, and are gone: slots that leave their shards use the new owners."""
        records = {old: record for old, record in self._table.records.items() if record.home not in cells}
        table = self._table._replace(records=records, cells=self._table.cells - cells)
        if table != self._table and not self._is_over:
            self._write(table._replace(version=table.version + 1))
        self.go_on()

    def _write(self, table: SlotTable) -> None:
        self._table = table = table._replace(cells=table.cells | self._cells())
        self._vhost.parameters.put(SLOT_TABLES, self._exchange.name, table.as_json())
        self._follow()
