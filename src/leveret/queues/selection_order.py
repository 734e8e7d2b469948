"""The order of matching consumers: by priority, then round-robin; a group goes to the consumer with the fewest."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import islice

from leveret.delivery.consumer import Consumer
from leveret.delivery.consumer_ring import ConsumerRing, SingleActive
from leveret.delivery.selector import Selector

EVERYTHING = 1  # the bit of consumers without a selector
NOTHING = -1  # the rank of no message
MOST_STEPS = 250_000  # of about 40 ns each, for one message in one tick
MOST_IDLE = 8  # selectors that are kept without a consumer


class SelectorMasks:
    """The selectors of a queue's consumers as bits.

    Each distinct selector has a bit, which consumers with the same text share; bit 0 stands for consumers without a
    selector. The *mask* of a message has the bits of the selectors that match. So each selector is evaluated once for a
    message, however many consumers there are. Selectors are kept for a while after their last consumer was cancelled,
    so that messages need not be classified again for a consumer that repeatedly fetches single messages.
    """

    __slots__ = ("_asked", "_bits", "_selectors")

    def __init__(self) -> None:
        self._selectors: dict[str, Selector] = {}
        self._bits: dict[str, int] = {}
        self._asked: tuple[int, int, int] = (NOTHING, 0, 0)  # rank of a message, selectors evaluated, mask so far

    def __len__(self) -> int:
        return len(self._selectors)

    def admit(self, consumers: Collection[Consumer]) -> bool:
        """Add the selectors of these consumers; returns whether one was new, which invalidates all masks."""
        used = {consumer.selector.text: consumer.selector for consumer in consumers if consumer.selector is not None}
        if used.keys() <= self._selectors.keys():
            return False
        idle = [text for text in self._selectors if text not in used][-MOST_IDLE:]
        self._selectors = {text: self._selectors[text] for text in idle} | used
        self._bits = {text: EVERYTHING << number for number, text in enumerate(self._selectors, 1)}
        self._asked = (NOTHING, 0, 0)
        return True

    def bit_of(self, consumer: Consumer) -> int:
        return EVERYTHING if consumer.selector is None else self._bits[consumer.selector.text]

    def ask(self, rank: int, fields: Mapping[str, object]) -> tuple[int | None, int]:
        """The mask of the message with this rank, and the steps of its evaluation; None if the steps exceed
        ``MOST_STEPS``. The next call, in another tick, continues with the next selector."""
        of, number, mask = self._asked
        if of != rank:
            number, mask = 0, EVERYTHING
        steps = 0
        for text, selector in islice(self._selectors.items(), number, None):
            if steps > MOST_STEPS:
                self._asked = (rank, number, mask)
                return None, steps
            matches, taken = selector.asked(fields)
            if matches:
                mask |= self._bits[text]
            number += 1
            steps += taken
        self._asked = (NOTHING, 0, 0)
        return mask, steps


class DeliveryOrder:
    """``present``: the bits of all consumers; ``roomy``: the bits of consumers that may have room."""

    __slots__ = ("_bits", "_levels", "_share", "present", "roomy")

    def __init__(self, share: Callable[[Consumer], int]) -> None:
        self._share = share  # the number of groups that a consumer holds
        self._levels: list[list[Consumer]] = []  # highest priority first; the consumer served last is at the end
        self._bits: dict[Consumer, int] = {}
        self.present = 0
        self.roomy = 0

    def follow(self, ring: ConsumerRing, sieve: SelectorMasks) -> None:
        """Use these consumers from now on; consumers that were there before keep their order."""
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
        """The consumer that gets a message with this mask; None if no matching consumer has room."""
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
