"""x-modulus-hash exchanges: the hash of the routing key, modulo the number of destinations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from xxhash import xxh3_64_intdigest

from leveret.delivery.selector import selector_of
from leveret.errors import PreconditionFailed
from leveret.routing.bindings import Binding, Destination
from leveret.routing.bounds import RoutingWork
from leveret.routing.fanout import SingleDestinationExchange


class Partitioner(Protocol):
    """Chooses the destination of each key for an exchange; see sharding/ordered_slots.py."""

    def reach(self, key: str) -> Iterable[Destination]: ...

    def rebound(self) -> None:
        """The bindings of the exchange have changed."""


class ModulusHashExchange(SingleDestinationExchange):
    """A key keeps its destination as long as the set of destinations does not change.

    A ``partitioner`` replaces this rule to keep the order of each key when the set changes. It supports queues only,
    and no selectors.
    """

    kind = "x-modulus-hash"

    def prepare(self) -> None:
        super().prepare()
        self.partitioner: Partitioner | None = None

    def choose(self, number: int, key: str) -> int:
        return xxh3_64_intdigest(key.encode()) % number

    def bound(self) -> list[Destination]:
        """The destinations, sorted."""
        return self._in_order[:]

    def accept(self, binding: Binding) -> None:
        if self.partitioner is None:
            return
        if binding.destination.kind != "queue" or selector_of(binding.arguments) is not None:
            raise PreconditionFailed(
                f"cannot bind {binding.destination.kind} '{binding.destination.name}' to exchange '{self.name}', which "
                "is resized in order by a policy: bind a queue, without x-selector"
            )

    def link(self, binding: Binding) -> None:
        super().link(binding)
        if self.partitioner is not None:
            self.partitioner.rebound()

    def unlink(self, binding: Binding) -> None:
        super().unlink(binding)
        if self.partitioner is not None:
            self.partitioner.rebound()

    def reach(self, key: str, headers: Mapping[str, object], work: RoutingWork) -> Iterable[Destination]:
        return super().reach(key, headers, work) if self.partitioner is None else self.partitioner.reach(key)

    def reach_with(
        self, taking: Sequence[Binding], key: str, headers: Mapping[str, object], work: RoutingWork
    ) -> Iterable[Destination]:
        return (
            super().reach_with(taking, key, headers, work) if self.partitioner is None else self.partitioner.reach(key)
        )
