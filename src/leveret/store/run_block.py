"""A stretch of the runs of a lane, as packed columns; see store/run_index.py.  Hot path."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import NamedTuple

OFFSET_BITS = 32
OFFSETS = (1 << OFFSET_BITS) - 1


class Run(NamedTuple):
    """Consecutive messages of a lane that lie one after the other in one record."""

    sequence: int  # of the first message
    number: int
    segment: int
    offset: int  # of the record within the segment
    skip: int  # messages of the record, in this lane, that come before the first one
    size: int  # bytes of content of these messages


class Block:
    """A stretch of the runs; those from ``start`` on are live. A frozen block belongs to a snapshot: it is replaced by
    a copy before it changes."""

    __slots__ = ("columns", "is_frozen", "numbers", "places", "sequences", "sizes", "skips", "start")

    def __init__(self, columns: tuple[array[int], ...] | None = None) -> None:
        self.columns = columns or (array("Q"), array("Q"), array("I"), array("I"), array("Q"))
        self.sequences, self.places, self.skips, self.numbers, self.sizes = self.columns
        self.start = 0
        self.is_frozen = False

    def copy(self) -> Block:
        """The live runs."""
        return Block(tuple([column[self.start :] for column in self.columns]))

    def __len__(self) -> int:
        return len(self.sequences) - self.start

    def overlap(self, sequence: int, end: int) -> tuple[int, int]:
        """The runs [first, last) that have messages in [sequence, end)."""
        sequences = self.sequences
        first = bisect_right(sequences, sequence, self.start)
        if first > self.start and sequences[first - 1] + self.numbers[first - 1] > sequence:
            first -= 1
        return first, bisect_left(sequences, end, first)

    def piece(self, at: int, sequence: int, end: int) -> Run:
        """The part of the run ``at`` in [sequence, end)."""
        first = self.sequences[at]
        number = self.numbers[at]
        place = self.places[at]
        skip = self.skips[at]
        whole = size = self.sizes[at]
        if end < first + number:
            size = whole * (end - first) // number
        else:
            end = first + number
        if sequence > first:
            size -= whole * (sequence - first) // number
            skip += sequence - first
        else:
            sequence = first
        # The same as Run(...), in half the time.
        return tuple.__new__(Run, (sequence, end - sequence, place >> OFFSET_BITS, place & OFFSETS, skip, size))

    def runs(self, first: int, last: int) -> list[Run]:
        """The runs [first, last), whole."""
        columns = [column[first:last] for column in self.columns]
        return [
            tuple.__new__(Run, (sequence, number, place >> OFFSET_BITS, place & OFFSETS, skip, size))
            for sequence, place, skip, number, size in zip(*columns, strict=True)
        ]

    def pieces(self, first: int, last: int, sequence: int, end: int) -> list[Run]:
        """The parts of the runs [first, last), all of which overlap, in [sequence, end)."""
        if last - first == 1:
            return [self.piece(first, sequence, end)]
        found = self.runs(first, last)
        found[0] = self.piece(first, sequence, end)
        found[-1] = self.piece(last - 1, sequence, end)
        return found

    def remove(self, first: int, last: int, sequence: int, end: int) -> None:
        """Remove [sequence, end) from the runs [first, last), all of which overlap; a part of both ends may stay."""
        right = self._behind(last - 1, end)
        if self.sequences[first] < sequence:
            left = sequence - self.sequences[first]
            self.sizes[first] = self.sizes[first] * left // self.numbers[first]
            self.numbers[first] = left
            first += 1
        if right and first == last:  # both parts of one run stay
            self.insert(last, right)
            return
        if right:
            last -= 1
            for column, value in zip(self.columns, right, strict=True):
                column[last] = value
        if first == self.start:
            self.start = last
        elif first < last:
            for column in self.columns:
                del column[first:last]

    def _behind(self, at: int, end: int) -> tuple[int, ...] | None:
        """The part of the run ``at`` from ``end`` on, as values for the columns."""
        done = end - self.sequences[at]
        number = self.numbers[at]
        if done >= number:
            return None
        size = self.sizes[at]
        return end, self.places[at], self.skips[at] + done, number - done, size - size * done // number

    def insert(self, at: int, values: tuple[int, ...]) -> None:
        for column, value in zip(self.columns, values, strict=True):
            column.insert(at, value)

    def join_before(self, at: int) -> None:
        """Make one run of the run ``at`` and the one before, if it continues that one."""
        before = at - 1
        number = self.numbers[before]
        next_place = (self.places[before], self.sequences[before] + number, self.skips[before] + number)
        if (self.places[at], self.sequences[at], self.skips[at]) == next_place:
            self.numbers[before] = number + self.numbers[at]
            self.sizes[before] += self.sizes[at]
            for column in self.columns:
                del column[at]

    def compact(self) -> None:
        for column in self.columns:
            del column[: self.start]
        self.start = 0

    def split(self) -> Block:
        """Give the later half to a new block."""
        half = self.start + len(self) // 2
        later = Block(tuple(column[half:] for column in self.columns))
        for column in self.columns:
            del column[half:]
        return later

    def take_over(self, later: Block) -> None:
        for column, more in zip(self.columns, later.columns, strict=True):
            column.extend(more[later.start :])
