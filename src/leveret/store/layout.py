"""Where records go: the current segment, the accounting of all segments, the index of every lane.  Hot path.

A snapshot for a checkpoint begins with a new epoch: a lane that is still of an older one is frozen before it changes.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from leveret.store.batch import Batch, Draft, Group, Noted, Settled
from leveret.store.lane_log import MOST_QUICK, LaneLog, lane_key
from leveret.store.log import Placement
from leveret.store.records import (
    END_OF_GROUP,
    ENTRY,
    PUBLISH,
    RETURNS,
    SEGMENT_HEAD,
    SETTLE,
    Entry,
    place_in_group,
    sealed,
)
from leveret.store.segments import Segment, Segments

MANY = 10_000  # messages settled at once: worth a closer look whether that is all there are


class Layout:
    def __init__(self, segments: Segments) -> None:
        self.segments = segments
        self.lanes: dict[int, LaneLog] = {}  # by lane_key()
        self.next_segment = 1
        self.next_number = 1  # of records
        self.owed: list[Entry] = []  # settles about places that came after the settling
        self.highest_queue = 0  # id in any record
        self.epoch = 0  # of the newest snapshot
        self.placed = 0  # bytes of records, with those that the start had to read
        self.work = 0  # the same, in records and entries
        self._current: Segment | None = None

    def lane(self, queue: int, lane: int) -> LaneLog:
        self.highest_queue = max(self.highest_queue, queue)
        return self.lanes.setdefault(lane_key(queue, lane), LaneLog(self.epoch))

    def _changing(self, key: int) -> LaneLog | None:
        """The lane, about to change."""
        log = self.lanes.get(key)
        if log is not None and log.epoch != self.epoch:
            log.freeze(self.epoch)
        return log

    def place(self, group: Group, batch: Batch) -> None:
        """Give the records of a group their places, all in one segment."""
        segment = self._current
        size = sum([draft.size for draft in group])
        if segment is None or (segment.size + size > self.segments.full_size and segment.size > SEGMENT_HEAD.size):
            segment = self.roll()
        last = len(group) - 1
        self.placed += size
        for place, draft in enumerate(group):
            flags = END_OF_GROUP if place == last else 0
            buffers = sealed(
                draft.kind, flags, place_in_group(place), self.next_number, draft.parts, segment.id, segment.size
            )
            batch.write(segment.id, buffers)
            self._enter(draft, segment, segment.size, batch)
            self.next_number += 1
            self.work += 1 + len(draft.entries)
            segment.size += draft.size
        batch.groups.append(group)

    def _enter(self, draft: Draft, segment: Segment, offset: int, batch: Batch) -> None:
        """Update the index and the segment's accounting."""
        if draft.kind == PUBLISH:
            if draft.origin is not None:
                self._move(draft, segment, offset)
            else:
                for place, size in zip(draft.placements, draft.sizes, strict=True):
                    log = self.lanes.get(place[0] << 8 | place[1])
                    if log is not None:
                        if log.epoch != self.epoch:
                            log.freeze(self.epoch)
                        log.index.append(place[2], place[3], segment.id, offset, 0, size)
                        log.tail = place[2] + place[3]
                        segment.gain(place[3], size)
                    segment.content += size
                if draft.deadlines:
                    self._note_deadlines(draft)
            draft.origin = (segment.id, offset)
        elif draft.kind == SETTLE:
            segment.marks += draft.size
            for entry in draft.entries:
                if entry.about != segment.id and entry.about in self.segments:
                    segment.needs[entry.about] = segment.needs.get(entry.about, 0) + ENTRY.size
        elif draft.kind in RETURNS:
            segment.marks += draft.size
            for entry in draft.entries:
                self._note_return(entry, segment, batch)

    def _note_deadlines(self, draft: Draft) -> None:
        for key, deadline, sequence in draft.deadlines:
            log = self.lanes.get(key)
            if log is not None:
                log.deadlines.add(deadline, sequence)

    def _note_return(self, entry: Entry, segment: Segment, batch: Batch) -> None:
        """The newest return of a message is the one that counts, once it is written."""
        queue, lane, sequence, number, tries = entry
        log = self._changing(lane_key(queue, lane))
        if log is None:
            return
        if not tries:
            log.redelivered_below = max(log.redelivered_below, log.index.live_stop(sequence, number))
            return
        for run in log.index.live(sequence, number):
            for key in range(run.sequence, run.sequence + run.number):
                batch.noted.append(Noted(lane_key(queue, lane), key, segment.id, log.tries.get(key)))
                log.tries[key] = (tries, segment.id)
                segment.returns += ENTRY.size

    def _move(self, draft: Draft, segment: Segment, offset: int) -> None:
        """From where they were to here. Of a record that is written again, some may have been settled meanwhile, by
        settles about the old place: this one needs its own."""
        assert draft.origin is not None
        if draft.origin[0] != segment.id and draft.origin[0] in self.segments:
            segment.after.add(draft.origin[0])
        for place in draft.placements:
            log = self._changing(lane_key(place.queue, place.lane))
            if log is None:
                continue
            upto = place.sequence
            for run in log.index.live(place.sequence, place.number):
                if (run.segment, run.offset) == draft.origin:
                    log.index.move(run.sequence, run.number, segment.id, offset, run.sequence - place.sequence)
                    self.segments[run.segment].lose(run.number, run.size)
                    segment.gain(run.number, run.size)
                    segment.content += run.size
                self._owe(place, upto, run.sequence, segment.id)
                upto = run.sequence + run.number
            self._owe(place, upto, place.sequence + place.number, segment.id)

    def _owe(self, place: Placement, start: int, stop: int, segment: int) -> None:
        if start < stop:
            self.owed.append(Entry(place.queue, place.lane, start, stop - start, segment))

    def finish(self, batch: Batch) -> None:
        """The batch is done: what it replaced counts no more, what it removed is gone."""
        for id_ in batch.emptied:
            if id_ in self.segments:
                self.segments[id_].needs.clear()
        self.settle_returns(batch.noted)
        for id_ in batch.emptied:
            if id_ in self.segments and (self.segments[id_].live or self.segments[id_].returns):
                self.segments[id_].is_stuck = True  # copying it again would not help
        for id_ in batch.removals:
            if id_ in batch.kept:
                self.segments[id_].is_stuck = True
            else:
                self.segments.remove(id_)
        if batch.unpins:
            self.segments.unpin()

    def pin(self, group: Group) -> None:
        """The group waits: what it settles must not be lost before it is written."""
        for draft in group if len(group) > 1 else ():
            for entry in draft.entries if draft.kind == SETTLE else ():
                if entry.about in self.segments:
                    self.segments[entry.about].is_pinned = True

    def settle_returns(self, noted: list[Noted]) -> None:
        """These are written: those that they replace count no more."""
        for _, _, _, before in noted:
            if before is not None:
                self.segments[before[1]].returns -= ENTRY.size

    def undo_returns(self, noted: list[Noted]) -> None:
        """These are not written: what was known before still counts, unless the message was settled meanwhile."""
        for key, sequence, segment, before in reversed(noted):
            log = self._changing(key)
            if log is None or sequence not in log.tries:
                self.settle_returns([Noted(key, sequence, segment, before)])
                continue
            self.segments[segment].returns -= ENTRY.size
            if before is None:
                del log.tries[sequence]
            else:
                log.tries[sequence] = before

    def move_back(self, draft: Draft) -> None:
        """A copy will not be written: its messages are where they were."""
        assert draft.home is not None
        segment, offset, sequences = draft.home
        for place, sequence in zip(draft.placements, sequences, strict=True):
            log = self._changing(lane_key(place.queue, place.lane))
            if log is None:
                continue
            for run in log.index.live(place.sequence, place.number):
                if (run.segment, run.offset) == draft.origin:
                    log.index.move(run.sequence, run.number, segment, offset, run.sequence - sequence)
                    self.segments[run.segment].lose(run.number, run.size)
                    self.segments[segment].gain(run.number, run.size)
        if draft.origin is not None and draft.origin[0] in self.segments:
            self.segments[segment].after.add(draft.origin[0])  # the copy may be on disk all the same

    @property
    def is_between(self) -> bool:
        """No segment is written."""
        return self._current is None

    @property
    def end(self) -> tuple[int, int]:
        """Segment and offset of what comes next."""
        return (self.next_segment, 0) if self._current is None else (self._current.id, self._current.size)

    # ---- what leaves

    def count_settled(self, settles: list[Settled]) -> set[int]:
        """The receipts that need not be waited for: all they stand for was settled before they were granted."""
        early: set[int] = set()
        by_lane: dict[int, list[tuple[int, int]]] = {}
        for queue, lane, sequence, number in settles:
            key = queue << 8 | lane
            log = self.lanes.get(key)
            if log is not None and log.open and sequence + number > log.open[0][0]:
                by_lane.setdefault(key, []).append((sequence, sequence + number))
        for key, ranges in by_lane.items():
            ranges.sort()
            at = 0
            lane_log = self.lanes[key]
            for start, stop, append in lane_log.open:
                while at < len(ranges) and ranges[at][1] <= start:
                    at += 1
                if at == len(ranges):
                    break
                for sequence, end in islice(ranges, at, None):
                    if sequence >= stop:
                        break
                    append.left -= min(stop, end) - max(start, sequence)
                    if not append.left:
                        early.add(append.receipt)
                        if lane_log.quick < MOST_QUICK:
                            lane_log.quick += 1
        return early

    def take_settled(self, settles: list[Settled]) -> list[Entry]:
        """Out of the index; what was in it is owed to the disk."""
        entries: list[Entry] = []
        epoch = self.epoch
        for queue, lane, sequence, number in settles:
            log = self.lanes.get(queue << 8 | lane)
            if log is None:
                continue
            if log.epoch != epoch:
                log.freeze(epoch)
            if number > MANY and log.index.covers(sequence, number):
                entries += self._take_all(log, queue, lane, sequence, number)
            for run in log.index.take(sequence, number):
                self.segments[run.segment].lose(run.number, run.size)
                entries.append(Entry(queue, lane, run.sequence, run.number, run.segment))
            if log.tries:
                for id_ in log.forget_tries(sequence, number):
                    self.segments[id_].returns -= ENTRY.size
        return entries

    def _take_all(self, log: LaneLog, queue: int, lane: int, sequence: int, number: int) -> list[Entry]:
        """A purge of millions: one entry for each segment that has some of them."""
        totals = log.index.totals()
        log.index.clear()
        for segment, (count, size) in totals.items():
            self.segments[segment].lose(count, size)
        return [Entry(queue, lane, sequence, number, segment) for segment in totals]

    def forget(self, queue: int) -> None:
        for lane in range(256):
            log = self.lanes.pop(lane_key(queue, lane), None)
            if log is not None:
                for _, id_ in log.tries.values():
                    self.segments[id_].returns -= ENTRY.size
                for segment, (number, size) in log.index.totals().items():
                    self.segments[segment].lose(number, size)
                for start, stop, append in log.open:
                    append.left -= stop - start  # settled before they were written

    # ---- segments

    def roll(self) -> Segment:
        """Begin a new segment."""
        if self._current is not None:
            self._current.is_sealed = True
        self._current = Segment(self.next_segment, SEGMENT_HEAD.size)
        self.next_segment += 1
        self.segments.add(self._current)
        return self._current

    def begin(self, batch: Batch, after: Callable[[int], None] | None) -> None:
        """Begin a new segment by this batch."""
        batch.write(self.roll().id, [])
        batch.sync = batch.reserves = True
        batch.after = after

    def leave_segment(self) -> None:
        """The writer has closed the current segment, and truncated it after the last good record."""
        if self._current is not None:
            self._current.is_sealed = self._current.is_safe = True
            self._current = None
