"""Bindings between exchanges and queues, and the table of all bindings of one virtual host.

A binding is a value. Two bindings are equal if source, destination, key and arguments are the same, and arguments are
the same only if their types are the same too (``1`` is not ``True``). The table stores each binding by its source and
by its destination, so that deleting one queue among ten thousand bindings touches only the bindings of that queue.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeVar

from leveret.routing.field_values import identity


class Destination(NamedTuple):
    """The destination of a binding: a queue, or another exchange."""

    kind: Literal["queue", "exchange"]
    name: str


@dataclass(frozen=True, slots=True)
class Binding:
    """One rule of a source exchange. The arguments must not be changed after the binding was created."""

    source: str
    destination: Destination
    key: str
    arguments: Mapping[str, object] = field(default_factory=dict, compare=False)
    _arguments_identity: Hashable = field(init=False, repr=False)  # computed once: bindings are looked up by value

    def __post_init__(self) -> None:
        object.__setattr__(self, "_arguments_identity", identity(self.arguments))


class DestinationCounts(dict[Destination, int]):
    """Destinations in the order of binding, each with the number of bindings that lead there.

    Two bindings that differ only in their arguments have one destination; it stays until both are removed.
    """

    def gain(self, destination: Destination) -> None:
        self[destination] = self.get(destination, 0) + 1

    def lose(self, destination: Destination) -> None:
        if self[destination] == 1:
            del self[destination]
        else:
            self[destination] -= 1


_Key = TypeVar("_Key")


class Bindings:
    """All bindings of a virtual host, found by source and by destination without a scan."""

    def __init__(self) -> None:
        # dicts are used as ordered sets: listings show bindings in the order of their creation
        self._of_source: dict[str, dict[Binding, None]] = {}
        self._of_destination: dict[Destination, dict[Binding, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, binding: Binding) -> bool:
        return binding in self._of_source.get(binding.source, ())

    def add(self, binding: Binding) -> bool:
        """Add the binding; False if it exists already."""
        if binding in self:
            return False
        self._of_source.setdefault(binding.source, {})[binding] = None
        self._of_destination.setdefault(binding.destination, {})[binding] = None
        self._count += 1
        return True

    def remove(self, binding: Binding) -> bool:
        """Remove the binding; False if there was none."""
        if binding not in self:
            return False
        _discard(self._of_source, binding.source, binding)
        _discard(self._of_destination, binding.destination, binding)
        self._count -= 1
        return True

    def number_of(self, source: str) -> int:
        """The number of bindings that lead away from the exchange."""
        return len(self._of_source.get(source, ()))

    def of_source(self, name: str) -> list[Binding]:
        """The bindings that lead away from the exchange, oldest first."""
        return list(self._of_source.get(name, ()))

    def of_destination(self, destination: Destination) -> list[Binding]:
        """The bindings that lead to the queue or exchange, oldest first."""
        return list(self._of_destination.get(destination, ()))

    def remove_source(self, name: str) -> list[Binding]:
        """Remove, and return, every binding that leads away from the exchange."""
        return self._remove_all(self.of_source(name))

    def remove_destination(self, destination: Destination) -> list[Binding]:
        """Remove, and return, every binding that leads to the queue or exchange."""
        return self._remove_all(self.of_destination(destination))

    def _remove_all(self, removed: list[Binding]) -> list[Binding]:
        for binding in removed:
            self.remove(binding)
        return removed


def _discard(index: dict[_Key, dict[Binding, None]], key: _Key, binding: Binding) -> None:
    kept = index[key]
    del kept[binding]
    if not kept:
        del index[key]  # a deleted name must not leave an empty entry
