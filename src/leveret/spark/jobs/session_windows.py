"""The sessions of one key: which messages belong together, when a session closes, and which messages are late.

Two messages with times less than the gap apart are in one session, whatever order they are read in. An open session
closes when the gap has passed since its last message, both by the time of that message and since it was read. The
second condition is for a backlog: a session of last week stays open while its messages are still being read. A run that
ends holds its sessions instead, and closes them when it has read everything.

If a session is found overdue by more than the gap, the query did not run in the meantime. It is postponed once, by the
gap, since more of its messages may be waiting in the queues. All decisions depend on the messages, the state and the
time that Spark records for a batch, so a repeated batch gives the same result.

A closed session is remembered for a while. A message that would have belonged to it is late.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import NamedTuple

from leveret.spark.jobs.durations import FOREVER

# Enough digits for exact sums, so that they do not depend on the order of the messages.
EXACT = Context(prec=200)


class Event(NamedTuple):
    """A message: its time in milliseconds since 1970, and its values for the sums."""

    time: int
    values: tuple[Decimal, ...] = ()


class Session(NamedTuple):
    """``late``: how many of its ``messages`` were late; ``due``: when it closes, or is forgotten if it is closed."""

    start: int
    end: int
    messages: int
    late: int
    sums: tuple[Decimal, ...]
    due: int
    is_closed: bool = False
    is_postponed: bool = False


@dataclass(frozen=True)
class SessionWindows:
    """Times are in milliseconds. ``remember``: how long a closed session is remembered."""

    gap: int
    remember: int

    def late(self, sessions: Iterable[Session], times: Iterable[int]) -> list[bool]:
        """Which of these times would have belonged to a closed session."""
        covered = self._covered([one for one in sessions if one.is_closed])
        begins = [begin for begin, _ in covered]
        found = []
        for time in times:
            at = bisect_left(begins, time) - 1
            found.append(at >= 0 and time < covered[at][1])
        return found

    def _covered(self, sessions: Iterable[Session]) -> list[tuple[int, int]]:
        """The times that join one of these sessions, as intervals without their ends, in order and disjoint."""
        covered: list[tuple[int, int]] = []
        for one in sorted(sessions):
            begin, end = one.start - self.gap, one.end + self.gap
            if covered and begin < covered[-1][1]:
                begin, before = covered.pop()
                end = max(before, end)
            covered.append((begin, end))
        return covered

    def add(self, sessions: Sequence[Session], events: Sequence[Event], now: int, *, hold: bool) -> list[Session]:
        """The sessions with these messages, which may join several of them; ``hold``: time alone does not close them.

        All are merged in one pass in order of time: a key may have thousands of each behind a backlog.
        """
        late = self.late(sessions, [event.time for event in events])
        new = [
            Session(event.time, event.time, 1, int(is_late), event.values, self._due(event.time, now, hold=hold))
            for event, is_late in zip(events, late, strict=True)
        ]
        merged: list[Session] = []
        for one in sorted([*new, *(one for one in sessions if not one.is_closed)], key=lambda one: one.start):
            if merged and one.start - merged[-1].end < self.gap:
                merged[-1] = _joined(merged[-1], one)
            else:
                merged.append(one)
        return [*(one for one in sessions if one.is_closed), *merged]

    def pass_time(self, sessions: Iterable[Session], now: int) -> tuple[list[Session], list[Session]]:
        """The sessions that are kept, and those that are closed now."""
        kept: list[Session] = []
        closed: list[Session] = []
        for one in sessions:
            if one.due > now:
                kept.append(one)
            elif not one.is_closed and not one.is_postponed and now >= one.due + self.gap:
                kept.append(one._replace(due=now + self.gap, is_postponed=True))
            elif not one.is_closed:
                closed.append(one)
        return [*kept, *(self._remembered(one, now) for one in closed)], closed

    def close(self, sessions: Iterable[Session], until: int, now: int) -> tuple[list[Session], list[Session]]:
        """The same for a run that ends: open sessions whose last message is not later than ``until`` are closed."""
        kept: list[Session] = []
        closed: list[Session] = []
        for one in sessions:
            (closed if not one.is_closed and one.end <= until else kept).append(one)
        return [*kept, *(self._remembered(one, now) for one in closed)], closed

    def wait_again(self, sessions: Iterable[Session], now: int, *, hold: bool) -> list[Session]:
        """The sessions, with the open ones held, or waiting from now on."""
        return [
            one if one.is_closed else one._replace(due=self._due(one.end, now, hold=hold), is_postponed=False)
            for one in sessions
        ]

    def _due(self, end: int, now: int, *, hold: bool) -> int:
        return FOREVER if hold else max(end, now) + self.gap

    def _remembered(self, session: Session, now: int) -> Session:
        return session._replace(is_closed=True, due=now + self.remember)


def _joined(one: Session, other: Session) -> Session:
    """It is due when the later one is: that one was read last, or ends last."""
    return Session(
        min(one.start, other.start),
        max(one.end, other.end),
        one.messages + other.messages,
        one.late + other.late,
        tuple(map(EXACT.add, one.sums, other.sums)),
        max(one.due, other.due),
    )
