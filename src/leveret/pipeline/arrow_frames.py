"""Splits an Arrow IPC stream into its messages as it arrives, so that no more than one message is ever held.

    | 0xFFFFFFFF | size of the metadata | metadata, a flatbuffer | body |
      4            4, little-endian       size                     length in the metadata

An IPC message can be small on the wire and large when it is decoded. The metadata is therefore checked here,
before any byte of the body is kept or passed to pyarrow: accepted messages are decoded without a copy, and take as much
memory as they have bytes.

- Metadata version V5: in V4, a deprecated key of the custom metadata declares compressed buffers.
- No custom metadata on a message, for the same reason.
- No compression. No view types (pipeline/arrow_contents.py), where many values can share the same bytes.
- Buffers follow each other: two columns cannot use the same bytes.
- At most as many rows as the body has bytes, and as many values in all columns as it has bits: some types use no bytes
  per value.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from struct import Struct

from leveret.http.errors import BadRequest, ContentTooLarge

PREFIX = 8
CONTINUATION = b"\xff\xff\xff\xff"
MOST_METADATA = 1 << 20
MOST_BODY = 128 << 20
MOST_BUFFERS = 1_000

# Fields of a Message and of a RecordBatch, by their place in its table.
VERSION, HEADER_TYPE, HEADER, BODY_LENGTH, CUSTOM_METADATA = range(5)
ROWS, NODES, BUFFERS, COMPRESSION = range(4)
V5 = 4
SCHEMA, RECORD_BATCH = 1, 3  # as the type of a header

_uint32 = Struct("<I").unpack_from
_int32 = Struct("<i").unpack_from
_int16 = Struct("<h").unpack_from
_uint16 = Struct("<H").unpack_from
_int64 = Struct("<q").unpack_from
_NODE = Struct("<qq")  # length, number of nulls
_BUFFER = Struct("<qq")  # offset, length

Framed = bytearray  # one message, whole


class Framing:
    """``feed`` takes bytes in any slicing and yields whole messages. ``is_over`` after the end of the stream."""

    def __init__(self, most_body: int = MOST_BODY) -> None:
        self.is_over = False
        self._most_body = most_body
        self._message = bytearray()
        self._front = PREFIX  # bytes before the body, as far as known yet
        self._needs = PREFIX  # bytes of the whole message, as far as known yet

    @property
    def held(self) -> int:
        """Bytes that wait for the rest of their message."""
        return len(self._message)

    def feed(self, part: bytes) -> Iterator[Framed]:
        at = 0
        while at < len(part):
            if self.is_over:
                raise BadRequest("data after the end of the Arrow stream: send one stream per body")
            piece = part[at : at + self._needs - len(self._message)]
            self._message += piece
            at += len(piece)
            if len(self._message) == self._needs and self._is_whole():
                message, self._message = self._message, bytearray()
                self._front = self._needs = PREFIX
                yield message

    def finish(self) -> None:
        """Call at the end of the request body. The stream must have ended too: otherwise the data of a writer that
        failed between two batches would look complete."""
        if not self.is_over:
            raise BadRequest("the Arrow stream is incomplete: close the writer before sending")

    def _is_whole(self) -> bool:
        """Whether the message is complete. Called when all bytes known to be needed have arrived."""
        message = self._message
        if self._needs > self._front:
            return True  # the body
        if self._front > PREFIX:
            self._needs += body_length(bytes(message[PREFIX:]), self._most_body)
            return self._needs == self._front
        size = _uint32(message, 4)[0]
        if message[:4] != CONTINUATION:
            raise BadRequest("the body is not an Arrow IPC stream: send the output of pyarrow.ipc.new_stream")
        if size == 0:
            self.is_over = True
            message.clear()
            return False
        if size > MOST_METADATA:
            raise ContentTooLarge(f"metadata of {size} bytes in the Arrow stream: the limit is {MOST_METADATA}")
        self._front = self._needs = PREFIX + size
        return False


def body_length(metadata: bytes, most: int = MOST_BODY) -> int:
    """The number of bytes after the metadata; BadRequest for a message that cannot be decoded in bounded memory."""
    try:
        message = _uint32(metadata, 0)[0]
        version_at, length_at = _field(metadata, message, VERSION), _field(metadata, message, BODY_LENGTH)
        version, length = _int16(metadata, version_at)[0] if version_at else 0, _number(metadata, length_at)
        if version < V5:
            raise BadRequest(f"the Arrow stream has metadata version V{version + 1}: write it in version V5")
        if _vector(metadata, _field(metadata, message, CUSTOM_METADATA))[1]:
            raise BadRequest("a message of the Arrow stream has custom metadata: write batches without it")
        if not 0 <= length <= most:
            raise ContentTooLarge(f"a record batch of {length} bytes: the limit is {most}; send smaller batches")
        type_at, header_at = _field(metadata, message, HEADER_TYPE), _field(metadata, message, HEADER)
        kind = metadata[type_at] if type_at and header_at else 0
        if kind == RECORD_BATCH:
            _refuse_large_batch(metadata, header_at + _uint32(metadata, header_at)[0], length)
        elif kind != SCHEMA:
            raise BadRequest("the Arrow stream has more than a schema and record batches: send no dictionaries")
    except (struct.error, IndexError):
        raise BadRequest("the Arrow stream is damaged: the metadata of a message cannot be read") from None
    return length


def _refuse_large_batch(metadata: bytes, batch: int, length: int) -> None:
    """Refuse a record batch that becomes larger than its body when it is decoded."""
    if _field(metadata, batch, COMPRESSION):
        raise BadRequest("the Arrow stream is compressed: send it without compression")
    rows = _number(metadata, _field(metadata, batch, ROWS))
    if not 0 <= rows <= length:
        raise BadRequest(f"a record batch of {rows} rows in {length} bytes: send rows with a body")
    first, number = _vector(metadata, _field(metadata, batch, NODES))
    lengths = [_NODE.unpack_from(metadata, first + place * _NODE.size)[0] for place in range(number)]
    if min(lengths, default=0) < 0 or sum(lengths) > 8 * length:
        raise BadRequest(
            f"a record batch of {sum(lengths)} values in {length} bytes: leave out columns and lists of the type null"
        )
    first, number = _vector(metadata, _field(metadata, batch, BUFFERS))
    if number > MOST_BUFFERS:
        raise BadRequest(f"a record batch has {number} buffers: the limit is {MOST_BUFFERS}; send fewer columns")
    end = 0
    for place in range(first, first + number * _BUFFER.size, _BUFFER.size):
        offset, size = _BUFFER.unpack_from(metadata, place)
        if size and not end <= offset <= offset + size <= length:
            raise BadRequest("the Arrow stream is damaged: buffers of a record batch overlap, or lie outside its body")
        end = max(end, offset + size)


def _field(data: bytes, table: int, number: int) -> int:
    """The position of a field of a flatbuffer table; 0 if it is missing."""
    vtable = table - _int32(data, table)[0]
    place = 4 + 2 * number
    if vtable < 0 or place >= _uint16(data, vtable)[0]:
        return 0
    offset: int = _uint16(data, vtable + place)[0]
    return table + offset if offset else 0


def _number(data: bytes, place: int) -> int:
    value: int = _int64(data, place)[0] if place else 0
    return value


def _vector(data: bytes, place: int) -> tuple[int, int]:
    """The position of the first element of a vector, and the number of elements: 0 if the field is missing."""
    if not place:
        return 0, 0
    vector = place + _uint32(data, place)[0]
    return vector + 4, _uint32(data, vector)[0]
