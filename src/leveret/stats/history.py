"""Histories: samples of the last minutes, every five seconds, and one per minute for longer.

The node and the first MOST_VHOSTS virtual hosts have ten minutes and a day, further virtual hosts ten minutes and eight
hours. Queues, exchanges, connections and channels that were used have ten minutes and an hour: the first MOST_LONG of
each type; further ones have five minutes. With an hour, a queue in use all the time takes 18 KB, one that was used once
less than 1 KB, one that was never used nothing.

Those of the node and of virtual hosts are saved for the next run (api/saved_state.py). Rows, columns and virtual hosts
are bounded, so the file is. Ticks of
a previous run are negative in this one. ``decoded`` raises ValueError for a history that cannot be read. One of another
version may have other columns: those that only this version has are unknown, which charts show as a gap.
"""

from __future__ import annotations

import sys
import zlib
from array import array
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from leveret.stats.samples import UNKNOWN, Row, RowAt, Samples, Window
from leveret.stats.totals import NODE, TOTAL, VHOST, Sampled

INTERVAL = 5.0  # seconds between two samples
RECENT = 120  # samples, one per interval
DAY, WORKDAY, HOUR = 1440 + 15, 480 + 5, 60  # samples, one per minute; the last one asked for may be a step ago
FEWER = 60  # samples, one per interval, of the many objects that have no others
MOST_LONG = 2_000  # objects of each type that have an hour
MINUTE = 60.0
PER_MINUTE = int(MINUTE / INTERVAL)  # samples
LONGEST_GAP = PER_MINUTE  # ticks between two samples; a longer time is shown as a gap
MOST_SPANS = 100  # times of sampling, with a gap between each two
MOST_VHOSTS = 50  # that have a day, which is saved

VERSION = 1
LARGEST = 16 << 20  # bytes of a saved history, before compression

Rows = tuple[bytes, bytes]  # recent rows, and those of minutes, each with its tick


class SavedHistory(NamedTuple):
    epoch: float  # seconds since 1970 at tick 0
    spans: Sequence[Sequence[int]]
    node: Rows
    vhosts: dict[str, Rows]


class _File(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    byte_order: str
    columns: tuple[str, ...]
    epoch: float
    spans: list[tuple[int, int]]
    node: Rows
    vhosts: dict[str, Rows]
    vhost_columns: tuple[str, ...] = TOTAL  # as in files without this field


def encoded(saved: SavedHistory) -> bytes:
    file = _File(VERSION, sys.byteorder, NODE, **saved._asdict(), vhost_columns=VHOST)
    return zlib.compress(msgspec.msgpack.encode(file), 1)


def decoded(data: bytes) -> SavedHistory:
    unpacked = zlib.decompressobj()
    try:
        text = unpacked.decompress(data, LARGEST)
        file = msgspec.msgpack.decode(text, type=_File)
    except (zlib.error, msgspec.MsgspecError) as problem:
        raise ValueError(str(problem)) from problem
    if (file.version, file.byte_order, file.columns[: len(TOTAL)]) != (VERSION, sys.byteorder, TOTAL):
        raise ValueError("written by another version of Leveret")
    node = _in_our_columns(file.node, file.columns, NODE)
    vhosts = {name: _in_our_columns(rows, file.vhost_columns, VHOST) for name, rows in file.vhosts.items()}
    return SavedHistory(file.epoch, file.spans, node, vhosts)


def _in_our_columns(rows: Rows, columns: Sequence[str], ours: Sequence[str]) -> Rows:
    """Rows with these columns, with the columns of this version."""
    if any(len(part) % ((len(columns) + 1) * array("q").itemsize) for part in rows):
        raise ValueError("rows are incomplete")
    recent, minutes = rows
    return rows if columns == ours else (_moved(recent, columns, ours), _moved(minutes, columns, ours))


def _moved(rows: bytes, columns: Sequence[str], ours: Sequence[str]) -> bytes:
    places = {name: place for place, name in enumerate(columns, 1)}  # the tick is at 0
    numbers, width = array("q", rows), len(columns) + 1
    moved = array("q")
    for start in range(0, len(numbers), width):
        moved.append(numbers[start])
        moved.extend([numbers[start + places[name]] if name in places else UNKNOWN for name in ours])
    return moved.tobytes()


class Spans:
    """The ticks of the samples that were taken, as spans without a gap: a list of [first, last]."""

    def __init__(self) -> None:
        self.spans: list[list[int]] = []

    def add(self, tick: int, longest_gap: int) -> None:
        if self.spans and tick - self.spans[-1][1] <= longest_gap:
            self.spans[-1][1] = tick
            return
        self.spans.append([tick, tick])
        del self.spans[:-MOST_SPANS]

    def __contains__(self, tick: int) -> bool:
        return any(first <= tick <= last for first, last in reversed(self.spans))

    def put_before(self, spans: Sequence[Sequence[int]], shift: int) -> None:
        self.spans[:0] = [[first + shift, last + shift] for first, last in spans]
        del self.spans[:-MOST_SPANS]

    @property
    def current(self) -> int:
        """The first tick of the current span."""
        return self.spans[-1][0] if self.spans else 0


class History:
    """Samples of one object. ``minutes``: how many, one per minute."""

    __slots__ = ("_minute", "_minutes", "recent")

    def __init__(self, width: int, *, minutes: int, goes_back: bool) -> None:
        self.recent = Samples(width, RECENT if minutes else FEWER, goes_back=goes_back)
        self._minutes = Samples(width, minutes, goes_back=goes_back) if minutes else None
        self._minute = -1

    @property
    def is_long(self) -> bool:
        return self._minutes is not None

    def add(self, tick: int, row: Row) -> None:
        self.recent.add(tick, row)
        if self._minutes is not None and tick // PER_MINUTE != self._minute:
            self._minute = tick // PER_MINUTE
            self._minutes.add(tick, row)

    def saved(self) -> Rows:
        return self.recent.saved(), b"" if self._minutes is None else self._minutes.saved()

    def put_before(self, rows: Rows, shift: int) -> None:
        """Rows of a previous run, whose ticks are ``shift`` less in this one."""
        for samples, saved in zip((self.recent, self._minutes), rows, strict=True):
            if samples is not None:
                samples.put_before(saved, shift)

    def row_at(self, window: Window | None) -> RowAt:
        is_long = window is not None and window.age > RECENT * INTERVAL
        return self._minutes.at if is_long and self._minutes is not None else self.recent.at


class ObjectHistories:
    """The histories of queues, exchanges, connections and channels that were used. Each sample is a call of ``add`` for
    every object, and one of ``forget_missed``."""

    def __init__(self) -> None:
        self.by_object: dict[Sampled, History] = {}
        self._long: Counter[type] = Counter()
        self._met: set[Sampled] = set()

    def add(self, thing: Sampled, tick: int, row: Row, *, goes_back: bool) -> None:
        history = self.by_object.get(thing)
        if history is None:
            if not any(row):
                return  # the object is unchanged since its creation
            history = self.by_object[thing] = self._begin(type(thing), len(row), goes_back)
        self._met.add(thing)
        history.add(tick, row)

    def _begin(self, kind: type, width: int, goes_back: bool) -> History:
        is_long = self._long[kind] < MOST_LONG
        self._long[kind] += is_long
        return History(width, minutes=HOUR if is_long else 0, goes_back=goes_back)

    def forget_missed(self) -> None:
        """Forget objects that were not in this sample: they are gone."""
        if len(self._met) < len(self.by_object):
            self.by_object = {thing: history for thing, history in self.by_object.items() if thing in self._met}
            self._long = Counter(type(thing) for thing, history in self.by_object.items() if history.is_long)
        self._met = set()

    def samples_of(self, thing: Sampled) -> Samples | None:
        history = self.by_object.get(thing)
        return None if history is None else history.recent

    def row_at(self, thing: Sampled, window: Window | None) -> RowAt | None:
        history = self.by_object.get(thing)
        return None if history is None else history.row_at(window)
