"""x-random and x-local-random exchanges: a random destination for each message."""

from __future__ import annotations

from xxhash import xxh3_64_intdigest

from leveret.errors import PreconditionFailed
from leveret.routing.bindings import Binding
from leveret.routing.fanout import SingleDestinationExchange


class SeededRandom:
    """Reproducible random numbers: the hash of a counter under a seed. Equal seeds give equal sequences."""

    __slots__ = ("_drawn", "_seed")

    def __init__(self, seed: int) -> None:
        """``seed`` has up to 64 bits."""
        self._seed = seed
        self._drawn = 0

    def below(self, number: int) -> int:
        """A number from 0 to number - 1, uniformly distributed."""
        self._drawn += 1
        return xxh3_64_intdigest(self._drawn.to_bytes(8, "big"), self._seed) % number


class RandomExchange(SingleDestinationExchange):
    """Routes each message to a random destination, chosen by ``random``."""

    kind = "x-random"
    looks_at_headers = True

    def prepare(self) -> None:
        super().prepare()
        self.random = SeededRandom(0)

    def choose(self, number: int, key: str) -> int:
        return self.random.below(number)


class LocalRandomExchange(RandomExchange):
    """Chooses among the queues of this node. It can be bound to queues only, with an empty key."""

    kind = "x-local-random"

    def accept(self, binding: Binding) -> None:
        if binding.key:
            raise PreconditionFailed(
                f"Non empty binding '{binding.key}' key not permitted for exchange '{self.name}' of type "
                f"'{self.kind}': bind with an empty key"
            )
        if binding.destination.kind != "queue":
            raise PreconditionFailed(
                f"exchange '{binding.destination.name}' cannot be bound to exchange '{self.name}': type "
                f"'{self.kind}' can be bound to queues only"
            )
