"""Messages as Arrow columns, without a Python step per message.

Theory of operation. A *slab* is one bytes object with many contents, and the start and length of each. Numbers in the
frames (sizes, flags) are read from all contents at once: a view of the bytes with a big-endian number at *every*
position is indexed with the positions of interest. Bodies are then extracted at once: in a binary array over the slab
whose values are body, gap, body, gap, every second value is taken.

    | head frame | 3 | channel | size | body | 0xCE | head frame | ...
                 ^ frame                ^ start      ^ stop + 1

If a content of the slab has several body frames, or none, its bodies are decoded one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from leveret.message import Message
from leveret.pipeline.arrow_schema import PROPERTIES
from leveret.wire.constants import FRAME_OVERHEAD
from leveret.wire.content import PAYLOAD, SIZE_AT, body_of

Places = npt.NDArray[np.int64]

TIME = pa.timestamp("us", tz="UTC")
HEADERS = pa.map_(pa.string(), pa.string())
PROPERTY_TYPES = {"delivery_mode": pa.int32(), "priority": pa.int32(), "timestamp": TIME}
PROPERTIES_TYPE = pa.struct([(name, PROPERTY_TYPES.get(name, pa.string())) for name in PROPERTIES])
TYPES = {
    "body": pa.binary(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": TIME,
    "redelivered": pa.bool_(),
    "headers": HEADERS,
    "properties": PROPERTIES_TYPE,
}


def schema_of(columns: Sequence[str]) -> pa.Schema:
    return pa.schema([(name, TYPES.get(name, pa.string())) for name in columns])


class Slab:
    """Contents of many messages in one bytes, ascending, without overlap. ``u16`` etc.: the number at each position."""

    __slots__ = ("buffer", "data", "lengths", "starts", "u8", "u16", "u32", "u64")

    def __init__(self, data: bytes, starts: Places, lengths: Places) -> None:
        self.data = data
        self.buffer = pa.py_buffer(data)
        self.starts = starts
        self.lengths = lengths
        self.u8 = np.frombuffer(data, np.uint8)
        self.u16, self.u32, self.u64 = (_at_every_place(data, width) for width in (2, 4, 8))

    def __len__(self) -> int:
        return len(self.starts)

    def content(self, row: int) -> bytes:
        start = int(self.starts[row])
        return self.data[start : start + int(self.lengths[row])]


def slab_of(messages: Sequence[Message]) -> Slab:
    contents = [message[0] for message in messages]
    lengths = np.fromiter(map(len, contents), np.int64, len(contents))
    return Slab(b"".join(contents), np.cumsum(lengths) - lengths, lengths)


class Stretch(NamedTuple):
    """Contents that lie in the same bytes, ascending."""

    data: bytes
    starts: Places
    lengths: Places

    @property
    def end(self) -> int:
        return int(self.starts[-1] + self.lengths[-1])


def joined(stretches: Sequence[Stretch]) -> Slab:
    """Contents that follow each other in the same bytes stay there; others are copied side by side."""
    groups: list[list[Stretch]] = []
    for stretch in stretches:
        last = groups[-1][-1] if groups else None
        if last is not None and last.data is stretch.data and last.end <= stretch.starts[0]:
            groups[-1].append(stretch)
        else:
            groups.append([stretch])
    lengths = one_array([stretch.lengths for stretch in stretches])
    if len(groups) == 1:
        return Slab(stretches[0].data, one_array([stretch.starts for stretch in stretches]), lengths)
    pieces: list[memoryview] = []
    starts: list[Places] = []
    behind = 0
    for group in groups:
        begin, end = int(group[0].starts[0]), group[-1].end
        pieces.append(memoryview(group[0].data)[begin:end])
        starts += [stretch.starts - begin + behind for stretch in group]
        behind += end - begin
    return Slab(b"".join(pieces), one_array(starts), lengths)


def one_array(arrays: Sequence[Places]) -> Places:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _at_every_place(data: bytes, width: int) -> npt.NDArray[np.uint64]:
    number = max(len(data) - width + 1, 0)
    return np.ndarray((number,), dtype=f">u{width}", buffer=data if number else bytes(width), strides=(1,))


def bodies(slab: Slab) -> pa.Array:
    stops = slab.starts + slab.lengths
    frames = slab.starts + slab.u32[slab.starts + SIZE_AT] + FRAME_OVERHEAD
    has_body = frames < stops
    if has_body.all():
        sizes = slab.u32[frames + SIZE_AT].astype(np.int64)
        if (frames + sizes + FRAME_OVERHEAD == stops).all():
            return cut(slab, frames + PAYLOAD, stops - 1)
    return pa.array([body_of(slab.content(row)) for row in range(len(slab))], pa.binary())


def cut(slab: Slab, starts: Places, stops: Places) -> pa.Array:
    """The bytes of the slab between each start and its stop; positions ascend."""
    number = len(starts)
    if number == 0:
        return pa.array([], pa.binary())
    edges = np.empty(2 * number, np.int32)
    edges[0::2] = starts
    edges[1::2] = stops
    both = pa.Array.from_buffers(pa.binary(), 2 * number - 1, [None, pa.py_buffer(edges), slab.buffer])
    return both.take(pa.array(np.arange(0, 2 * number, 2, dtype=np.int32)))


def texts(values: pa.Array) -> pa.Array:
    """Binary values as text. Bytes that are not UTF-8 become backslash escapes."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([value.decode("utf-8", "backslashreplace") for value in values.to_pylist()], pa.string())


def numbers(values: npt.NDArray[np.int64], kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def repeated(value: object, kind: pa.DataType, number: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), number)


def spread(values: pa.Array, rows: Places, number: int) -> pa.Array:
    """A column of ``number`` rows that has these values in these rows and null in all others."""
    if len(rows) == number:
        return values
    places = np.zeros(number, np.int32)
    missing = np.ones(number, np.bool_)
    places[rows] = np.arange(len(rows), dtype=np.int32)
    missing[rows] = False
    return values.take(pa.array(places, mask=missing))
