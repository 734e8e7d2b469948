"""Which consumers want a message: the selectors of a queue's consumers as bits.

Each different selector has a bit, which consumers with the same text share; bit 0 stands for consumers without a
selector. The *mask* of a message has the bits of the selectors that match. So each selector is evaluated once for a
message, however many consumers there are. Selectors stay known for a while after their last consumer was cancelled: a
consumer that repeatedly fetches single messages finds everything classified already.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import islice

from leveret.delivery.consumer import Consumer
from leveret.delivery.selector import Selector

EVERYTHING = 1  # the bit of consumers without a selector
NOTHING = -1  # the rank of no message
MOST_STEPS = 250_000  # of about 40 ns each, for one message in one tick
MOST_IDLE = 8  # selectors that are kept without a consumer


class SelectorMasks:
    __slots__ = ("_asked", "_bits", "_selectors")

    def __init__(self) -> None:
        self._selectors: dict[str, Selector] = {}
        self._bits: dict[str, int] = {}
        self._asked: tuple[int, int, int] = (NOTHING, 0, 0)  # rank of a message, selectors evaluated, mask so far

    def __len__(self) -> int:
        return len(self._selectors)

    def admit(self, consumers: Collection[Consumer]) -> bool:
        """Add the selectors of these consumers; whether one was new, which makes all masks void."""
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
        """The mask of the message with this rank, and the steps of its evaluation; no mask if they exceed
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
