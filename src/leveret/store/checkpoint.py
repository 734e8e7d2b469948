"""A checkpoint: the state of the journal in front of one segment, so that a start reads only what follows.

Theory of operation. ``following`` is the first segment that the checkpoint does not cover. The state is what the event
loop has in memory when that segment begins: for every lane the index of live messages, delivery counts and deadlines,
for every segment its accounting. Everything in it comes from records in lower segments, which are synced before the
checkpoint is written; so a checkpoint never contains what a crash takes back.

A start loads the newest valid checkpoint and reads the segments from ``following`` on (store/recovery.py). Lower
segments may have changed in one way only: they were removed. A segment is removed when its messages are settled or
copied, and both is recorded behind ``following``. So a message whose segment is gone lies where a copy is found behind
``following``; without a copy it was settled. A settle may be gone too, with its segment, but never before the segment
that it is about.

This holds if every run of the broker since then continued from this checkpoint: two copies of a message are a choice,
and whichever the running broker has in its index is removed last. Therefore

- a start that reads the whole journal removes all checkpoints before it writes anything;
- a checkpoint names the *lineage* of the data directory (store/data_dir.py), which a version of Leveret without
  checkpoints erases;
- all members of a cell have one lineage, and leader epochs decide which checkpoints are valid
  (store/replica_checkpoints.py);
- a checkpoint is used only if each lower segment on disk is known to it, with the same size and the same last bytes.

The file is ``journal/<following>.checkpoint``. It is written and synced as ``<following>.checkpoint.new`` and then
renamed, so a broker that is killed leaves no incomplete checkpoint. The footer has the length and a checksum, so damage
is recognised. After that, older checkpoints are removed, and files that killed brokers left unfinished; a recovery
removes the latter as well.

    head      magic "LEVERETC", version, byte order, flags, following, next record number, highest queue id, lineage,
              number of segments, number of lanes
    segment   id, size, checksum of the last bytes, accounting, then (about, bytes) of its settles, then ``after``
    lane      key, tail, redelivered below, messages, bytes, blocks, then delivery counts, deadlines and the blocks:
              the number of runs and the five columns of store/run_block.py
    footer    length of the above, checksum (xxh3, seeded with ``following``)

Numbers of a head are little-endian; columns are in the byte order of the machine, and a file from a machine with
another one is not used.
"""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Collection, Iterator, Sequence
from struct import Struct, error
from typing import Any, NamedTuple

from xxhash import xxh3_64, xxh3_64_intdigest

from leveret.logs import get_log
from leveret.store.deadline_columns import DeadlineColumns
from leveret.store.disk import Disk, ReadableDisk
from leveret.store.lane_log import FrozenLane, Tries
from leveret.store.records import Damage
from leveret.store.run_block import Block
from leveret.store.run_index import RunIndex
from leveret.store.segments import Segment
from leveret.store.writer import FOLDER, segment_path

MAGIC = b"LEVERETC"
VERSION = 1
ORDER = 0 if sys.byteorder == "little" else 1
NAME = re.compile(r"([0-9]{10})\.checkpoint")
NEW = ".new"  # at the end of the name while it is written
ANY_NAME = re.compile(NAME.pattern + rf"(?:{re.escape(NEW)})?")
HEAD = Struct("<8sIBB2xQQQ32sII")
SEGMENT = Struct("<QQQQQQQBII")
LANE = Struct("<QQQQQIII")
FOOTER = Struct("<QQ")
LAST = 4096  # bytes of a segment that identify it, with its size
PIECE = 1 << 20  # bytes written at a time
NO_LINEAGE = b"0" * 32

Identity = tuple[int, int]  # of a sealed segment: size, and checksum of the last bytes
GONE: Identity = (0, 0)


class Snapshot:
    """The state that the loop collects for a checkpoint. ``segments`` are copies; ``lanes`` have frozen blocks."""

    def __init__(self, following: int, next_number: int, highest_queue: int, *, is_clean: bool) -> None:
        self.following = following
        self.next_number = next_number
        self.highest_queue = highest_queue
        self.is_clean = is_clean  # the journal ends with a clean-shutdown record
        self.segments: list[Segment] = []
        self.lanes: list[tuple[int, FrozenLane]] = []


class LoadedLane(NamedTuple):
    tail: int
    redelivered_below: int
    live: RunIndex
    tries: Tries
    deadlines: DeadlineColumns


class Checkpoint:
    def __init__(self, following: int, next_number: int, highest_queue: int, *, is_clean: bool) -> None:
        self.following = following
        self.next_number = next_number
        self.highest_queue = highest_queue
        self.is_clean = is_clean
        self.segments: dict[int, Segment] = {}
        self.identities: dict[int, Identity] = {}
        self.lanes: dict[int, LoadedLane] = {}


def checkpoint_path(following: int) -> str:
    return f"{FOLDER}/{following:010d}.checkpoint"


def checkpoints_on(disk: ReadableDisk) -> list[int]:
    """Newest first."""
    return sorted((int(match[1]) for name in disk.names(FOLDER) if (match := NAME.fullmatch(name))), reverse=True)


def remove_checkpoints(disk: Disk, keep: int | None, below: int = 1 << 40) -> None:
    """All below this segment but the one to keep, finished or not."""
    kept = None if keep is None else checkpoint_path(keep)
    found = [(int(match[1]), f"{FOLDER}/{name}") for name in disk.names(FOLDER) if (match := ANY_NAME.fullmatch(name))]
    others = [path for following, path in found if following < below and path != kept]
    for path in others:
        disk.remove(path)
    if others:
        disk.sync_folder(FOLDER)


def identity(disk: ReadableDisk, segment: int) -> Identity:
    path = segment_path(segment)
    size = disk.size(path)
    start = max(size - LAST, 0)
    return size, xxh3_64_intdigest(disk.read(path, start, size - start))


# ---- writing


class Written(NamedTuple):
    size: int
    deadlines: list[tuple[FrozenLane, DeadlineColumns]]  # those of live messages only, where there are fewer


class CheckpointWriter:
    """Blocks: for a worker. Keeps the identities of segments, which never change once they are sealed."""

    def __init__(self, disk: Disk, lineage: bytes = NO_LINEAGE) -> None:
        self.lineage = lineage
        self._disk = disk
        self._identities: dict[int, Identity] = {}

    def write(self, snapshot: Snapshot) -> Written:
        """Durable on return; older checkpoints are gone then."""
        disk, path = self._disk, checkpoint_path(snapshot.following)
        new = path + NEW
        trimmed: list[tuple[FrozenLane, DeadlineColumns]] = []
        disk.remove(new)
        handle = disk.create(new)
        try:
            try:
                size = self._append(handle, snapshot, trimmed)
                disk.sync(handle)
            finally:
                disk.close(handle)
            disk.rename(new, path)
        except OSError:
            disk.remove(new)
            raise
        disk.sync_folder(FOLDER)
        remove_checkpoints(disk, snapshot.following, snapshot.following)
        return Written(size, trimmed)

    def _append(self, handle: int, snapshot: Snapshot, trimmed: list[tuple[FrozenLane, DeadlineColumns]]) -> int:
        digest, size, gathered, held = xxh3_64(seed=snapshot.following), 0, list[bytes](), 0
        for part in self._parts(snapshot, trimmed):
            digest.update(part)
            gathered.append(part)
            size, held = size + len(part), held + len(part)
            if held >= PIECE:
                self._disk.append(handle, [b"".join(gathered)])
                gathered, held = [], 0
        gathered.append(FOOTER.pack(size, digest.intdigest()))
        self._disk.append(handle, [b"".join(gathered)])
        return size + FOOTER.size

    def _parts(self, snapshot: Snapshot, trimmed: list[tuple[FrozenLane, DeadlineColumns]]) -> Iterator[bytes]:
        segments = list(self._known(snapshot.segments))
        yield HEAD.pack(
            MAGIC,
            VERSION,
            ORDER,
            snapshot.is_clean,
            snapshot.following,
            snapshot.next_number,
            snapshot.highest_queue,
            self.lineage,
            len(segments),
            len(snapshot.lanes),
        )
        for segment, known in segments:
            yield from _segment_parts(segment, known)
        for key, lane in snapshot.lanes:
            deadlines = lane.deadlines.first(lane.timed)
            if deadlines:
                deadlines.keep(run for block in lane.blocks for run in block.runs(block.start, len(block.sequences)))
            if len(deadlines) < lane.timed:
                trimmed.append((lane, deadlines))
            yield from _lane_parts(key, lane, deadlines)

    def _known(self, segments: Sequence[Segment]) -> Iterator[tuple[Segment, Identity]]:
        known = self._identities
        self._identities = {segment.id: known[segment.id] for segment in segments if segment.id in known}
        for segment in segments:
            try:
                if segment.id not in self._identities:
                    self._identities[segment.id] = identity(self._disk, segment.id)
            except FileNotFoundError:  # removed since the snapshot began
                self._identities[segment.id] = GONE
            yield segment, self._identities[segment.id]


def _segment_parts(segment: Segment, known: Identity) -> Iterator[bytes]:
    yield SEGMENT.pack(
        segment.id,
        *known,
        segment.content,
        segment.live,
        segment.live_content,
        segment.marks,
        segment.is_damaged,
        len(segment.needs),
        len(segment.after),
    )
    yield array("Q", [number for pair in segment.needs.items() for number in pair]).tobytes()
    yield array("Q", segment.after).tobytes()


def _lane_parts(key: int, lane: FrozenLane, deadlines: DeadlineColumns) -> Iterator[bytes]:
    blocks = [block for block in lane.blocks if len(block)]
    redelivered_below = max(lane.redelivered_below, max(lane.tries, default=0) + 1)
    numbers = (key, lane.tail, redelivered_below, lane.messages, lane.bytes)
    yield LANE.pack(*numbers, len(blocks), len(lane.tries), len(deadlines))
    if lane.tries:
        yield array("Q", [number for sequence, pair in lane.tries.items() for number in (sequence, *pair)]).tobytes()
    if deadlines:
        yield deadlines.times.tobytes()
        yield deadlines.sequences.tobytes()
    yield array("I", [len(block) for block in blocks]).tobytes()
    for block in blocks:
        for column in block.columns:
            yield column[block.start :].tobytes()


# ---- reading


def load_newest(
    disk: ReadableDisk,
    segments: Collection[int],
    lineage: bytes = NO_LINEAGE,
    loaded: Checkpoint | None = None,
) -> Checkpoint | None:
    """The newest that can be used with these segments, which are on the disk. The reason against another is logged.
    ``loaded``: one of them that is in memory already."""
    for following in checkpoints_on(disk):
        try:
            is_here = loaded is not None and loaded.following == following
            return _fitting(disk, loaded if loaded and is_here else load(disk, following, lineage), segments)
        except (Damage, OSError) as problem:
            get_log("store").warning("checkpoint not used", path=checkpoint_path(following), reason=str(problem))
    return None


def _fitting(disk: ReadableDisk, checkpoint: Checkpoint, segments: Collection[int]) -> Checkpoint:
    for id_ in segments:
        if id_ < checkpoint.following and checkpoint.identities.get(id_) != identity(disk, id_):
            raise Damage(f"segment {id_} is not as it was")
    return checkpoint


def load(disk: ReadableDisk, following: int, lineage: bytes = NO_LINEAGE) -> Checkpoint:
    """Damage if it is incomplete, altered, of another version, or of another lineage."""
    path = checkpoint_path(following)
    data = disk.read(path, 0, disk.size(path))
    size = len(data) - FOOTER.size
    if size < HEAD.size or FOOTER.unpack_from(data, size) != (
        size,
        xxh3_64_intdigest(memoryview(data)[:size], following),
    ):
        raise Damage("incomplete or damaged")
    try:
        return _Reader(data).checkpoint(following, lineage)
    except (error, IndexError, ValueError) as problem:
        raise Damage(f"cannot be read: {problem}") from problem


def verify(disk: ReadableDisk, path: str, following: int, lineage: bytes) -> None:
    """Damage if this file cannot be a checkpoint of this segment. It is read in pieces, and not taken apart."""
    size = disk.size(path) - FOOTER.size
    if size < HEAD.size:
        raise Damage("incomplete")
    digest = xxh3_64(seed=following)
    for at in range(0, size, PIECE):
        digest.update(disk.read(path, at, min(PIECE, size - at)))
    if disk.read(path, size, FOOTER.size) != FOOTER.pack(size, digest.intdigest()):
        raise Damage("incomplete or damaged")
    _check_head(HEAD.unpack(disk.read(path, 0, HEAD.size)), following, lineage)


def _check_head(head: tuple[Any, ...], following: int, lineage: bytes) -> None:
    magic, version, order, _, own, _, _, heritage, _, _ = head
    if magic != MAGIC or own != following:
        raise Damage("not the checkpoint of this segment")
    if (version, order) != (VERSION, ORDER):
        raise Damage(f"of version {version}, byte order {order}; this program reads {VERSION} and {ORDER}")
    if heritage != lineage:
        raise Damage("of another lineage: from another cell, or an older version of Leveret used the directory since")


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self._at = 0

    def checkpoint(self, following: int, lineage: bytes) -> Checkpoint:
        head = self._unpacked(HEAD)
        _check_head(head, following, lineage)
        is_clean, next_number, highest, segments, lanes = head[3], head[5], head[6], head[8], head[9]
        found = Checkpoint(following, next_number, highest, is_clean=bool(is_clean))
        for _ in range(segments):
            self._read_segment(found)
        for _ in range(lanes):
            self._read_lane(found)
        return found

    def _read_segment(self, found: Checkpoint) -> None:
        id_, size, checksum, content, live, live_content, marks, is_damaged, needs, after = self._unpacked(SEGMENT)
        segment = found.segments[id_] = Segment(id_, size)
        found.identities[id_] = size, checksum
        segment.content, segment.live, segment.live_content, segment.marks = content, live, live_content, marks
        segment.is_damaged = bool(is_damaged)
        segment.is_sealed = segment.is_safe = True
        numbers = self._numbers("Q", 2 * needs)
        segment.needs = dict(zip(numbers[::2], numbers[1::2], strict=True))
        segment.after = set(self._numbers("Q", after))

    def _read_lane(self, found: Checkpoint) -> None:
        key, tail, redelivered_below, count, size, blocks, tries, timed = self._unpacked(LANE)
        numbers = self._numbers("Q", 3 * tries)
        counts = dict(zip(numbers[::3], zip(numbers[1::3], numbers[2::3], strict=True), strict=True))
        deadlines = DeadlineColumns()
        if timed:
            deadlines.times, deadlines.sequences = self._numbers("d", timed), self._numbers("Q", timed)
        runs = self._numbers("I", blocks)
        index = RunIndex.of([self._block(number) for number in runs], count, size)
        found.lanes[key] = LoadedLane(tail, redelivered_below, index, counts, deadlines)

    def _block(self, number: int) -> Block:
        return Block(tuple([self._numbers(kind, number) for kind in ("Q", "Q", "I", "I", "Q")]))

    def _unpacked(self, shape: Struct) -> tuple[Any, ...]:
        found = shape.unpack_from(self._data, self._at)
        self._at += shape.size
        return found

    def _numbers(self, kind: str, number: int) -> array:  # type: ignore[type-arg]
        found = array(kind)
        end = self._at + number * found.itemsize
        found.frombytes(self._data[self._at : end])
        if len(found) != number:
            raise ValueError("fewer numbers than announced")
        self._at = end
        return found
