"""x-random and x-local-random exchanges: a random destination for each message."""

from __future__ import annotations

from leveret.errors import PreconditionFailed
from leveret.routing.bindings import Binding
from leveret.routing.seeded_random import SeededRandom
from leveret.routing.single_destination import SingleDestinationExchange


class RandomExchange(SingleDestinationExchange):
    """Each message goes to a random destination, drawn from ``random``."""

    kind = "x-random"
    looks_at_headers = True

    def prepare(self) -> None:
        super().prepare()
        self.random = SeededRandom(0)

    def choose(self, number: int, key: str) -> int:
        return self.random.below(number)


class LocalRandomExchange(RandomExchange):
    """The same among the queues of this node. It can be bound to queues only, with an empty key."""

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
