"""Walking through the chunks of a segment, also past damage; and reading a segment that has no index.

``SegmentWalk`` steps from chunk to chunk and reads some way ahead. Where bytes are invalid, it calls ``on_gap`` and
continues at the next valid chunk.

``scan`` reads a whole segment as a crash may have left it. Bytes that were synced can be damaged only by the disk: that
costs the damaged chunks. Bytes that were not may be torn in any way, also with later chunks whole and earlier ones
missing: there the segment is cut, so that what the journal hands again goes on where the sound chunks end. How far the
segment was synced is known from the chunks that were written later; what was synced after the last of them counts as if
it was not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from errno import EIO
from itertools import pairwise
from typing import NamedTuple

from leveret.store.disk import ReadableDisk
from leveret.store.records import Damage
from leveret.store.scan import Gap
from leveret.store.stream_chunk import (
    HEAD_SIZE,
    MARK,
    SEGMENT_HEAD,
    ChunkHead,
    StreamChunk,
    read_chunk,
    read_head,
    read_segment_head,
)
from leveret.store.stream_segments import StreamSegment

WINDOW = 4 << 20  # bytes that are read at once
BLOCK = 4096  # bytes that are given up when one of them cannot be read


class StreamGone(Exception):
    """The messages that were asked for have been removed: by retention, or with their stream."""


OnGap = Callable[[StreamSegment, Gap], None]


def ignore(segment: StreamSegment, gap: Gap) -> None:
    pass


class SegmentWalk:
    """``ahead``: how many bytes are read at once."""

    def __init__(self, disk: ReadableDisk, segment: StreamSegment, *, ahead: int, on_gap: OnGap = ignore) -> None:
        self._disk = disk
        self._segment = segment
        self._ahead = ahead
        self._on_gap = on_gap
        self._data = b""
        self._base = 0  # position of data[0]

    def heads(self, at: int) -> Iterator[ChunkHead]:
        """The heads of the chunks from ``at`` on; bodies are not read. The segment may grow meanwhile."""
        segment = self._segment
        while at < segment.size:
            self._fetch(at, HEAD_SIZE)
            try:
                head = read_head(self._data, at - self._base, segment.stream, segment.first, self._base)
                if head.end > segment.size:
                    raise Damage(f"a chunk of {head.end - at} bytes goes beyond the end")
            except Damage as problem:
                if at < segment.size:  # else it was cut meanwhile
                    following = self._following(at + 1)
                    self._on_gap(segment, Gap(at, following, str(problem)))
                    at = following
            else:
                yield head
                at = head.end

    def chunk(self, head: ChunkHead) -> StreamChunk | None:
        """None if its body is damaged, which is reported; the walk continues behind it."""
        segment = self._segment
        self._fetch(head.at, head.end - head.at)
        try:
            return read_chunk(self._data, head, segment.stream, segment.first, self._base)
        except Damage as problem:
            if head.end <= segment.size:
                self._on_gap(segment, Gap(head.at, head.end, str(problem)))
            return None

    def _fetch(self, at: int, size: int) -> None:
        """Have these bytes in the data, as far as the segment goes."""
        start, end = self._base, self._base + len(self._data)
        if not start <= at <= at + size <= end:
            wanted = min(max(size, self._ahead), self._segment.size - at)
            self._data = read_around(self._disk, self._segment.path, at, wanted)
            self._base = at

    def _following(self, at: int) -> int:
        """The position of the next sound head; the end if there is none."""
        segment = self._segment
        while at < segment.size:
            self._fetch(at, min(HEAD_SIZE, segment.size - at))
            data, base = self._data, self._base
            place = at - base
            while 0 <= (place := data.find(MARK, place)) <= len(data) - HEAD_SIZE:
                try:
                    head = read_head(data, place, segment.stream, segment.first, base)
                    if head.end <= segment.size:
                        return head.at
                except Damage:
                    pass
                place += 1
            at = max(at, base + len(data) - HEAD_SIZE) + 1
        return segment.size


def read_around(disk: ReadableDisk, path: str, at: int, size: int) -> bytes:
    """Unreadable blocks are replaced by zeros, which are no valid chunk."""
    try:
        return disk.read(path, at, size)
    except FileNotFoundError as problem:
        raise StreamGone(f"{path} has been removed") from problem
    except OSError as problem:
        if problem.errno != EIO:
            raise
    blocks: list[bytes] = []
    edges = [at, *range(at - at % BLOCK + BLOCK, at + size, BLOCK), at + size]
    for start, end in pairwise(edges):
        length = end - start
        try:
            blocks.append(disk.read(path, start, length))
        except OSError:
            blocks.append(bytes(length))
    return b"".join(blocks)


class Scanned(NamedTuple):
    """``gaps`` are damage; ``torn`` is the reason why the segment was truncated, if it was."""

    gaps: list[Gap]
    torn: str | None


def scan(disk: ReadableDisk, segment: StreamSegment, size: int, *, may_be_torn: bool) -> Scanned:
    """Fill in size, index and ``next`` of a segment whose file has ``size`` bytes; nothing on disk is changed."""
    segment.size = size
    gaps: list[Gap] = []
    walk = SegmentWalk(disk, segment, ahead=WINDOW, on_gap=lambda _, gap: gaps.append(gap))
    sound = [head for head in walk.heads(SEGMENT_HEAD.size) if walk.chunk(head) is not None]
    gaps.sort()
    torn = None
    if may_be_torn:
        safe = max([head.synced for head in sound], default=0)
        torn = _cut(segment, safe, gaps)
        sound = [head for head in sound if head.end <= segment.size]
    try:
        read_segment_head(read_around(disk, segment.path, 0, SEGMENT_HEAD.size), segment.stream, segment.first)
    except Damage as problem:
        if sound or not may_be_torn:
            gaps.insert(0, Gap(0, min(SEGMENT_HEAD.size, size), str(problem)))
    for head in sound:
        segment.index.add(head.at, head.first, head.latest)
        segment.next = max(segment.next, head.next)
    return Scanned(gaps, torn)


def _cut(segment: StreamSegment, safe: int, gaps: list[Gap]) -> str | None:
    """Cut the segment at the first gap that goes beyond what is known to be safe."""
    for place, gap in enumerate(gaps):
        if gap.end > safe:
            segment.size = max(gap.at, safe)
            gaps[place:] = [gap._replace(end=safe)] if gap.at < safe else []
            return gap.reason
    return None
