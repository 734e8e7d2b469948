"""Stored offsets of named stream consumers, kept with the definitions so that they survive a restart.

An offset is the next one to be read. Retention stops at the lowest *pinned* offset.

The number of names is bounded for each stream and virtual host: storing a name requires only read permission on the
stream, and the name stays until it is deleted.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from leveret.broker.parameters import Parameters
from leveret.errors import PreconditionFailed
from leveret.logs import get_log

COMPONENT = "stream-offset"
MOST_OF_A_STREAM = 1_000
MOST_OF_A_VHOST = 20_000


class StoredOffset(NamedTuple):
    consumer: str
    queue: str
    offset: int
    pinned: bool


class StreamOffsets:
    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self._offsets: dict[str, dict[str, StoredOffset]] = {}  # by queue and consumer

    def restore(self) -> None:
        """Restore the offsets from the parameters."""
        for name in self._parameters.names(COMPONENT):
            try:
                queue, consumer = json.loads(name)
                value = json.loads(self._parameters.get(COMPONENT, name) or b"")
                found = StoredOffset(str(consumer), str(queue), int(value["offset"]), bool(value["pinned"]))
            except (ValueError, KeyError, TypeError) as problem:
                get_log("streams").error("stream offset cannot be restored", name=name, reason=str(problem))
                continue
            self._offsets.setdefault(found.queue, {})[found.consumer] = found

    def get(self, queue: str, consumer: str) -> int | None:
        found = self._offsets.get(queue, {}).get(consumer)
        return None if found is None else found.offset

    def refuse_too_many(self, queue: str, consumer: str) -> None:
        """Refuse a new name if too many exist."""
        names = self._offsets.get(queue, {})
        if consumer in names:
            return
        number = sum(map(len, self._offsets.values()))
        if len(names) >= MOST_OF_A_STREAM or number >= MOST_OF_A_VHOST:
            raise PreconditionFailed(
                f"stream '{queue}' has stored offsets of {len(names)} consumers, its vhost those of {number}: at most "
                f"{MOST_OF_A_STREAM} and {MOST_OF_A_VHOST} are kept; delete those that are not needed (DELETE "
                "/api/pipeline/{vhost}/consumers)"
            )

    def put(self, queue: str, consumer: str, offset: int, pinned: bool) -> None:
        self.refuse_too_many(queue, consumer)
        value = json.dumps({"offset": offset, "pinned": pinned}).encode()
        self._parameters.put(COMPONENT, json.dumps([queue, consumer]), value)
        self._offsets.setdefault(queue, {})[consumer] = StoredOffset(consumer, queue, offset, pinned)

    def drop(self, queue: str, consumer: str) -> bool:
        """Delete a stored offset; returns whether it existed."""
        if consumer not in self._offsets.get(queue, {}):
            return False
        self._parameters.drop(COMPONENT, json.dumps([queue, consumer]))  # refused when the store is read-only
        del self._offsets[queue][consumer]
        return True

    def list(self, queue: str | None = None) -> list[StoredOffset]:
        return [each for name, of in sorted(self._offsets.items()) if queue in (None, name) for each in of.values()]

    def is_pinned(self, queue: str, consumer: str) -> bool:
        found = self._offsets.get(queue, {}).get(consumer)
        return found is not None and found.pinned

    def pinned(self, queue: str) -> int | None:
        return min((each.offset for each in self._offsets.get(queue, {}).values() if each.pinned), default=None)

    def forget(self, queue: str) -> None:
        for consumer in list(self._offsets.get(queue, ())):
            self.drop(queue, consumer)
        self._offsets.pop(queue, None)
