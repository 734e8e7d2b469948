"""The segments of a stream: their names, their sizes, and where in them an offset or a time is found.

A position index has one entry for every stretch of about 256 KiB: where it begins, its first offset, and the latest
time of arrival in the segment up to its end. So reading begins at most one stretch too early. The index is kept in
memory, and written beside a segment once that is sealed:

      0                  8               16                 24               32         40
      | magic "LEVERETP" | stream id u64 | first offset u64 | next offset    | size     | entries u64 | ...
      48     entries x u64 position, entries x u64 first offset, entries x i64 latest time, checksum u64

All numbers are little-endian. The index only saves time: if it is missing, altered or about a segment of another size,
the segment is read instead.

A segment is changed by one thread and read by others at the same time, without a lock: whatever is needed to read a
chunk is set before ``size`` includes the chunk.
"""

from __future__ import annotations

import re
import sys
from array import array
from bisect import bisect_left, bisect_right
from struct import Struct

from xxhash import xxh3_64_intdigest

from leveret.store.disk import Disk
from leveret.store.records import Damage
from leveret.store.stream_chunk import SEGMENT_HEAD, seed

FOLDER = "streams"
SEGMENT_NAME = re.compile(r"([0-9]{20})\.seg")
INDEX_NAME = re.compile(r"([0-9]{20})\.idx")
STRETCH = 256 << 10  # bytes
INDEX_MAGIC = b"LEVERETP"
INDEX_HEAD = Struct("<8sQQQQQ")
CHECKSUM = Struct("<Q")
PER_ENTRY = 24


def stream_folder(stream: int) -> str:
    return f"{FOLDER}/{stream}"


def segment_path(stream: int, first: int) -> str:
    return f"{FOLDER}/{stream}/{first:020d}.seg"


def index_path(stream: int, first: int) -> str:
    return f"{FOLDER}/{stream}/{first:020d}.idx"


class PositionIndex:
    __slots__ = ("_firsts", "_latest", "_positions")

    def __init__(self) -> None:
        self._positions = array("Q")
        self._firsts = array("Q")
        self._latest = array("q")  # never falls

    def __len__(self) -> int:
        return len(self._latest)

    def add(self, at: int, first: int, latest: int) -> None:
        """The next chunk."""
        before = self._latest
        if not before:
            self._begin(at, first, latest)
        elif at - self._positions[-1] >= STRETCH:
            self._begin(at, first, max(latest, before[-1]))
        elif latest > before[-1]:
            before[-1] = latest

    def _begin(self, at: int, first: int, latest: int) -> None:
        """The position comes first: a reader that finds an entry by offset or time finds the position too."""
        self._positions.append(at)
        self._firsts.append(first)
        self._latest.append(latest)

    @property
    def latest(self) -> int:
        """The latest time of arrival; below every time if there is nothing."""
        return self._latest[-1] if self._latest else -1 << 63

    def position_of(self, offset: int) -> int:
        """Of a chunk that begins at this offset or before it; the first one if there is none."""
        found = bisect_right(self._firsts, offset)
        return self._positions[found - 1] if found else SEGMENT_HEAD.size

    def position_since(self, time: int) -> int | None:
        """Of a chunk before which nothing came at this time or later; None if nothing did."""
        found = bisect_left(self._latest, time)
        return self._positions[found] if found < len(self._positions) else None

    def packed(self) -> bytes:
        return b"".join(map(_little_endian, (self._positions, self._firsts, self._latest)))

    @classmethod
    def unpacked(cls, data: bytes) -> PositionIndex:
        made = cls()
        third = len(data) // 3
        columns = (made._positions, made._firsts, made._latest)
        for place, column in enumerate(columns):
            column.frombytes(data[place * third : (place + 1) * third])
            if sys.byteorder == "big":
                column.byteswap()
        return made


def _little_endian(numbers: array[int]) -> bytes:
    if sys.byteorder == "big":
        numbers = array(numbers.typecode, numbers)
        numbers.byteswap()
    return numbers.tobytes()


class StreamSegment:
    """``size`` bytes of it are whole chunks, with offsets below ``next``."""

    __slots__ = ("first", "index", "next", "path", "size", "stream")

    def __init__(self, stream: int, first: int) -> None:
        self.stream = stream
        self.first = first
        self.path = segment_path(stream, first)
        self.next = first
        self.size = 0
        self.index = PositionIndex()


def write_index(disk: Disk, segment: StreamSegment) -> None:
    """Beside a segment that will not change any more. What is there under its name is replaced."""
    path = index_path(segment.stream, segment.first)
    disk.remove(path)
    handle = disk.create(path)
    try:
        disk.append(handle, [index_bytes(segment)])
    finally:
        disk.close(handle)


def index_bytes(segment: StreamSegment) -> bytes:
    stream, first, index = segment.stream, segment.first, segment.index
    head = INDEX_HEAD.pack(INDEX_MAGIC, stream, first, segment.next, segment.size, len(index))
    data = head + index.packed()
    return data + CHECKSUM.pack(xxh3_64_intdigest(data, seed(stream, first, 0)))


def read_index(data: bytes, segment: StreamSegment) -> None:
    """Fill the segment's index and ``next``; Damage if the data is not of this segment with its present size."""
    if len(data) < INDEX_HEAD.size + CHECKSUM.size:
        raise Damage("shorter than an index")
    magic, stream, first, following, size, entries = INDEX_HEAD.unpack_from(data)
    end = len(data) - CHECKSUM.size
    if CHECKSUM.unpack_from(data, end)[0] != xxh3_64_intdigest(data[:end], seed(segment.stream, segment.first, 0)):
        raise Damage("the checksum of the index does not match")
    if magic != INDEX_MAGIC or (stream, first, size) != (segment.stream, segment.first, segment.size):
        raise Damage("the index is about another segment")
    if end != INDEX_HEAD.size + PER_ENTRY * entries:
        raise Damage("an index whose entries do not fill it")
    segment.next = following
    segment.index = PositionIndex.unpacked(data[INDEX_HEAD.size : end])
