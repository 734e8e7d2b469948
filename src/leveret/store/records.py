"""The bytes of the journal: segments, records, and what is in them.  Hot path.

All numbers are big-endian unless noted otherwise. A segment is a file; it begins with

      0                  8                    16             24             32
      | magic "LEVERETJ" | segment id u64     | version u64  | checksum u64 |

and then records follow each other without gaps:

      0           4        8        9         10         12                 20               28
      | mark u32  | size   | kind   | flags   | place    | record number    | checksum       | body ... |
        "\\xf1LVR"   u32      u8       u8        u16        u64                u64              size bytes

The checksum (xxh3, 64 bits) covers the first 20 bytes and the body, seeded with the segment id and the offset: a record
that is incomplete, altered, left over from an earlier use of the file, or copied from another place does not pass. The
mark lets a reader find the next record behind a damaged one. Record numbers go up by one from record to record through
all segments. ``place`` is the record's place in its group (0, 1, ... 65535, 1, 2, ...) and flag 1 ends the group:
records of a group exist together or not at all. Most groups are one record. A group never spans two segments.

Bodies:

    PUBLISH   u16 number of places, f64 wall time of the publish
              each place: queue u64, lane u8, highest lane u8, sequence u64, number u32
              u8 length + exchange, u8 length + routing key, u8 shape, u32 number of messages
              shape 0, all plain:  number x u32 (little-endian) content length
              shape 1:             number x (content length u32, deadline f64, priority u8, persistent u8, zero u16)
              shape + 2, not all published with that exchange and key: before the above, u16 number of other pairs,
              each as the first; number x u16 (little-endian), which pair each message has, 0 for the first
              the contents, one after the other
    SETTLE    entries of (queue u64, lane u8, sequence u64, number u32, segment u32): settled
    RETURN    entries of (queue u64, lane u8, sequence u64, number u32, delivery count u32): requeued
    WAIT      entries of (queue u64, lane u8, sequence u64, number u32, delivery count and time u64): requeued, delayed
    STOP      empty: the clean-shutdown record, everything before it is complete

A place means: of the messages of this record that belong to this lane of this queue, in order, the first has this
sequence and the others follow. A message belongs to the lane of its priority, at most the highest lane. Deadlines are
wall time since 1970, infinite for none; they are the message's own, the queue's TTL counts from the wall time of the
publish. The segment in a SETTLE is where the message lay then: as long as that file exists, the entry is needed.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from struct import Struct, error
from typing import Literal, NamedTuple

from xxhash import xxh3_64, xxh3_64_intdigest

from leveret.message import NEVER, PERSISTENT, TRANSIENT, Address, Message, Traits
from leveret.store.log import Placement

MAGIC = b"LEVERETJ"
VERSION = 1
MARK = b"\xf1LVR"
SEGMENT_HEAD = Struct(">8sQQQ")
RECORD_HEAD = Struct(">4sIBBHQ")
CHECKSUM = Struct(">Q")
HEAD_SIZE = RECORD_HEAD.size + CHECKSUM.size
PUBLISH_HEAD = Struct(">Hd")
PLACE = Struct(">QBBQI")
SHAPE = Struct(">BI")
NUMBER = Struct(">H")
TRAITS = Struct(">IdBBH")
ENTRY = Struct(">QBQII")
WIDE_ENTRY = Struct(">QBQIQ")

PUBLISH, SETTLE, RETURN, STOP, WAIT = 1, 2, 3, 4, 5
KINDS = frozenset((PUBLISH, SETTLE, RETURN, STOP, WAIT))
RETURNS = frozenset((RETURN, WAIT))
END_OF_GROUP = 1
PLAIN, WITH_TRAITS, WITH_ADDRESSES = 0, 1, 2
COPY_BELOW = 8 << 10  # bytes: contents that are larger on average are not worth a copy into one buffer
LARGEST_PLACE = (1 << 16) - 1
MOST_PLACES = (1 << 16) - 1  # of the messages of one record
MOST_ADDRESSES = 1 << 16

pack_head = RECORD_HEAD.pack
pack_checksum = CHECKSUM.pack


class Damage(Exception):
    """Invalid bytes; raised and caught within the store."""


class Entry(NamedTuple):
    """An entry of a SETTLE (``about``: the segment) or of a RETURN or WAIT (``about``: store/returns.py)."""

    queue: int
    lane: int
    sequence: int
    number: int
    about: int


class Record(NamedTuple):
    """A checked record: where it begins, where its body begins and where the record ends."""

    kind: int
    place: int
    ends_group: bool
    number: int
    at: int
    body: int
    end: int


class Published(NamedTuple):
    """A PUBLISH record taken apart, without the contents. ``contents`` are their offsets in the data read, and the end
    of the last one; ``traits`` is empty when all messages are plain, ``which`` when all have the first address."""

    time: float
    places: list[Placement]
    addresses: list[tuple[str, str]]  # exchange and key
    which: array[int]
    contents: list[int]
    traits: list[tuple[int, float, int, int, int]]

    def members(self, place: Placement) -> Sequence[int]:
        """Which messages of the record are in this place."""
        if not self.traits:
            return range(len(self.contents) - 1)
        return [n for n, traits in enumerate(self.traits) if min(traits[2], place.highest) == place.lane]

    def size(self, place: Placement) -> int:
        """Bytes of content in this place."""
        if len(self.contents) - 1 == place.number:
            return self.contents[-1] - self.contents[0]
        return sum(self.contents[n + 1] - self.contents[n] for n in self.members(place))

    def messages(self, data: bytes, members: Iterable[int], wall_ahead: float) -> Iterator[Message]:
        """The messages, with deadlines in message time."""
        addresses = [Address(exchange, key, 0, 0) for exchange, key in self.addresses]
        address, which = addresses[0], self.which
        contents = self.contents
        for n in members:
            if which:
                address = addresses[which[n]]
            traits = PERSISTENT
            if self.traits:
                _, deadline, priority, persistent, _ = self.traits[n]
                if deadline != NEVER or priority:
                    traits = Traits(persistent=bool(persistent), deadline=deadline - wall_ahead, priority=priority)
                elif not persistent:
                    traits = TRANSIENT
            yield data[contents[n] : contents[n + 1]], address, traits


def place_in_group(n: int) -> int:
    """Only the first has 0."""
    return n if n <= LARGEST_PLACE else 1 + (n - 1) % LARGEST_PLACE


def seed(segment: int, offset: int) -> int:
    return (segment << 32 ^ offset) & 0xFFFFFFFFFFFFFFFF


# ---- writing


def segment_head(segment: int) -> bytes:
    bare = SEGMENT_HEAD.pack(MAGIC, segment, VERSION, 0)[:24]
    return bare + pack_checksum(xxh3_64_intdigest(bare, seed(segment, 0)))


def sealed(
    kind: int, flags: int, place: int, number: int, parts: list[bytes], segment: int, offset: int
) -> list[bytes]:
    """The record for its place in the journal, in one buffer or several; its body is the parts in a row."""
    if len(parts) == 1:
        body = parts[0]
        head = pack_head(MARK, len(body), kind, flags, place, number)
        checksum = xxh3_64_intdigest(body, xxh3_64_intdigest(head, seed(segment, offset)))
        return [b"".join((head, pack_checksum(checksum), body))]
    head = pack_head(MARK, sum(map(len, parts)), kind, flags, place, number)
    digest = xxh3_64(seed=xxh3_64_intdigest(head, seed(segment, offset)))
    for part in parts:
        digest.update(part)
    return [b"".join((head, pack_checksum(digest.intdigest()), parts[0])), *parts[1:]]


def publish_body(
    messages: Sequence[Message],
    placements: Sequence[Placement],
    time: float,
    wall_ahead: float,
    one_address: bool = True,
    plain: bool | None = None,
) -> list[bytes]:
    """The parts of the body. ``wall_ahead`` turns message time into wall time. ``one_address``: they all have the first
    one's; else at most MOST_ADDRESSES. ``plain``: the result of ``are_plain``, if the caller has it."""
    address = messages[0][1]
    contents = [message[0] for message in messages]
    parts = [PUBLISH_HEAD.pack(len(placements), time)]
    parts += [
        PLACE.pack(queue, lane, highest, sequence, number) for queue, lane, sequence, number, highest in placements
    ]
    parts += _pair(address.exchange, address.key)
    shape, further = (0, ()) if one_address else (WITH_ADDRESSES, _further_addresses(messages))
    if are_plain(messages) if plain is None else plain:
        parts.append(SHAPE.pack(shape | PLAIN, len(messages)))
        parts += (*further, _little_endian(array("I", map(len, contents))))
    else:
        parts.append(SHAPE.pack(shape | WITH_TRAITS, len(messages)))
        parts += further
        parts += [
            TRAITS.pack(len(content), traits.deadline + wall_ahead, traits.priority, traits.persistent, 0)
            for content, _, traits in messages
        ]
    if sum(map(len, contents)) > COPY_BELOW * len(contents):
        return [b"".join(parts), *contents]
    return [b"".join(parts + contents)]


def are_plain(messages: Sequence[Message]) -> bool:
    """Whether none has traits of its own."""
    return not [True for message in messages if message[2] is not PERSISTENT]


def _pair(exchange: str, key: str) -> tuple[bytes, bytes, bytes, bytes]:
    raw_exchange, raw_key = exchange.encode(), key.encode()
    return bytes((len(raw_exchange),)), raw_exchange, bytes((len(raw_key),)), raw_key


def _further_addresses(messages: Sequence[Message]) -> tuple[bytes, ...]:
    known: dict[int, int] = {}  # by the address itself: channels have their own of the same exchange and key
    others: list[Address] = []
    which = array("H")
    for _, address, _ in messages:
        place = known.get(id(address))
        if place is None:
            place = known[id(address)] = len(known)
            others.append(address)
        which.append(place)
    pairs = [part for address in others[1:] for part in _pair(address.exchange, address.key)]
    return NUMBER.pack(len(others) - 1), *pairs, _little_endian(which)


def copied_body(
    published: Published, data: bytes, members: Sequence[int], placements: Sequence[Placement]
) -> list[bytes]:
    """The parts of the body for some messages of a record that is copied elsewhere."""
    parts = [PUBLISH_HEAD.pack(len(placements), published.time)]
    parts += [
        PLACE.pack(queue, lane, highest, sequence, number) for queue, lane, sequence, number, highest in placements
    ]
    parts += _pair(*published.addresses[0])
    shape = WITH_TRAITS if published.traits else PLAIN
    further: list[bytes] = []
    if published.which:
        shape |= WITH_ADDRESSES
        pairs = [part for pair in published.addresses[1:] for part in _pair(*pair)]
        which = array("H", [published.which[n] for n in members])
        further = [NUMBER.pack(len(published.addresses) - 1), *pairs, _little_endian(which)]
    contents = [data[published.contents[n] : published.contents[n + 1]] for n in members]
    parts += (SHAPE.pack(shape, len(members)), *further)
    if published.traits:
        parts += [TRAITS.pack(*published.traits[n]) for n in members]
    else:
        parts.append(_little_endian(array("I", map(len, contents))))
    return [b"".join(parts + contents)]


def _little_endian(numbers: array[int]) -> bytes:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def entries_body(entries: Iterable[Entry]) -> bytes:
    return b"".join([ENTRY.pack(*entry) for entry in entries])


def returns_body(entries: Sequence[Entry]) -> tuple[int, bytes]:
    """The kind of record that these returns need, and its body."""
    if all(entry.about < 1 << 32 for entry in entries):
        return RETURN, entries_body(entries)
    return WAIT, b"".join([WIDE_ENTRY.pack(*entry) for entry in entries])


# ---- reading


def read_segment_head(data: bytes) -> int:
    """The segment's id; Damage if these bytes are not the head of a segment that we can read."""
    if len(data) < SEGMENT_HEAD.size:
        raise Damage("shorter than the head of a segment")
    magic, segment, version, checksum = SEGMENT_HEAD.unpack_from(data)
    if magic != MAGIC or checksum != xxh3_64_intdigest(data[:24], seed(segment, 0)):
        raise Damage("not the head of a segment")
    if version != VERSION:
        raise Damage(f"a segment of version {version}, this program reads {VERSION}")
    return int(segment)


def read_record(data: bytes, at: int, segment: int, base: int = 0) -> Record:
    """Check the record at ``at``; ``base`` is the offset of data[0] within the segment."""
    if len(data) - at < HEAD_SIZE:
        raise Damage("shorter than the head of a record")
    mark, size, kind, flags, place, number = RECORD_HEAD.unpack_from(data, at)
    if mark != MARK or kind not in KINDS:
        raise Damage("not the head of a record")
    body = at + HEAD_SIZE
    end = body + size
    if end > len(data):
        raise Damage(f"a record of {size} bytes goes beyond the end")
    own_seed = xxh3_64_intdigest(data[at : at + RECORD_HEAD.size], seed(segment, base + at))
    if CHECKSUM.unpack_from(data, at + RECORD_HEAD.size)[0] != xxh3_64_intdigest(data[body:end], own_seed):
        raise Damage("the checksum does not match")
    return Record(kind, place, bool(flags & END_OF_GROUP), number, at, body, end)


def record_size(data: bytes, at: int) -> int:
    """The size of the record at ``at`` according to its head, head included."""
    return HEAD_SIZE + int(RECORD_HEAD.unpack_from(data, at)[1])


def record_number(data: bytes, at: int) -> int:
    return int(RECORD_HEAD.unpack_from(data, at)[5])


def read_publish(data: bytes, record: Record) -> Published:
    try:
        return _read_publish(data, record)
    except (error, IndexError, ValueError) as problem:
        raise Damage(f"a publish that cannot be read: {problem}") from problem


def read_places(data: bytes, record: Record) -> list[Placement]:
    number, _ = PUBLISH_HEAD.unpack_from(data, record.body)
    places = []
    for n in range(number):
        queue, lane, highest, sequence, count = PLACE.unpack_from(
            data, record.body + PUBLISH_HEAD.size + n * PLACE.size
        )
        places.append(Placement(queue, lane, sequence, count, highest))
    return places


def _read_publish(data: bytes, record: Record) -> Published:
    number, time = PUBLISH_HEAD.unpack_from(data, record.body)
    places = read_places(data, record)
    at = record.body + PUBLISH_HEAD.size + number * PLACE.size
    first, at = _read_pair(data, at)
    addresses = [first]
    shape, count = SHAPE.unpack_from(data, at)
    at += SHAPE.size
    which = array("H")
    if shape & WITH_ADDRESSES:
        (further,) = NUMBER.unpack_from(data, at)
        at += NUMBER.size
        for _ in range(further):
            pair, at = _read_pair(data, at)
            addresses.append(pair)
        which, at = _numbers("H", data, at, count)
        if count and max(which) >= len(addresses):
            raise Damage("a publish that names an address it does not have")
    traits: list[tuple[int, float, int, int, int]] = []
    if not shape & WITH_TRAITS:
        lengths: Iterable[int]
        lengths, at = _numbers("I", data, at, count)
    else:
        traits = [TRAITS.unpack_from(data, at + n * TRAITS.size) for n in range(count)]
        at += count * TRAITS.size
        lengths = [each[0] for each in traits]
    contents = list(accumulate(lengths, initial=at))
    if contents[-1] != record.end:
        raise Damage("a publish whose contents do not fill it")
    return Published(time, places, addresses, which, contents, traits)


def _read_pair(data: bytes, at: int) -> tuple[tuple[str, str], int]:
    exchange, at = _short(data, at)
    key, at = _short(data, at)
    return (exchange, key), at


def _short(data: bytes, at: int) -> tuple[str, int]:
    end = at + 1 + data[at]
    return data[at + 1 : end].decode(), end


def _numbers(kind: Literal["H", "I"], data: bytes, at: int, count: int) -> tuple[array[int], int]:
    """Little-endian on disk, with two bytes each or with four."""
    numbers = array(kind)
    end = at + count * numbers.itemsize
    numbers.frombytes(data[at:end])
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers, end


def read_entries(data: bytes, record: Record) -> list[Entry]:
    shape = WIDE_ENTRY if record.kind == WAIT else ENTRY
    if (record.end - record.body) % shape.size:
        raise Damage("entries that do not fill their record")
    return [Entry(*entry) for entry in shape.iter_unpack(data[record.body : record.end])]
