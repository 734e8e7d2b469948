"""The bytes of a stream: segments of chunks.  Hot path.

All numbers are little-endian, so that numpy reads the columns as they lie. A segment is a file; it begins with

      0                  8                16                 24             32             40
      | magic "LEVERETS" | stream id u64  | first offset u64 | version u64  | checksum u64 |

and then chunks follow each other without gaps. A chunk holds messages with consecutive offsets:

      0           4      8               16       20     24          28              32
      | mark u32  | size | first offset  | number | runs | addresses | bytes of them | latest time i64  ...
        "\\xf2LVS"   u32    u64             u32      u32    u32         u32
      40                         48                  56                    64
      | synced u64               | checksum u64      | checksum u64        | body ... |
        bytes of this segment      of the body         of these 56 bytes     size bytes

    body    runs x i64 time, runs x u32 number of messages, runs x u32 which address, number x u32 content length,
            the addresses (u8 length + exchange, u8 length + routing key), the contents one after the other

A run is messages with one address and one time of arrival (microseconds since 1970). Both checksums (xxh3, 64 bits) are
seeded with the stream, the segment and the position: a chunk that was torn, altered, left over or copied to another
place does not pass. The head has a checksum of its own: so a reader can step from head to head without reading bodies,
finds the next chunk behind a damaged body, and is not fooled by a mark within a content.

``synced`` is the number of bytes of the segment that were synced when the chunk was written. Invalid bytes below that
are damage; invalid bytes above may be an incomplete write after a crash, and are truncated with everything behind them
(store/stream_scan.py).
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, chain, groupby, repeat
from operator import add, itemgetter
from struct import Struct
from typing import NamedTuple

from xxhash import xxh3_64_intdigest

from leveret.message import PERSISTENT, Address, Message
from leveret.store.records import Damage

MAGIC = b"LEVERETS"
VERSION = 1
MARK = b"\xf2LVS"
SEGMENT_HEAD = Struct("<8sQQQQ")
HEAD = Struct("<4sIQIIIIqQQ")
CHECKSUM = Struct("<Q")
PLACE = Struct("<QQQ")
HEAD_SIZE = HEAD.size + CHECKSUM.size
PER_RUN = 8 + 4 + 4
PER_MESSAGE = 4
MOST_MESSAGES = 4096  # of a chunk
MOST_BYTES = 1 << 20  # of content; a chunk of one message may have more
IS_BIG_ENDIAN = sys.byteorder == "big"

AddressKey = tuple[str, str]  # exchange, routing key


class StreamRun(NamedTuple):
    """Messages with consecutive offsets; as they are read, also with one address.

    ``time`` of arrival: microseconds since 1970.
    """

    first: int
    time: int
    messages: Sequence[Message]


make_run: Callable[[Iterable[object]], StreamRun] = partial(tuple.__new__, StreamRun)  # a third of the time


class ChunkHead(NamedTuple):
    """A checked head; ``at`` is its position in the segment, ``end`` that of whatever follows the chunk."""

    at: int
    end: int
    first: int
    number: int
    runs: int
    addresses: int
    address_bytes: int
    latest: int
    synced: int
    checksum: int

    @property
    def next(self) -> int:
        return self.first + self.number


def seed(stream: int, segment: int, at: int) -> int:
    return xxh3_64_intdigest(PLACE.pack(stream, segment, at))


# ---- writing


def segment_head(stream: int, segment: int) -> bytes:
    bare = SEGMENT_HEAD.pack(MAGIC, stream, segment, VERSION, 0)[:32]
    return bare + CHECKSUM.pack(xxh3_64_intdigest(bare, seed(stream, segment, 0)))


class ChunkDraft:
    """A chunk without its place: runs with consecutive offsets. Neighbours with one address and one time are joined."""

    __slots__ = ("_addresses", "_columns", "_contents", "first", "latest", "next")

    def __init__(self, runs: list[StreamRun], contents: list[bytes]) -> None:
        self.first = runs[0].first
        self.next = self.first + len(contents)
        self._contents = contents
        self._addresses: dict[AddressKey, int] = {}
        times, counts, indexes = array("q"), array("I"), array("I")
        address, index, last = None, 0, None
        for own, number, time in _by_address(runs):
            if own is not address:
                address = own
                index = self._addresses.setdefault((own.exchange, own.key), len(self._addresses))
            if time == last and index == indexes[-1]:
                counts[-1] += number
            else:
                times.append(time)
                counts.append(number)
                indexes.append(index)
                last = time
        self.latest = max(times)
        self._columns = (times, counts, indexes)

    def sealed(self, stream: int, segment: int, at: int, synced: int) -> tuple[bytes, bytes]:
        """Head and body for this position of a segment."""
        contents = self._contents
        names = b"".join([_short(exchange) + _short(key) for exchange, key in self._addresses])
        columns = (*self._columns, array("I", map(len, contents)))
        body = b"".join([*map(_little_endian, columns), names, *contents])
        own_seed = seed(stream, segment, at)
        head = HEAD.pack(
            MARK,
            len(body),
            self.first,
            len(contents),
            len(self._columns[0]),
            len(self._addresses),
            len(names),
            self.latest,
            synced,
            xxh3_64_intdigest(body, own_seed),
        )
        return head + CHECKSUM.pack(xxh3_64_intdigest(head, own_seed)), body


def _by_address(runs: list[StreamRun]) -> Iterator[tuple[Address, int, int]]:
    """Address, number and time of stretches of messages."""
    for _, time, messages in runs:
        address = messages[0][1]
        if len(messages) == 1 or not [True for message in messages if message[1] is not address]:
            yield address, len(messages), time
        else:
            for own, stretch in groupby(messages, key=itemgetter(1)):
                yield own, len(list(stretch)), time


def drafts(runs: Sequence[StreamRun], reached: int) -> Iterator[ChunkDraft]:
    """Chunks of all that lies at ``reached`` or behind it. Where offsets are missing, a new chunk begins."""
    group: list[StreamRun] = []
    number = 0
    for run in runs:
        first, time, messages = run
        if first < reached:
            messages = messages[reached - first :]
            run = StreamRun(first := reached, time, messages)
        if not messages:
            continue
        if group and (first != reached or number + len(messages) > MOST_MESSAGES):
            yield from _drafted(group)
            group, number = [], 0
        group.append(run)
        number += len(messages)
        reached = first + len(messages)
    if group:
        yield from _drafted(group)


def _drafted(group: list[StreamRun]) -> Iterator[ChunkDraft]:
    contents = [message[0] for run in group for message in run.messages]
    if len(contents) <= MOST_MESSAGES and sum(map(len, contents)) <= MOST_BYTES:
        yield ChunkDraft(group, contents)
        return
    for piece in _split(group):
        yield ChunkDraft(piece, [message[0] for run in piece for message in run.messages])


def _split(group: list[StreamRun]) -> Iterator[list[StreamRun]]:
    """The same in groups that fit into a chunk each, or are one message."""
    piece: list[StreamRun] = []
    number = size = 0
    for first, time, messages in group:
        begun = 0
        for place, message in enumerate(messages):
            length = len(message[0])
            if number and (number == MOST_MESSAGES or size + length > MOST_BYTES):
                if place > begun:
                    piece.append(StreamRun(first + begun, time, messages[begun:place]))
                yield piece
                piece, number, size, begun = [], 0, 0, place
            number += 1
            size += length
        piece.append(StreamRun(first + begun, time, messages[begun:]))
    yield piece


def _short(text: str) -> bytes:
    encoded = text.encode()
    return bytes((len(encoded),)) + encoded


def _little_endian(numbers: array[int]) -> bytes:
    if IS_BIG_ENDIAN:
        numbers.byteswap()
    return numbers.tobytes()


# ---- reading


def read_segment_head(data: bytes, stream: int, segment: int) -> None:
    """Damage if these bytes are not the head of this segment, in a version that we can read."""
    if len(data) < SEGMENT_HEAD.size:
        raise Damage("shorter than the head of a segment")
    magic, own_stream, own_segment, version, checksum = SEGMENT_HEAD.unpack_from(data)
    if magic != MAGIC or checksum != xxh3_64_intdigest(data[:32], seed(own_stream, own_segment, 0)):
        raise Damage("not the head of a segment")
    if (own_stream, own_segment) != (stream, segment):
        raise Damage("the head is another segment's")
    if version != VERSION:
        raise Damage(f"a segment of version {version}, this program reads {VERSION}")


def read_head(data: bytes, place: int, stream: int, segment: int, base: int) -> ChunkHead:
    """Check the head at data[place]; ``base`` is the position of data[0] in the segment."""
    if len(data) - place < HEAD_SIZE:
        raise Damage("shorter than the head of a chunk")
    at = base + place
    mark, size, first, number, runs, addresses, address_bytes, latest, synced, checksum = HEAD.unpack_from(data, place)
    if mark != MARK:
        raise Damage("not the head of a chunk")
    own = CHECKSUM.unpack_from(data, place + HEAD.size)[0]
    if own != xxh3_64_intdigest(data[place : place + HEAD.size], seed(stream, segment, at)):
        raise Damage("the checksum of the head does not match")
    end = at + HEAD_SIZE + size
    return ChunkHead(at, end, first, number, runs, addresses, address_bytes, latest, synced, checksum)


def read_chunk(data: bytes, head: ChunkHead, stream: int, segment: int, base: int) -> StreamChunk:
    """Check the body of a chunk that lies wholly in the data, and take it apart."""
    at, end = head.at + HEAD_SIZE - base, head.end - base
    if end > len(data):
        raise Damage(f"a chunk of {head.end - head.at} bytes goes beyond the end")
    if head.checksum != xxh3_64_intdigest(memoryview(data)[at:end], seed(stream, segment, head.at)):
        raise Damage("the checksum does not match")
    times, at = _column("q", data, at, 8 * head.runs)
    counts, at = _column("I", data, at, 4 * head.runs)
    indexes, at = _column("I", data, at, 4 * head.runs)
    lengths, at = _column("I", data, at, 4 * head.number)
    addresses = _addresses(data[at : at + head.address_bytes])
    at += head.address_bytes
    starts = array("Q", accumulate(lengths, initial=at))
    fits = starts.pop() == end and sum(counts) == head.number and max(indexes, default=0) < len(addresses)
    if not head.number or not fits:  # the checksum is right: an internal error wrote it
        raise Damage("a chunk whose parts do not fit together")
    return StreamChunk(data, head.first, starts, lengths, counts, times, indexes, addresses)


def _column(kind: str, data: bytes, at: int, size: int) -> tuple[array[int], int]:
    numbers: array[int] = array(kind)
    numbers.frombytes(data[at : at + size])
    if IS_BIG_ENDIAN:
        numbers.byteswap()
    return numbers, at + size


def _addresses(data: bytes) -> list[AddressKey]:
    found: list[AddressKey] = []
    at = 0
    try:
        while at < len(data):
            middle = at + 1 + data[at]
            end = middle + 1 + data[middle]
            found.append((data[at + 1 : middle].decode(), data[middle + 1 : end].decode()))
            at = end
    except (IndexError, ValueError) as problem:
        raise Damage(f"addresses that cannot be read: {problem}") from problem
    return found


class StreamChunk:
    """Messages with consecutive offsets, in columns.

    Content n is ``data[starts[n] : starts[n] + lengths[n]]``; the data may hold more than this chunk. Run n is
    ``counts[n]`` messages that came at ``times[n]`` to ``addresses[indexes[n]]``.
    """

    __slots__ = ("addresses", "counts", "data", "first", "indexes", "lengths", "number", "starts", "times")

    def __init__(
        self,
        data: bytes,
        first: int,
        starts: array[int],
        lengths: array[int],
        counts: array[int],
        times: array[int],
        indexes: array[int],
        addresses: list[AddressKey],
    ) -> None:
        self.data = data
        self.first = first
        self.number = len(starts)
        self.starts = starts
        self.lengths = lengths
        self.counts = counts
        self.times = times
        self.indexes = indexes
        self.addresses = addresses

    @property
    def next(self) -> int:
        return self.first + self.number

    @property
    def size(self) -> int:
        """Bytes of content."""
        return self.starts[-1] + self.lengths[-1] - self.starts[0]

    def within(self, start: int, stop: int) -> StreamChunk:
        """The part of it in [start, stop), which is not empty."""
        skip, keep = max(start - self.first, 0), min(stop - self.first, self.number)
        if not skip and keep == self.number:
            return self
        behind = list(accumulate(self.counts))  # each run: where it ends
        begin, end = bisect_right(behind, skip), bisect_right(behind, keep - 1) + 1
        counts = self.counts[begin:end]
        counts[-1] -= behind[end - 1] - keep
        counts[0] -= skip - (behind[begin - 1] if begin else 0)
        return StreamChunk(
            self.data,
            self.first + skip,
            self.starts[skip:keep],
            self.lengths[skip:keep],
            counts,
            self.times[begin:end],
            self.indexes[begin:end],
            self.addresses,
        )

    def first_since(self, time: int) -> int | None:
        """The first offset that came at ``time`` or later."""
        offset = self.first
        for count, came in zip(self.counts, self.times, strict=True):
            if came >= time:
                return offset
            offset += count
        return None

    def through(self, most_bytes: int) -> int:
        """The offset behind the last message that fits into so many bytes; at least one does."""
        limit = self.starts[0] + most_bytes
        if self.starts[-1] + self.lengths[-1] <= limit:
            return self.next
        return self.first + max(bisect_right(self.starts, limit) - 1, 1)

    def runs(self, known: dict[AddressKey, Address]) -> list[StreamRun]:
        """Its messages. ``known``: addresses that were made before, so that equal ones are shared."""
        for key in self.addresses:
            if key not in known:
                known[key] = Address(*key, 0, 0)
        own = [known[key] for key in self.addresses]
        data, first, behind = self.data, self.first, list(accumulate(self.counts, initial=0))
        ends = map(add, self.starts, self.lengths)
        contents = [data[start:end] for start, end in zip(self.starts, ends, strict=True)]
        addresses = chain.from_iterable(map(repeat, map(own.__getitem__, self.indexes), self.counts))
        messages = list(zip(contents, addresses, repeat(PERSISTENT)))
        spans = map(messages.__getitem__, map(slice, behind, behind[1:]))
        return list(map(make_run, zip([first + start for start in behind], self.times, spans, strict=False)))
