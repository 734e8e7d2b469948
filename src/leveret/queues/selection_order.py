"""Which matching consumer gets a message: by priority, then in turn; groups go to the consumer with the fewest."""

from __future__ import annotations

from collections.abc import Callable

from leveret.delivery.consumer import Consumer
from leveret.delivery.consumer_ring import ConsumerRing
from leveret.delivery.single_active import SingleActive
from leveret.queues.selector_masks import SelectorMasks


class DeliveryOrder:
    """``present``: the bits of all consumers; ``roomy``: of those that may have room."""

    __slots__ = ("_bits", "_levels", "_share", "present", "roomy")

    def __init__(self, share: Callable[[Consumer], int]) -> None:
        self._share = share  # the number of groups that a consumer holds
        self._levels: list[list[Consumer]] = []  # highest priority first; the one served last is last
        self._bits: dict[Consumer, int] = {}
        self.present = 0
        self.roomy = 0

    def follow(self, ring: ConsumerRing, sieve: SelectorMasks) -> None:
        """Use these consumers from now on; known ones keep their order."""
        served = {consumer: turn for turn, consumer in enumerate(self._bits_in_turn())}
        consumers = [ring.active] if isinstance(ring, SingleActive) else list(ring)
        self._bits = {consumer: sieve.bit_of(consumer) for consumer in consumers if consumer is not None}
        self._levels = []
        self.present = 0
        levels: dict[int, list[Consumer]] = {}
        for consumer, bit in self._bits.items():
            levels.setdefault(consumer.priority, []).append(consumer)
            self.present |= bit
        for priority in sorted(levels, reverse=True):
            self._levels.append(sorted(levels[priority], key=lambda consumer: served.get(consumer, len(served))))

    def _bits_in_turn(self) -> list[Consumer]:
        return [consumer for level in self._levels for consumer in level]

    def look_around(self) -> list[Consumer]:
        """The consumers that have room."""
        found = [consumer for consumer in self._bits if consumer.room() > 0]
        self.roomy = 0
        for consumer in found:
            self.roomy |= self._bits[consumer]
        return found

    def can_take(self, consumer: Consumer, mask: int) -> bool:
        """Whether the consumer matches and has room."""
        return bool(self._bits.get(consumer, 0) & mask) and consumer.room() > 0

    def choose(self, mask: int, grouped: bool) -> Consumer | None:
        """The consumer that gets a message with this mask; None if no matching one has room."""
        if not self.roomy & mask:
            return None
        for level in self._levels:
            able = (consumer for consumer in level if self.can_take(consumer, mask))
            chosen = min(able, key=self._share, default=None) if grouped else next(able, None)
            if chosen is not None:
                if len(level) > 1:
                    level.remove(chosen)
                    level.append(chosen)
                return chosen
        self.roomy &= ~mask  # all consumers with one of these bits are full
        return None
