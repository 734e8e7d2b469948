"""Small facts about a virtual host that outlive the process: which queues are paused, how an exchange is sharded.

Each has a component (its owner), a name and a value in bytes. Policies are kept in the same table of the
definitions, but are managed by broker/policies.py.
"""

from __future__ import annotations

from collections.abc import Callable

from leveret.store.definitions import Change, Drop, ParameterRow, Put


class Parameters:
    """``record`` writes a change before it takes effect."""

    def __init__(self, vhost: str, record: Callable[[Change], None]) -> None:
        self._vhost = vhost
        self._record = record
        self._values: dict[tuple[str, str], bytes] = {}

    def get(self, component: str, name: str) -> bytes | None:
        return self._values.get((component, name))

    def names(self, component: str) -> list[str]:
        return [name for owner, name in self._values if owner == component]

    def put(self, component: str, name: str, value: bytes) -> None:
        if self._values.get((component, name)) != value:
            self._record(Put(ParameterRow(self._vhost, component, name, value)))
            self._values[component, name] = value

    def drop(self, component: str, name: str) -> None:
        if (component, name) in self._values:
            self._record(Drop(ParameterRow, (self._vhost, component, name)))
            del self._values[component, name]
