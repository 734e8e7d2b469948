"""Frees disk space in the background.

A segment that is mostly dead is read slice by slice in a worker; what still counts is written anew into the current
segment: messages that some queue holds, settles about segments that exist, returns of messages that are live. Then the
old segment has no live records and is removed in a batch after the copies: so a crash at any moment leaves the old
records, the copies, or both. Both do no harm: a message is identified by its queue, lane and sequence, not by its
place, and a settle counts for every copy.

    segment 7   [A  .  .  B  .  .  s5 .  . ]          A, B live; s5: a settle about segment 5, which exists
    current     [ ... A B s5 ]                        then segment 7 is removed

Deleting a message writes a SETTLE entry and never changes what was written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from leveret.logs import get_log
from leveret.store.batch import Draft
from leveret.store.disk import ReadableDisk, lacks_files
from leveret.store.drafts import draft_returns
from leveret.store.journal import Journal
from leveret.store.lane_log import lane_key
from leveret.store.log import Placement
from leveret.store.records import (
    PUBLISH,
    RETURNS,
    SEGMENT_HEAD,
    SETTLE,
    Entry,
    Published,
    Record,
    copied_body,
    entries_body,
    read_entries,
    read_publish,
)
from leveret.store.scan import read_slice, scan
from leveret.store.writer import segment_path

SLICE = 1 << 20  # bytes read, and at most copied, at a time

InWorker = Callable[[Callable[[], object], Callable[[object], None]], None]


class Slice(NamedTuple):
    """A part of a segment, taken apart in the worker. ``next`` is None behind the last."""

    data: bytes
    publishes: list[tuple[int, Published]]  # with the offset of the record in the segment
    settles: list[Entry]
    returns: list[Entry]
    next: int | None


class Reclaim:
    """One segment at a time. ``in_worker(job, done)`` runs the job elsewhere and calls done with its result here."""

    def __init__(self, journal: Journal, disk: ReadableDisk, in_worker: InWorker) -> None:
        self.segment: int | None = None  # being reclaimed
        self._carried: set[tuple[int, int]] = set()  # (lane, sequence) of returns that were written again
        self._journal = journal
        self._disk = disk
        self._in_worker = in_worker
        self._log = get_log("store")

    def consider(self) -> None:
        """Begin with a segment if one is worth it."""
        journal = self._journal
        if self.segment is not None or not self._may_copy:
            return
        self.segment = journal.segments.to_reclaim()
        if self.segment is not None:
            self._carried.clear()
            self._fetch(SEGMENT_HEAD.size)

    @property
    def _may_copy(self) -> bool:
        return self._journal.failure is None and self._journal.batches.held is None and not self._journal.is_stopped

    def _fetch(self, offset: int) -> None:
        segment = self.segment
        assert segment is not None
        fetch = fetch_sound if self._journal.segments[segment].is_damaged else fetch_slice
        self._in_worker(lambda: fetch(self._disk, segment, offset), self._fetched)

    def _fetched(self, result: object) -> None:
        journal, id_ = self._journal, self.segment
        assert id_ is not None
        if id_ not in journal.segments or journal.segments[id_].is_going or not self._may_copy:
            self.segment = None  # empty meanwhile, or no space for copies
            return
        if isinstance(result, OSError) and lacks_files(result):
            self.segment = None  # considered again after the next batch
            return
        if not isinstance(result, Slice):
            self._log.error("segment cannot be reclaimed", segment=id_, reason=str(result))
            journal.segments[id_].is_stuck = True
            self.segment = None
            return
        for at, published in result.publishes:
            for draft in self._living(published, result.data, id_, at):
                journal.batches.place([draft])
        self._keep_entries(result)
        if result.next is not None:
            journal.hand_over()
            self._fetch(result.next)
            return
        self._finish(id_)

    def _living(self, published: Published, data: bytes, segment: int, at: int) -> list[Draft]:
        """Copies of what some queue still holds; messages that are in the same places, next to each other, share one.

        A place names consecutive sequences only, hence the cutting.
        """
        homes: dict[int, list[tuple[Placement, int]]] = {}  # by message: the places it is in, with its sequence
        for place in published.places:
            log = self._journal.lanes.get(lane_key(place.queue, place.lane))
            runs = [] if log is None else log.index.live(place.sequence, place.number)
            members = published.members(place) if runs else ()
            for run in runs:
                if (run.segment, run.offset) == (segment, at):
                    for sequence in range(run.sequence, run.sequence + run.number):
                        homes.setdefault(members[sequence - place.sequence], []).append((place, sequence))
        drafts: list[Draft] = []
        stretch: list[int] = []
        for n in sorted(homes):
            if stretch and not _continues(homes[stretch[-1]], homes[n]):
                drafts.append(_copy(published, data, stretch, homes, (segment, at)))
                stretch = []
            stretch.append(n)
        if stretch:
            drafts.append(_copy(published, data, stretch, homes, (segment, at)))
        return drafts

    def _keep_entries(self, result: Slice) -> None:
        journal = self._journal
        settles = [entry for entry in result.settles if entry.about in journal.segments and entry.about != self.segment]
        if settles:
            journal.batches.place([Draft(SETTLE, [entries_body(settles)], entries=settles)])
        returns: list[Entry] = []
        for queue, lane, sequence, number, _ in result.returns:
            log = journal.lanes.get(lane_key(queue, lane))
            if log is not None and log.tries:
                for key in range(sequence, sequence + number):
                    tries, recorded_in = log.tries.get(key, (0, 0))
                    if recorded_in == self.segment and (lane_key(queue, lane), key) not in self._carried:
                        self._carried.add((lane_key(queue, lane), key))
                        returns.append(Entry(queue, lane, key, 1, tries))
        if returns:
            journal.batches.place([draft_returns(returns)])

    def _finish(self, id_: int) -> None:
        segment = self._journal.segments[id_]
        if segment.live:
            segment.is_stuck = True  # it has live messages that could not be read: keep the file
        else:
            self._journal.batches.next.emptied.append(id_)
        self.segment = None
        self._journal.hand_over()


def _continues(before: list[tuple[Placement, int]], after: list[tuple[Placement, int]]) -> bool:
    return [(place, sequence + 1) for place, sequence in before] == after


def _copy(
    published: Published,
    data: bytes,
    members: list[int],
    homes: dict[int, list[tuple[Placement, int]]],
    origin: tuple[int, int],
) -> Draft:
    placements = [place._replace(sequence=sequence, number=len(members)) for place, sequence in homes[members[0]]]
    parts = copied_body(published, data, members, placements)
    home = (*origin, tuple(place.sequence for place, _ in homes[members[0]]))
    return Draft(PUBLISH, parts, placements=placements, home=home)


def fetch_slice(disk: ReadableDisk, segment: int, offset: int) -> Slice:
    """Read and check the records from ``offset`` on; Damage if one of them is invalid."""
    path = segment_path(segment)
    data, records = read_slice(disk, path, segment, offset, SLICE)
    end = offset + (records[-1].end if records else 0)
    return _taken_apart(data, records, offset, end if end < disk.size(path) else None)


def fetch_sound(disk: ReadableDisk, segment: int, offset: int) -> Slice:
    """All sound records of a segment that is known to be damaged."""
    path = segment_path(segment)
    data = disk.read(path, 0, disk.size(path))
    records = [item for item in scan(data, segment, offset) if isinstance(item, Record)]
    return _taken_apart(data, records, 0, None)


def _taken_apart(data: bytes, records: list[Record], base: int, following: int | None) -> Slice:
    found = Slice(data, [], [], [], following)
    for record in records:
        if record.kind == PUBLISH:
            found.publishes.append((base + record.at, read_publish(data, record)))
        elif record.kind == SETTLE:
            found.settles.extend(read_entries(data, record))
        elif record.kind in RETURNS:
            found.returns.extend(read_entries(data, record))
    return found
