"""The progress of a named reader: the lowest offset that was delivered and is not acknowledged.

Acks may arrive in any order. Acknowledged offsets above the lowest one are kept as ranges, and adjacent ranges are
joined: there are never more ranges than unacknowledged messages. Offsets that were filtered out count as acknowledged.
An offset that was requeued does not: the reader gets it again when it is restarted, and nothing above it counts until
then.
"""

from __future__ import annotations


class Progress:
    __slots__ = ("_firsts", "_high", "_limit", "_low", "_stops")

    def __init__(self) -> None:
        self._low = 0  # all offsets below are acknowledged
        self._high = -1  # the end of what was delivered; below 0: nothing yet
        self._limit: int | None = None  # the lowest offset that was requeued
        self._stops: dict[int, int] = {}  # ends of acknowledged ranges, by their starts
        self._firsts: dict[int, int] = {}  # starts by ends

    @property
    def low(self) -> int | None:
        """None if everything that was delivered is acknowledged."""
        return self._low if self._low < self._high else None

    def given(self, first: int, stop: int) -> None:
        if self._high < 0:
            self._low = self._high = first
        if first > self._high:
            passed, self._high = self._high, first
            self.read(passed, first)
        self._high = stop

    def read(self, first: int, stop: int) -> None:
        if self._limit is not None and first >= self._limit:
            return
        if first == self._low:
            self._low = self._stops.pop(stop, stop)
            self._firsts.pop(self._low, None)
            return
        first = self._firsts.pop(first, first)
        joined = self._stops.pop(stop, stop)
        self._firsts.pop(joined, None)
        self._stops[first], self._firsts[joined] = joined, first

    def returned(self, offset: int) -> None:
        if self._limit is None or offset < self._limit:
            self._limit = offset
            self._stops = {first: stop for first, stop in self._stops.items() if first < offset}
            self._firsts = {stop: first for first, stop in self._stops.items()}
