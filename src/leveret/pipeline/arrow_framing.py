"""Cuts an Arrow IPC stream into its messages as it comes in, so that no more than one message is ever held.

    | 0xFFFFFFFF | size of the metadata | metadata, a flatbuffer | body |
      4            4, little-endian       size                     as the metadata says

Of the metadata only two things are read here: how long the body is, and whether it is compressed. The rest is for
pyarrow, once the message is whole.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from struct import Struct

from leveret.management.errors import BadRequest, TooLarge

PREFIX = 8
CONTINUATION = b"\xff\xff\xff\xff"
MOST_METADATA = 1 << 20
MOST_BODY = 128 << 20

BODY_LENGTH = 3  # fields of a Message, by their place in its table
HEADER = 2
COMPRESSION = 3  # of a RecordBatch
HEADER_TYPE = 1
RECORD_BATCH = 3  # as the type of a header

_uint32 = Struct("<I").unpack_from
_int32 = Struct("<i").unpack_from
_uint16 = Struct("<H").unpack_from
_int64 = Struct("<q").unpack_from

Framed = list[bytes]  # one message, in pieces


class Framing:
    """``feed`` bytes in any slicing, get whole messages. ``is_over`` after the end of the stream."""

    def __init__(self) -> None:
        self.is_over = False
        self._front = bytearray()  # prefix and metadata
        self._needs = PREFIX
        self._body: Framed = []
        self._held = 0  # bytes of the body that are here
        self._missing = 0  # those that are not

    @property
    def held(self) -> int:
        """Bytes that wait for the rest of their message."""
        return len(self._front) + self._held

    def feed(self, part: bytes) -> Iterator[Framed]:
        at = 0
        while at < len(part):
            if self.is_over:
                raise BadRequest("the Arrow stream has ended, and more follows: send one stream in one body")
            if self._missing:
                piece = part[at : at + self._missing]
                self._body.append(piece)
                self._missing -= len(piece)
                self._held += len(piece)
            else:
                piece = part[at : at + self._needs - len(self._front)]
                self._front += piece
                self._look_at_front()
            at += len(piece)
            if not self._missing and self._needs == 0:
                yield self._whole()

    def finish(self) -> None:
        """The body is over; so must the stream be, or a writer that died between two batches passed for one that is
        done."""
        if not self.is_over:
            raise BadRequest("the Arrow stream ends without its end mark: close the writer, and send it whole")

    def _look_at_front(self) -> None:
        front = self._front
        if len(front) < self._needs:
            return
        if len(front) == PREFIX:
            size = _uint32(front, 4)[0]
            if front[:4] != CONTINUATION:
                raise BadRequest("the body is no Arrow IPC stream: send the bytes of pyarrow.ipc.new_stream")
            if size == 0:
                self.is_over = True
                front.clear()
                return
            if size > MOST_METADATA:
                raise TooLarge(f"metadata of {size} bytes in the Arrow stream: at most {MOST_METADATA} are taken")
            self._needs = PREFIX + size
            return
        self._needs = 0
        self._missing = body_length(bytes(front[PREFIX:]))

    def _whole(self) -> Framed:
        message = [bytes(self._front), *self._body]
        self._front.clear()
        self._body.clear()
        self._needs, self._held = PREFIX, 0
        return message


def body_length(metadata: bytes) -> int:
    """How many bytes follow the metadata of a message."""
    try:
        message = _uint32(metadata, 0)[0]
        length_at = _field(metadata, message, BODY_LENGTH)
        length = _int64(metadata, length_at)[0] if length_at else 0
        type_at, header_at = _field(metadata, message, HEADER_TYPE), _field(metadata, message, HEADER)
        if type_at and header_at and metadata[type_at] == RECORD_BATCH:
            header = header_at + _uint32(metadata, header_at)[0]
            if _field(metadata, header, COMPRESSION):
                raise BadRequest("the Arrow stream is compressed: send it without compression")
    except (struct.error, IndexError):
        raise BadRequest("the Arrow stream is damaged: the metadata of a message cannot be read") from None
    if not 0 <= length <= MOST_BODY:
        raise TooLarge(f"a record batch of {length} bytes: at most {MOST_BODY} are taken, send smaller batches")
    return length


def _field(data: bytes, table: int, number: int) -> int:
    """Where a field of a flatbuffer's table is; 0 if it is not there."""
    vtable = table - _int32(data, table)[0]
    place = 4 + 2 * number
    if vtable < 0 or place >= _uint16(data, vtable)[0]:
        return 0
    offset: int = _uint16(data, vtable + place)[0]
    return table + offset if offset else 0
