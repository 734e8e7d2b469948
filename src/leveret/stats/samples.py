"""Samples: rows of numbers by tick, and their rates.

A row is stored only if it differs from the previous one, so that idle objects cost nothing and the stored rows reach
further back. All rows of one object are in one array, used as a ring buffer.

    rows   | tick 12: 4 0 1 | tick 13: 9 0 2 | tick 20: 9 1 2 |
                                        at(15) is the row stored at 13

``details`` are the `_details` fields of RabbitMQ's management API: the rate, and on request the history.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from leveret.http.errors import BadRequest
from leveret.http.values import integer_of

UNKNOWN = -(1 << 62)  # a value that the previous run did not record; sums with it are negative as well
MOST_SAMPLES = 1_000  # samples of one column in one response
LONGEST = 365 * 24 * 3600

Row = tuple[int, ...]
RowAt = Callable[[int], Row]
Column = tuple[str, tuple[int, ...]]
"""The name of a column, and the positions in a row that are added up for it."""


class Samples:
    """The rows of the last ``most`` intervals or more. What was before a row that was dropped is unknown.

    ``goes_back``: before the first row the values were the same, not zero.
    """

    __slots__ = ("_before", "_first", "_most", "_rows", "_width", "latest")

    def __init__(self, width: int, most: int, *, goes_back: bool = False) -> None:
        self._rows = array("q")
        self._first = 0  # the oldest row, counted from the start of the array
        self._width = width + 1
        self._most = most + 1
        self._before: int | None = None if goes_back else 0  # each value before the first row; None: that of the row
        self.latest: Row = ()

    def add(self, tick: int, row: Row) -> None:
        if row == self.latest:
            return
        self.latest = row
        entry = array("q", (tick, *row))
        if len(self._rows) < self._most * self._width:
            self._rows.extend(entry)
            return
        start = self._first * self._width
        self._rows[start : start + self._width] = entry
        self._first = (self._first + 1) % self._most
        self._before = UNKNOWN

    def saved(self) -> bytes:
        """All rows, the oldest first, each after its tick."""
        start = self._first * self._width
        with memoryview(self._rows) as rows:
            return b"".join((rows[start:], rows[:start]))  # copied once: there may be megabytes

    def put_before(self, saved: bytes, shift: int) -> None:
        """Rows of a previous run, before those of this one; the oldest that do not fit are left out."""
        past, own = array("q", saved), array("q", self.saved())
        for place in range(0, len(past), self._width):
            past[place] += shift
        self._rows = (past + own)[-self._most * self._width :]
        self._first = 0

    def __len__(self) -> int:
        return len(self._rows) // self._width

    @property
    def changed_at(self) -> int:
        """The tick of the latest row."""
        return self._rows[self._place(len(self) - 1)] if self._rows else 0

    def at(self, tick: int) -> Row:
        """The row at this tick."""
        low, high = 0, len(self)
        while low < high:  # the first row after the tick
            middle = (low + high) // 2
            if self._rows[self._place(middle)] <= tick:
                low = middle + 1
            else:
                high = middle
        if low == 0 and self._before is not None:
            return (self._before,) * (self._width - 1)
        start = self._place(max(low - 1, 0))
        return tuple(self._rows[start + 1 : start + self._width])

    def first_reaching(self, column: int, number: int) -> int | None:
        """The first tick at which this column, which only grows, had reached the number; None if it has not."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self._rows[self._place(middle) + 1 + column] < number:
                low = middle + 1
            else:
                high = middle
        return self._rows[self._place(low)] if low < len(self) else None

    def _place(self, number: int) -> int:
        return (self._first + number) % self._most * self._width


class Window(NamedTuple):
    """The last ``age`` seconds, one sample each ``step``."""

    age: int
    step: int


class Windows(NamedTuple):
    """The requested windows of history: for counters, for queue lengths, and for measures of the node."""

    rates: Window | None = None
    lengths: Window | None = None
    node: Window | None = None


NO_WINDOWS = Windows()


def windows_of(query: Mapping[str, object]) -> Windows:
    """``msg_rates_age`` with ``msg_rates_incr``, ``lengths_age`` with ``lengths_incr``, ``node_stats_age`` with
    ``node_stats_incr``; both or none."""
    return Windows(*[_window_of(query, name) for name in ("msg_rates", "lengths", "node_stats")])


def _window_of(query: Mapping[str, object], name: str) -> Window | None:
    age, step = f"{name}_age", f"{name}_incr"
    if age not in query or step not in query:
        return None
    window = Window(integer_of(query, age, 1, LONGEST), integer_of(query, step, 1, LONGEST))
    if window.age // window.step >= MOST_SAMPLES:
        raise BadRequest(
            f"'{age}' of {window.age} with '{step}' of {window.step} are more than {MOST_SAMPLES} samples: "
            f"use a larger '{step}'"
        )
    return window


class Moment(NamedTuple):
    """A point in time, in milliseconds since 1970, and the tick of its sample."""

    timestamp: int
    tick: int


class Past(NamedTuple):
    """The last two ticks, the seconds between them, and the moments of the requested history at which samples were
    taken. Counters began at zero at the tick ``since``."""

    last: int
    before: int
    seconds: float
    moments: Sequence[Moment]  # the latest first
    age: int  # 0: no history is requested
    since: int


def details(columns: Sequence[Column], row_at: RowAt | None, past: Past) -> dict[str, Any]:
    """``NAME_details`` of each column; zero if there are no rows."""
    if row_at is None:
        return {f"{name}_details": _of_nothing(past) for name, _ in columns}
    last, before = row_at(past.last), row_at(past.before)
    rows = [row_at(moment.tick) for moment in past.moments]
    told: dict[str, Any] = {}
    for name, places in columns:
        rate = (_sum(last, places) - _sum(before, places)) / past.seconds if past.seconds else 0.0
        told[f"{name}_details"] = _detail(rate, [_sum(row, places) for row in rows], past)
    return told


def values(columns: Sequence[Column], row: Sequence[int]) -> dict[str, Any]:
    return {name: _sum(row, places) for name, places in columns}


def _of_nothing(past: Past) -> dict[str, Any]:
    return _detail(0.0, [0] * len(past.moments), past)


def _detail(rate: float, samples: list[int], past: Past) -> dict[str, Any]:
    if not past.age:
        return {"rate": rate}
    known = [(sample, moment) for sample, moment in zip(samples, past.moments, strict=True) if sample >= 0]
    own = [sample for sample, moment in known if moment.tick >= past.since]
    return {
        "avg": sum([sample for sample, _ in known]) / len(known) if known else 0.0,
        "avg_rate": (own[0] - own[-1]) / past.age if own else 0.0,
        "rate": rate,
        "samples": [{"sample": sample, "timestamp": moment.timestamp} for sample, moment in known],
    }


def _sum(row: Sequence[int], places: tuple[int, ...]) -> int:
    return row[places[0]] if len(places) == 1 else sum([row[place] for place in places])
