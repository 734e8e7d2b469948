"""Publisher confirms of one channel: decides when each publish may be confirmed.  Hot path.

Publishes are numbered 1, 2, 3, ... Each is confirmed once the receipt of its write is granted. Receipts of the broker's
log are increasing numbers, and 0 means that there is nothing to wait for. They are granted in order, except that the
receipts of messages that were settled before they had to be written are granted early. A ``multiple`` confirm covers
every number up to its own, so it is used only if no lower number is waiting; publishes without a receipt overtake the
others with single confirms.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from itertools import groupby
from typing import NamedTuple

GRANTED = 0


class Confirm(NamedTuple):
    """An ack or nack to send, for one number or for all numbers up to it."""

    tag: int
    multiple: bool
    ack: bool = True


class Confirms:
    __slots__ = ("_reserved", "_waiting", "issued")

    def __init__(self) -> None:
        self.issued = 0
        self._waiting: deque[tuple[int, int, int]] = deque()  # (receipt, first, last), by number
        self._reserved: dict[int, int] = {}  # first and last numbers that will be confirmed by ``resolved``, in order

    @property
    def outstanding(self) -> int:
        waiting = sum(last - first + 1 for _, first, last in self._waiting)
        return waiting + sum(last - first + 1 for first, last in self._reserved.items())

    @property
    def is_waiting(self) -> bool:
        return bool(self._waiting)

    def published(self, number: int, receipt: int) -> list[Confirm]:
        """Add ``number`` publishes that wait for ``receipt``; returns the confirms that can be sent at once."""
        first = self.issued + 1
        self.issued = last = self.issued + number
        if receipt != GRANTED:
            self._waiting.append((receipt, first, last))
            return []
        if not self._waiting and not self._reserved:
            return [Confirm(last, multiple=number > 1)]
        return [Confirm(tag, multiple=False) for tag in range(first, last + 1)]

    def reserve(self, number: int) -> tuple[int, int]:
        """Reserve the numbers of ``number`` publishes, which ``resolved`` will confirm; returns the first and last."""
        first = self.issued + 1
        self.issued += number
        self._reserved[first] = self.issued
        return first, self.issued

    def resolved(self, first: int, last: int, refused: Collection[int] = ()) -> list[Confirm]:
        """The outcome of the reserved numbers first..last is known: an ack, except for those that are ``refused``."""
        del self._reserved[first]
        tags = range(first, last + 1)
        if not self._is_lowest(first) or (self._waiting and self._waiting[0][1] < first):
            return [Confirm(tag, multiple=False, ack=tag not in refused) for tag in tags]
        if not refused:
            return [Confirm(last, multiple=last > first)]
        groups = [list(alike) for _, alike in groupby(tags, refused.__contains__)]
        return [Confirm(each[-1], multiple=len(each) > 1, ack=each[0] not in refused) for each in groups]

    def _is_lowest(self, number: int) -> bool:
        """Whether no reserved number is below."""
        return not self._reserved or next(iter(self._reserved)) > number

    def granted(self, receipt: int) -> list[Confirm]:
        """Everything up to ``receipt`` is as durable as promised."""
        spans: list[tuple[int, int]] = []
        while self._waiting and self._waiting[0][0] <= receipt:
            _, first, last = self._waiting.popleft()
            spans.append((first, last))
        if not spans:
            return []
        if not self._is_lowest(spans[-1][1]):
            return [Confirm(tag, multiple=False) for first, last in spans for tag in range(first, last + 1)]
        single = len(spans) == 1 and spans[0][0] == spans[0][1]
        return [Confirm(spans[-1][1], multiple=not single)]

    def granted_early(self, receipts: set[int]) -> list[Confirm]:
        """Only these receipts are granted: earlier ones may still be waiting."""
        found = [entry for entry in self._waiting if entry[0] in receipts]
        if not found:
            return []
        in_order = not self._reserved and [entry[0] for entry in self._waiting][: len(found)] == [e[0] for e in found]
        if in_order:
            return self.granted(found[-1][0])
        self._waiting = deque(entry for entry in self._waiting if entry[0] not in receipts)
        return [Confirm(tag, multiple=False) for _, first, last in found for tag in range(first, last + 1)]

    def refused(self, number: int) -> list[Confirm]:
        """Add ``number`` publishes that a queue has rejected."""
        first = self.issued + 1
        self.issued += number
        if not self._waiting and not self._reserved:
            return [Confirm(self.issued, multiple=number > 1, ack=False)]
        return [Confirm(tag, multiple=False, ack=False) for tag in range(first, self.issued + 1)]

    def lost(self, receipt: int) -> list[Confirm]:
        """The writes up to ``receipt`` failed: their publishes are nacked."""
        tags: list[int] = []
        while self._waiting and self._waiting[0][0] <= receipt:
            _, first, last = self._waiting.popleft()
            tags.extend(range(first, last + 1))
        return [Confirm(tag, multiple=False, ack=False) for tag in tags]
