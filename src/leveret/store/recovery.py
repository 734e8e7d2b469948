"""Recovers the state of the queues from the files of the journal.

All segments are read in order. Nothing depends on the order of records across segments: a message is identified by
(queue, lane, sequence), and a settle overrides every record of that message, wherever it is. That makes recovery
idempotent and lets reclaim leave copies behind. Of several copies the oldest counts, and the segments of the others are
removed first. Queues that are not in the definitions are ignored: they were deleted.

An invalid record affects only itself: reading continues at the next mark that begins a valid record, and the bytes in
between are *damage*, reported and copied to quarantine. At the end of the last segment damage is an incomplete write,
the normal result of a crash: it is truncated. A group without its end is dropped as a whole; so is, in the last
segment, a group that lacks another part, since a crash may have kept the later pages of a write and lost the earlier
ones. Its remaining parts are erased, so that the next start sees the same. In older segments, which were synced
completely, a missing part is damage and affects only itself.

A checkpoint (store/checkpoint.py) has the state in front of one segment: then only this one and later ones are read.
Without a usable checkpoint all are, and the result is the same, but for the choice among copies of a message.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from errno import EIO
from typing import NamedTuple

from leveret.errors import DamagedJournal
from leveret.logs import get_log
from leveret.message import NEVER
from leveret.store.checkpoint import NO_LINEAGE, Checkpoint, checkpoint_path, load_newest, remove_checkpoints
from leveret.store.disk import Disk
from leveret.store.lane_log import lane_key
from leveret.store.records import (
    ENTRY,
    HEAD_SIZE,
    PUBLISH,
    RETURNS,
    SEGMENT_HEAD,
    SETTLE,
    STOP,
    Damage,
    Entry,
    Published,
    Record,
    read_entries,
    read_publish,
    read_segment_head,
)
from leveret.store.recovered_lane import RecoveredLane
from leveret.store.run_block import Run
from leveret.store.scan import is_whole_group, scan
from leveret.store.segments import Segment, Segments
from leveret.store.writer import FOLDER, segment_path

MOST_NOISE = 20  # damages that are logged individually
SEGMENT_NAME = re.compile(r"([0-9]{10})\.seg")
LARGEST_SEGMENT = (1 << 32) - (1 << 20)  # limit of the index, with some reserve
BLOCK = 4096  # bytes that are given up when one of them cannot be read


class Damaged(NamedTuple):
    segment: int
    offset: int
    size: int
    reason: str
    is_tail: bool  # at the end of the last segment: an incomplete write, truncated


class Recovered:
    def __init__(self, full_size: int) -> None:
        self.segments = Segments(full_size)
        self.lanes: dict[int, RecoveredLane] = {}
        self.damages: list[Damaged] = []
        self.torn: list[tuple[int, int]] = []  # (segment, offset) of records whose group is not whole
        self.next_segment = 1
        self.next_number = 1
        self.highest_queue = 0  # id in any record
        self.checkpoint: int | None = None  # the segment in front of which reading began
        self.bytes_read = 0  # of segments
        self.work = 0  # records and entries that were read
        self.clean = True  # the last shutdown was clean, or this is the first start

    def lane(self, queue: int, lane: int) -> RecoveredLane:
        key = lane_key(queue, lane)
        found = self.lanes.get(key)
        if found is None:
            found = self.lanes[key] = RecoveredLane(queue, lane)
        return found

    def begin(self, checkpoint: Checkpoint, ids: list[int], queues: Container[int]) -> frozenset[int]:
        """With the state of the checkpoint; returns the segments that are gone with what was live in them."""
        self.checkpoint = self.next_segment = checkpoint.following
        self.next_number, self.highest_queue = checkpoint.next_number, checkpoint.highest_queue
        self.clean = checkpoint.is_clean
        there = set(ids)
        for segment in checkpoint.segments.values():
            if segment.id in there:
                segment.needs = {about: size for about, size in segment.needs.items() if about in there}
                segment.after &= there
                self.segments.add(segment)
        for key, lane in checkpoint.lanes.items():
            if key >> 8 in queues:
                self.lanes[key] = RecoveredLane(key >> 8, key & 0xFF, lane)
                continue
            for id_, (number, size) in lane.live.totals().items():  # its queue was deleted
                if id_ in there:
                    self.segments[id_].lose(number, size)
        named = checkpoint.segments.values()
        return frozenset(segment.id for segment in named if segment.live and segment.id not in there)


Progress = Callable[[int, int], None]  # segments read, of


def recover(
    disk: Disk,
    queues: Container[int],
    full_size: int,
    *,
    progress: Progress = lambda done, of: None,
    repair: bool = True,
    lineage: bytes | None = NO_LINEAGE,
    loaded: Checkpoint | None = None,
    is_member: bool = False,
) -> Recovered:
    """Read the journal. ``repair``: truncate an incomplete write and quarantine damage; else nothing is changed.
    ``lineage``: of checkpoints that may be used; None for a full scan. ``loaded``: one of these. ``is_member``: of a
    cell, whose log has written every byte, so that none may be missing: damage raises DamagedJournal, and nothing is
    changed."""
    ids = sorted(_segment_ids(disk))
    checkpoint = None if lineage is None else load_newest(disk, ids, lineage, loaded)
    try:
        found = _read(disk, queues, full_size, progress, ids, checkpoint)
    except Damage as problem:
        assert checkpoint is not None
        path = checkpoint_path(checkpoint.following)
        get_log("store").error(
            "checkpoint does not match the journal, reading all of it", path=path, reason=str(problem)
        )
        found = _read(disk, queues, full_size, progress, ids, None)
    if is_member and found.damages:
        segment, offset, size, reason, _ = found.damages[0]
        raise DamagedJournal(
            f"{len(found.damages)} part(s) of its journal are damaged, the first in segment {segment}: {size} bytes at "
            f"{offset} ({reason})"
        )
    _report(found.damages)
    if repair:
        remove_checkpoints(disk, found.checkpoint)
        _repair(disk, found)
    return found


def _read(
    disk: Disk,
    queues: Container[int],
    full_size: int,
    progress: Progress,
    ids: list[int],
    checkpoint: Checkpoint | None,
) -> Recovered:
    found = Recovered(full_size)
    lost = frozenset[int]() if checkpoint is None else found.begin(checkpoint, ids, queues)
    behind = [id_ for id_ in ids if checkpoint is None or id_ >= checkpoint.following]
    for place, id_ in enumerate(behind):
        progress(place, len(behind))
        _Reading(disk, found, queues, id_, is_last=id_ == ids[-1]).read()
    progress(len(behind), len(behind))
    if behind:
        found.next_segment = behind[-1] + 1
    for lane in found.lanes.values():
        lane.settle(found.segments, lost)
    return found


def _segment_ids(disk: Disk) -> list[int]:
    """Files with other names are ignored."""
    found = [SEGMENT_NAME.fullmatch(name) for name in disk.names(FOLDER)]
    ids = [int(match[1]) for match in found if match is not None]
    return [id_ for id_ in ids if 0 < id_ <= LARGEST_SEGMENT]


class _Reading:
    """One segment."""

    def __init__(self, disk: Disk, found: Recovered, queues: Container[int], id_: int, is_last: bool) -> None:
        self._found = found
        self._queues = queues
        self._is_last = is_last
        self._path = segment_path(id_)
        self._data = _read_all(disk, self._path)
        self._segment = Segment(id_, len(self._data))
        self._group: list[Record] = []
        self._group_at = SEGMENT_HEAD.size
        self._last_kind = 0

    def read(self) -> None:
        segment, data = self._segment, self._data
        segment.is_sealed = segment.is_safe = True
        self._found.segments.add(segment)
        self._found.bytes_read += len(data)
        if not data:
            self._found.clean = False
            return  # created, and never written to: a run began here
        try:
            if read_segment_head(data[: SEGMENT_HEAD.size]) != segment.id:
                raise Damage("the head is another segment's")
        except Damage as problem:
            self._damaged(0, min(SEGMENT_HEAD.size, len(data)), str(problem), len(data) <= SEGMENT_HEAD.size)
        for item in scan(data, segment.id, SEGMENT_HEAD.size):
            if isinstance(item, Record):
                if self._group and (item.place == 0 or item.number != self._group[-1].number + 1):
                    self._take_group()  # its end is missing, another begins
                    self._group_at = item.at
                self._group.append(item)
                if item.ends_group:
                    self._take_group()
                    self._group_at = item.end
            elif item.end < len(data):
                self._damaged(item.at, item.end - item.at, item.reason, False)
            elif self._is_last:  # nothing sound follows, nor the end of a group that is open
                start = min(item.at, self._group_at)
                self._group.clear()
                self._damaged(start, len(data) - start, item.reason, True)
            else:
                self._damaged(item.at, item.end - item.at, item.reason, False)
        if self._group and self._is_last:
            self._damaged(self._group_at, len(data) - self._group_at, "a group without its end", True)
        elif self._group:
            self._take_group()
        self._found.clean = self._last_kind == STOP and not self._found.damages

    def _damaged(self, offset: int, size: int, reason: str, is_tail: bool) -> None:
        is_torn = is_tail and self._is_last
        if not is_torn:
            self._segment.is_damaged = True
        self._found.damages.append(Damaged(self._segment.id, offset, size, reason, is_torn))

    def _take_group(self) -> None:
        group, self._group = self._group, []
        if self._is_last and not is_whole_group(group):
            size = group[-1].end - group[0].at  # incomplete after a crash: of a group, all or nothing
            self._damaged(group[0].at, size, "a group of which a part is missing", False)
            self._found.torn += [(self._segment.id, record.at) for record in group]
            return
        for record in group:
            self._found.next_number = max(self._found.next_number, record.number + 1)
            self._last_kind = record.kind
            try:
                self._take(record)
            except Damage as problem:  # the checksum is right and the content is not: written so by a bug
                self._damaged(record.at, record.end - record.at, str(problem), False)

    def _take(self, record: Record) -> None:
        found, segment = self._found, self._segment
        found.work += 1
        if record.kind == PUBLISH:
            self._take_publish(record, read_publish(self._data, record))
        elif record.kind == SETTLE or record.kind in RETURNS:
            entries = read_entries(self._data, record)
            segment.marks += record.end - record.at
            found.work += len(entries)
            for entry in entries:
                found.highest_queue = max(found.highest_queue, entry.queue)
                if entry.queue in self._queues:
                    self._take_entry(record.kind, entry)

    def _take_entry(self, kind: int, entry: Entry) -> None:
        found, segment = self._found, self._segment
        lane = found.lane(entry.queue, entry.lane)
        stop = entry.sequence + entry.number
        lane.tail = max(lane.tail, stop)
        if kind in RETURNS:
            lane.returns.append((entry, segment.id))
            return
        lane.settled.append((entry.sequence, stop, entry.about))
        if entry.about != segment.id and entry.about in found.segments:
            segment.needs[entry.about] = segment.needs.get(entry.about, 0) + ENTRY.size

    def _take_publish(self, record: Record, published: Published) -> None:
        found, segment = self._found, self._segment
        for place in published.places:
            found.highest_queue = max(found.highest_queue, place.queue)
            size = published.size(place)
            segment.content += size
            if place.queue not in self._queues:
                continue
            lane = found.lane(place.queue, place.lane)
            lane.runs.append(Run(place.sequence, place.number, segment.id, record.at, 0, size))
            lane.tail = max(lane.tail, place.sequence + place.number)
            if published.traits and place.sequence >= lane.covered:
                for sequence, n in enumerate(published.members(place), place.sequence):
                    if published.traits[n][1] != NEVER:
                        lane.deadlines.add(published.traits[n][1], sequence)


def _read_all(disk: Disk, path: str) -> bytes:
    """Unreadable blocks are replaced by zeros, which are no valid record."""
    size = disk.size(path)
    try:
        return disk.read(path, 0, size)
    except OSError as problem:
        if problem.errno != EIO:
            raise
    get_log("store").error("part of the journal cannot be read", path=path)
    blocks: list[bytes] = []
    for offset in range(0, size, BLOCK):
        try:
            blocks.append(disk.read(path, offset, min(BLOCK, size - offset)))
        except OSError:
            blocks.append(bytes(min(BLOCK, size - offset)))
    return b"".join(blocks)


def _report(damages: list[Damaged]) -> None:
    log = get_log("store")
    for damage in damages[:MOST_NOISE]:
        facts = {"segment": damage.segment, "offset": damage.offset, "bytes": damage.size, "reason": damage.reason}
        if damage.is_tail:
            log.info("incomplete write at the end of the journal truncated", **facts)
        else:
            log.error("journal is damaged, unreadable bytes moved to quarantine", **facts)
    if len(damages) > MOST_NOISE:
        log.error("journal has more damage, run leveret check for a list", places=len(damages) - MOST_NOISE)


def _repair(disk: Disk, found: Recovered) -> None:
    """Truncate an incomplete write at the end, and copy damaged bytes to quarantine. Idempotent.

    The data may have come from the system's cache, so it is synced before anything is built on it.
    """
    kept = set(disk.names("quarantine"))
    for segment, offset, size, _, is_tail in found.damages:
        if is_tail:
            disk.truncate(segment_path(segment), offset)
            found.segments[segment].size = offset
            continue
        name = f"{segment:010d}-{offset}.damaged"
        if name not in kept:
            _put_aside(disk, segment, offset, size, name)
    for segment, offset in found.torn:  # or the next start, with newer segments, would take them for damage and count
        disk.erase(segment_path(segment), offset, HEAD_SIZE)
    last = max((segment.id for segment in found.segments), default=None)
    if last is not None and (found.checkpoint is None or last >= found.checkpoint):
        disk.truncate(segment_path(last), found.segments[last].size)
        disk.sync_folder(FOLDER)


def _put_aside(disk: Disk, segment: int, offset: int, size: int, name: str) -> None:
    try:
        handle = disk.create(f"quarantine/{name}")
        try:
            disk.append(handle, [disk.read(segment_path(segment), offset, size)])
        finally:
            disk.close(handle)
    except OSError as problem:  # the disk is full, or cannot be read there: start anyway
        get_log("store").warning("damaged bytes cannot be copied to quarantine", name=name, reason=str(problem))
