"""The offset of a query over classic queues: the number of the last lease of each queue.

A query with the option `queue` has {"consumer", "lease", "queue", "vhost"}, as in all versions; a query over several
queues has {"consumer", "leases": {queue: number, ...}, "vhost"}. A query over several queues can continue the
checkpoint of one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from leveret.spark.errors import OptionError

Leases = dict[str, int]
JsonOffset = dict[str, Any]


@dataclass(frozen=True, slots=True)
class LeaseOffsets:
    """Converts offsets of one query. ``queue``: the only queue, or None if there may be several."""

    consumer: str
    vhost: str
    queue: str | None

    def json_of(self, leases: Mapping[str, int]) -> JsonOffset:
        if self.queue is not None:
            return {"consumer": self.consumer, "lease": leases[self.queue], "queue": self.queue, "vhost": self.vhost}
        return {"consumer": self.consumer, "leases": dict(sorted(leases.items())), "vhost": self.vhost}

    def leases_of(self, offset: Mapping[str, Any]) -> Leases:
        for name, mine in (("consumer", self.consumer), ("vhost", self.vhost)):
            if offset.get(name) != mine:
                raise self._other(name, offset.get(name), mine)
        found = leases_in(offset) or {}
        strange = sorted(found.keys() - {self.queue}) if self.queue is not None else []
        if strange or (self.queue is not None and self.queue not in found):
            raise self._other("queue", ", ".join(strange), self.queue)
        return found

    def _other(self, name: str, found: object, mine: object) -> OptionError:
        return OptionError(
            f"the checkpoint belongs to {name} '{found}', not '{mine}'; "
            "give the options it was made with, or a new checkpointLocation"
        )


def leases_in(offset: Mapping[str, Any]) -> Leases | None:
    """The leases by queue in either form; None if it is not an offset of leases."""
    match offset:
        case {"consumer": str(), "vhost": str(), "lease": int(lease), "queue": str(queue)}:
            return {queue: lease}
        case {"consumer": str(), "vhost": str(), "leases": dict(leases)}:
            return leases if all(type(number) is int for number in leases.values()) else None
    return None
