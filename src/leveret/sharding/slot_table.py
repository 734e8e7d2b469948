"""The slots of an ordered exchange that spans cells: one numbered table, which the first cell writes for all.

The table is a parameter of the virtual host, so every cell has it, gets its changes in their order, and finds it again
after a restart. For each shard that slots are leaving it has a record, see sharding/cell_slots.py for its states.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple

from leveret.logs import get_log
from leveret.sharding.slots import NO_SHARD, SLOTS


class RecordState(Enum):
    HOLDING = "holding"
    MOVING = "moving"
    PASSING = "passing"


class Record(NamedTuple):
    """Slots that leave a shard. ``home``: the cell of the shard; ``since``: the version that began this wait."""

    home: str
    slots: frozenset[int]
    state: RecordState
    since: int


class SlotTable(NamedTuple):
    """``epoch`` differs for each table of an exchange that began at version 1; ``cells`` are all that may use it."""

    epoch: str
    version: int
    owners: tuple[str, ...]
    records: Mapping[str, Record]  # by old shard
    cells: frozenset[str]

    @property
    def shards(self) -> list[str]:
        """The owners of the slots, or their future owners."""
        return sorted(set(self.owners) - {NO_SHARD})

    def leaving(self) -> dict[int, str]:
        """The old shards of slots that are on the move."""
        return {slot: old for old, record in self.records.items() for slot in record.slots}

    def as_json(self) -> bytes:
        shards = self.shards
        places = {shard: place for place, shard in enumerate(shards)}
        row = {
            "epoch": self.epoch,
            "version": self.version,
            "shards": shards,
            "owners": [places.get(owner, -1) for owner in self.owners],
            "held": {old: sorted(record.slots) for old, record in self.records.items()},
            "moving": [old for old, record in self.records.items() if record.state is not RecordState.HOLDING],
            "states": {old: [record.home, record.state.value, record.since] for old, record in self.records.items()},
            "cells": sorted(self.cells),
        }
        return json.dumps(row).encode()


def table_of(value: bytes, exchange: str, own: str) -> SlotTable | None:
    """The table in a row. That of a single broker, which is now the cell ``own``, has no version. None if it is
    invalid: the exchange then loses the order of messages, but no message."""
    try:
        row = dict(json.loads(value))
        if len(row["owners"]) == SLOTS and max(row["owners"]) < len(row["shards"]):
            return _table(row, own)
        problem = "it has another number of slots"
    except (ValueError, KeyError, TypeError) as fault:
        problem = repr(fault)
    get_log("sharding").error("stored state of a sharded exchange is invalid", exchange=exchange, reason=problem)
    return None


def _table(row: Mapping[str, Any], own: str) -> SlotTable:
    records: dict[str, Record] = {}
    for old, slots in row["held"].items():
        first = RecordState.MOVING if old in row["moving"] else RecordState.HOLDING
        home, state, since = row.get("states", {}).get(old, (own, first.value, 0))
        records[old] = Record(str(home), frozenset(slots), RecordState(state), int(since))
    owners = tuple(NO_SHARD if place < 0 else row["shards"][place] for place in row["owners"])
    cells = frozenset(row.get("cells", (own,)))
    return SlotTable(str(row.get("epoch", "")), int(row.get("version", 0)), owners, records, cells)
