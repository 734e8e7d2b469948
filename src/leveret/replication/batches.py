"""The body of a batch in the replicated log: what a member must do to have the same data directory as the leader.

    u32 size of the table, the table (msgpack), then the bytes of all writes, one after the other

The table is ``[changes, writes, removals, trims]``:

    changes     [0, kind, values] puts a row of the definitions, [1, kind, key] drops one
    writes      [segment, offset, size]: so many bytes belong at this place of this segment. A size of 0 begins the
                segment without a record in it.
    removals    segments whose files are not needed any more
    trims       [stream, offset]: retention has removed the messages of this stream below this offset

A member first commits the changes, then writes, then removes, as the leader does (store/batch.py). Trims come last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from struct import error as StructError
from typing import Any, NamedTuple, get_type_hints

import msgspec

from leveret.errors import ClusterError
from leveret.store.batch import Batch
from leveret.store.definitions import (
    KEYS,
    BindingRow,
    Change,
    Drop,
    ExchangeRow,
    ParameterRow,
    PermissionRow,
    Put,
    QueueRow,
    Row,
    TopicPermissionRow,
    UserRow,
    VhostRow,
)
from leveret.store.records import SEGMENT_HEAD

KINDS: dict[str, type[Row]] = {  # names of the log: they never change
    "vhost": VhostRow,
    "user": UserRow,
    "permission": PermissionRow,
    "topic permission": TopicPermissionRow,
    "exchange": ExchangeRow,
    "queue": QueueRow,
    "binding": BindingRow,
    "parameter": ParameterRow,
}
NAMES = {kind: name for name, kind in KINDS.items()}
# The types of the values of each key.
KEY_TYPES: dict[type[Row], Any] = {
    kind: tuple.__class_getitem__(tuple(get_type_hints(kind)[name] for name in names)) for kind, names in KEYS.items()
}
PUT, DROP = 0, 1
SIZE = Struct(">I")
FIRST_OFFSET = SEGMENT_HEAD.size  # the head of a segment follows from its number
LARGEST_SEGMENT = (1 << 32) - 1  # settles name segments by 32 bits
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(
    tuple[list[tuple[int, str, list[Any]]], list[tuple[int, int, int]], list[int], list[tuple[int, int]]]
).decode


class Write(NamedTuple):
    segment: int
    offset: int
    data: bytes | memoryview


class Contents(NamedTuple):
    """A batch as members see it."""

    changes: list[Change]
    writes: list[Write]
    removals: list[int]
    trims: list[tuple[int, int]]  # stream and first offset


class SegmentEnd:
    """Where the journal ends: a batch says which segment it appends to, members are told the offset too.

    Segments are begun in the order of their numbers, and only the newest is appended to.
    """

    def __init__(self) -> None:
        self.segment = 0
        self.offset = 0

    def advance(self, segment: int, size: int) -> int:
        """The offset at which ``size`` bytes go into this segment."""
        if segment < self.segment:
            raise ClusterError(f"the journal writes to segment {segment} after segment {self.segment}: this is a bug")
        if segment > self.segment:
            self.segment, self.offset = segment, FIRST_OFFSET
        offset, self.offset = self.offset, self.offset + size
        return offset


def encode_batches(batches: Sequence[Batch], end: SegmentEnd, trims: Iterable[tuple[int, int]] = ()) -> bytes:
    """The body for these batches of the leader, which become one batch of the log: first come all changes, then all
    writes, then all removals, as in the writer. ``end`` is moved on: the order of calls is that of the journal."""
    table: list[tuple[int, int, int]] = []
    buffers: list[bytes] = []
    for batch in batches:
        for segment, parts in batch.writes:
            size = sum([len(part) for part in parts])
            table.append((segment, end.advance(segment, size), size))
            buffers += parts
    changes = [change for batch in batches for change in _changes(batch.changes)]
    removals = [segment for batch in batches for segment in batch.removals]
    packed = _encode((changes, table, removals, list(trims)))
    return b"".join((SIZE.pack(len(packed)), packed, *buffers))


def _changes(changes: Sequence[Change]) -> list[tuple[int, str, tuple[Any, ...]]]:
    return [
        (PUT, NAMES[type(change.row)], tuple(change.row))
        if isinstance(change, Put)
        else (DROP, NAMES[change.kind], change.key)
        for change in changes
    ]


def decode_batch(body: bytes | memoryview) -> Contents:
    """Raises ClusterError for anything that ``encode_batches`` does not produce."""
    view = memoryview(body)
    try:
        (size,) = SIZE.unpack_from(view)
        changes, table, removals, trims = _decode(view[SIZE.size : SIZE.size + size])
        writes = _writes(table, view[SIZE.size + size :])
        return Contents([_change(*change) for change in changes], writes, removals, trims)
    except (StructError, msgspec.MsgspecError, KeyError, ValueError) as problem:
        raise ClusterError(f"a batch of the replicated log cannot be read ({problem}): upgrade this node") from problem


def _change(operation: int, name: str, values: list[Any]) -> Change:
    kind = KINDS[name]
    if operation == PUT:
        return Put(msgspec.convert(values, kind))
    if operation == DROP:
        return Drop(kind, msgspec.convert(values, KEY_TYPES[kind]))
    raise ValueError(f"unknown change {operation}")


def _writes(table: Iterable[tuple[int, int, int]], data: memoryview) -> list[Write]:
    writes: list[Write] = []
    at = 0
    for segment, offset, size in table:
        if not (0 < segment <= LARGEST_SEGMENT and offset >= FIRST_OFFSET and size >= 0):
            raise ValueError(f"a write of {size} bytes at {offset} of segment {segment}")
        writes.append(Write(segment, offset, data[at : at + size]))
        at += size
    if at != len(data):
        raise ValueError(f"{at} bytes are announced and {len(data)} are there")
    return writes
