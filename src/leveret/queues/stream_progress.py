"""How far a named reader is: the lowest offset that it was given and has not read.

Acks may come in any order. What is read ahead of the lowest one is kept as ranges, and neighbours are joined: there are
never more ranges than messages in the reader's hands. An offset that was passed over counts as read. One that was given
back does not: the reader gets it again when it begins anew, and nothing behind it counts until then.
"""

from __future__ import annotations


class Progress:
    __slots__ = ("_firsts", "_high", "_limit", "_low", "_stops")

    def __init__(self) -> None:
        self._low = 0  # all below is read
        self._high = -1  # the end of what was given; below 0: nothing was
        self._limit: int | None = None  # the lowest that was given back
        self._stops: dict[int, int] = {}  # of ranges that are read, by where they begin
        self._firsts: dict[int, int] = {}  # the other way round

    @property
    def low(self) -> int | None:
        """None if all that was given is read."""
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
