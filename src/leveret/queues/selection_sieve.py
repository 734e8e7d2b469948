"""Who wants which message: the selectors of a queue's consumers as bits.

Each different selector has a bit, and consumers with the same text share it; bit 0 stands for consumers without one,
who want everything. The *mask* of a message says which of these want it. So a message is asked once by each selector,
however many consumers there are; and since selectors are remembered for a while after the last consumer with them has
left, one that comes and goes, as who pulls single messages does, finds everything looked at already.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import islice

from leveret.delivery.consumer import Consumer
from leveret.delivery.selector import Selector

EVERYTHING = 1  # the bit of consumers without a selector
NOTHING = -1  # the rank of no message
MOST_STEPS = 250_000  # of about 40 ns, for one message in one tick
MOST_IDLE = 8  # selectors that are remembered although nobody has them


class Sieve:
    __slots__ = ("_asked", "_bits", "_selectors")

    def __init__(self) -> None:
        self._selectors: dict[str, Selector] = {}
        self._bits: dict[str, int] = {}
        self._asked: tuple[int, int, int] = (NOTHING, 0, 0)  # rank of a message, selectors asked of it, mask so far

    def __len__(self) -> int:
        return len(self._selectors)

    def admit(self, consumers: Collection[Consumer]) -> bool:
        """Know the selectors of these; whether one was new, which makes all masks void."""
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
        """The mask of the message with this rank, and the steps that were taken; no mask if they are more than
        ``MOST_STEPS``. Ask again in another tick then: it goes on with the next selector."""
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
