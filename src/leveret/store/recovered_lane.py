"""One lane of a queue as recovery finds it.

The records of a lane are gathered first and resolved together (``settle``), because a settle overrides every copy of a
message, wherever it is. With a checkpoint only the records behind it are gathered:

- a run above the checkpoint's tail holds new messages, and is resolved as in a full scan;
- a run below it is a copy that reclaim made of messages that were live: they lie here if their segment is gone, else
  the older place counts, as in a full scan;
- settles apply to both;
- what lies in a segment that is gone and has no copy was settled, with the settle gone too.
"""

from __future__ import annotations

from bisect import bisect_left

from leveret.store.checkpoint import LoadedLane
from leveret.store.deadline_columns import DeadlineColumns
from leveret.store.lane_log import Tries
from leveret.store.records import ENTRY, Damage, Entry
from leveret.store.returns import MOST_TRIES
from leveret.store.run_block import Run
from leveret.store.run_index import RunIndex
from leveret.store.segments import Segments


class RecoveredLane:
    """``index`` is filled by ``settle``."""

    def __init__(self, queue: int, lane: int, base: LoadedLane | None = None) -> None:
        self.queue = queue
        self.lane = lane
        self.index = RunIndex()
        self.tail = 1  # the next sequence: above all that any record names
        self.tries: Tries = {}
        self.deadlines = DeadlineColumns()
        self.redelivered_below = 1  # live messages below this were delivered before
        self.runs: list[Run] = []
        self.settled: list[tuple[int, int, int]] = []  # (sequence, stop, the segment that the entry is about)
        self.returns: list[tuple[Entry, int]] = []  # with the segment
        self.owed: list[Entry] = []  # settles that must be written again before any file is removed
        if base is not None:
            self.tail, self.redelivered_below, self.index, self.tries, self.deadlines = base
        self.covered = self.tail  # the checkpoint has all messages below this

    def settle(self, segments: Segments, lost: frozenset[int] = frozenset()) -> None:
        """Build the index of what is live. ``lost``: segments that the checkpoint names and that are gone. Damage if
        the checkpoint does not fit."""
        has_changed = bool(self.runs or self.settled or self.returns or lost)
        self.settled.sort()
        self.runs.sort(key=lambda run: (run.sequence, run.segment, run.offset))
        if self.covered > 1 and has_changed:
            self._settle_covered(segments)
        self._settle_runs(segments)
        for run in self.index.runs_in(lost):
            self.index.take(run.sequence, run.number)
        if has_changed:
            self._resolve_returns(segments)
            if self.deadlines:
                self.deadlines.keep(self.index)
        for _, segment in self.tries.values():
            segments[segment].returns += ENTRY.size
        self.runs, self.settled, self.returns = [], [], []

    # ---- what the checkpoint has

    def _settle_covered(self, segments: Segments) -> None:
        new = bisect_left(self.runs, self.covered, key=lambda run: run.sequence)
        for run in self.runs[:new]:
            self._place_copy(run, segments)
        del self.runs[:new]
        for sequence, stop, about in self.settled:
            for piece in self.index.take(sequence, stop - sequence):
                if piece.segment in segments:
                    segments[piece.segment].lose(piece.number, piece.size)
                    if piece.segment != about:
                        self._owe(piece, piece.sequence, piece.sequence + piece.number)

    def _place_copy(self, run: Run, segments: Segments) -> None:
        found = self.index.live(run.sequence, run.number)
        if sum([piece.number for piece in found]) != run.number:
            raise Damage(f"segment {run.segment} has a copy of messages that were settled")
        for piece in found:
            if piece.segment not in segments:
                skip = piece.sequence - run.sequence
                self.index.move(piece.sequence, piece.number, run.segment, run.offset, skip)
                segments[run.segment].gain(piece.number, piece.size)
            elif piece.segment != run.segment:
                _prefer(piece.segment, run.segment, segments)

    # ---- what is behind it

    def _settle_runs(self, segments: Segments) -> None:
        settled = iter(self.settled)
        gone = next(settled, None)
        reached = 0
        holder = 0
        for run in self.runs:
            start, stop = max(run.sequence, reached), run.sequence + run.number
            if start > run.sequence:
                self._owe_all(run, min(start, stop))
            if run.sequence < reached and run.segment != holder:
                _prefer(holder, run.segment, segments)
            if stop > reached:
                reached, holder = stop, run.segment
            while start < stop:
                while gone is not None and gone[1] <= start:
                    gone = next(settled, None)
                if gone is not None and gone[0] <= start:
                    if gone[2] != run.segment:
                        self._owe(run, start, min(stop, gone[1]))
                    start = min(stop, gone[1])
                    continue
                upto = stop if gone is None else min(stop, gone[0])
                self._keep(run, start, upto, segments)
                start = upto

    def _resolve_returns(self, segments: Segments) -> None:
        """The highest delivery count of each live message, and which were delivered before."""
        self.tries = {
            key: known for key, known in self.tries.items() if known[1] in segments and self.index.live(key, 1)
        }
        for (_, _, sequence, number, tries), segment in self.returns:
            self.redelivered_below = max(self.redelivered_below, self.index.live_stop(sequence, number))
            if not tries:
                continue  # delivered once, in a run without a clean shutdown; perhaps all of a long backlog
            for piece in self.index.live(sequence, number):
                for key in range(piece.sequence, piece.sequence + piece.number):
                    known = self.tries.get(key, (0, 0))
                    self.tries[key] = max((tries, segment), known, key=lambda each: (each[0] & MOST_TRIES, *each))

    def _owe_all(self, run: Run, stop: int) -> None:
        """A copy of what another segment holds: whatever is settled of it up to ``stop`` needs a settle of its own."""
        for sequence, end, about in self.settled[: bisect_left(self.settled, (stop,))]:
            if end > run.sequence and about != run.segment:
                self._owe(run, max(sequence, run.sequence), min(end, stop))

    def _owe(self, run: Run, start: int, stop: int) -> None:
        """Settled by an entry about another segment, whose end would be the end of the entry."""
        self.owed.append(Entry(self.queue, self.lane, start, stop - start, run.segment))

    def _keep(self, run: Run, start: int, stop: int, segments: Segments) -> None:
        number = stop - start
        size = run.size if number == run.number else run.size * number // run.number
        self.index.append(start, number, run.segment, run.offset, start - run.sequence, size)
        segments[run.segment].gain(number, size)

    # ---- for the broker (backlog.backlog.LeftLane)

    def first(self) -> int | None:
        return self.index.first()

    def number(self) -> int:
        return len(self.index)

    def size(self) -> int:
        return self.index.bytes


def _prefer(holder: int, other: int, segments: Segments) -> None:
    """Both have a copy. Settles name the holder, so the other must be removed first."""
    segments[holder].after.add(other)
    segments[other].is_damaged = True
