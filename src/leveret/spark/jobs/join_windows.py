"""The rows of one key that wait for rows of the other side.

A row of the left and a row of the right side with times at most ``within`` apart are a pair, whatever order they are
read in. A row waits until ``within`` has passed since its time and since it was read; the second condition is for a
backlog. A run that ends holds its rows instead, and lets them go when it has read everything.

If a row is found overdue by more than ``within``, the query did not run in the meantime, and the row is postponed once:
its partner may be waiting in a queue. All decisions depend on the rows, the state and the time that Spark records for a
batch, so a repeated batch gives the same result.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from leveret.spark.jobs.durations import FOREVER

LEFT, RIGHT = "left", "right"


class Waiting(NamedTuple):
    """A message: its side, its time in milliseconds since 1970, and until when it waits."""

    side: str
    time: int
    body: bytes
    envelope: str | None
    due: int
    is_matched: bool = False
    is_postponed: bool = False


class Pair(NamedTuple):
    left: Waiting
    right: Waiting


@dataclass(frozen=True)
class JoinWindows:
    within: int  # milliseconds

    def due(self, time: int, now: int, *, hold: bool) -> int:
        return FOREVER if hold else max(time, now) + self.within

    def wait_again(self, rows: Iterable[Waiting], now: int, *, hold: bool) -> list[Waiting]:
        """The rows, held or waiting from now on."""
        return [one._replace(due=self.due(one.time, now, hold=hold), is_postponed=False) for one in rows]

    def add(self, rows: Sequence[Waiting], new: Sequence[Waiting]) -> tuple[list[Waiting], list[Pair], int]:
        """The rows with the new ones, their pairs, and how many rows have their first partner now.

        Partners are looked up in order of time: a key may have thousands of rows behind a backlog.
        """
        known = [*rows, *new]
        lefts, rights = (
            sorted((at for at, one in enumerate(known) if one.side == side), key=lambda at: known[at].time)
            for side in (LEFT, RIGHT)
        )
        times = [known[at].time for at in rights]
        pairs, matched = [], set()
        for left in lefts:
            first = bisect_left(times, known[left].time - self.within)
            end = bisect_right(times, known[left].time + self.within)
            for right in rights[first:end]:
                if max(left, right) >= len(rows):  # one of them is new
                    pairs.append(Pair(known[left], known[right]))
                    matched |= {left, right}
        first_ones = sum(not known[at].is_matched for at in matched)
        kept = [one._replace(is_matched=True) if at in matched else one for at, one in enumerate(known)]
        return kept, pairs, first_ones

    def pass_time(self, rows: Iterable[Waiting], now: int) -> tuple[list[Waiting], list[Waiting]]:
        """The rows that still wait, and those that leave."""
        kept: list[Waiting] = []
        gone: list[Waiting] = []
        for one in rows:
            if one.due > now:
                kept.append(one)
            elif not one.is_postponed and now >= one.due + self.within:
                kept.append(one._replace(due=now + self.within, is_postponed=True))
            else:
                gone.append(one)
        return kept, gone

    def close(self, rows: Iterable[Waiting], until: int) -> tuple[list[Waiting], list[Waiting]]:
        """The same for a run that ends: rows that are not later than ``until`` leave."""
        kept: list[Waiting] = []
        gone: list[Waiting] = []
        for one in rows:
            (gone if one.time <= until else kept).append(one)
        return kept, gone
