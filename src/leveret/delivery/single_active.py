"""x-single-active-consumer: one consumer of a queue gets all messages, the others wait.

The first consumer of the highest priority is the active one, until it is cancelled or a consumer with a higher priority
subscribes. It then keeps its unacked deliveries.
"""

from __future__ import annotations

from collections.abc import Iterable

from leveret.delivery.consumer import Consumer
from leveret.delivery.consumer_ring import ConsumerRing


class SingleActive(ConsumerRing):
    __slots__ = ()

    def __init__(self, consumers: Iterable[Consumer] = ()) -> None:
        super().__init__()
        for consumer in consumers:
            self.add(consumer)

    @property
    def active(self) -> Consumer | None:
        return next(iter(self), None)

    def next(self) -> Consumer | None:
        self.stretch = 0
        active = self.active
        return active if active is not None and not self.paused and active.room() > 0 else None
