"""Changing single properties and headers of a stored content, and leaving every other byte as the publisher sent it.

Decoding and encoding anew would change the types of numbers in the headers (a small int64 would come back as an int32),
which clients in typed languages notice. So the properties are cut into raw pieces, and the table of headers into raw
fields; only those that change are made anew.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from leveret.errors import FrameError
from leveret.wire.constants import BASIC_CLASS, FRAME_HEADER
from leveret.wire.content import PAYLOAD, PROPERTIES_AT, body_at, body_size
from leveret.wire.fields import (
    INT64,
    UINT16,
    decode_short,
    decode_table,
    decode_value,
    encode_long,
    encode_short,
    expect_end,
)
from leveret.wire.frames import CONTENT_HEADER, ENVELOPE, frame
from leveret.wire.properties import FLAG_CONTENT_ENCODING, FLAG_CONTENT_TYPE, FLAG_HEADERS, LAYOUT, UNKNOWN_FLAGS

NO_HEADERS = encode_long(b"")


def long(value: int) -> bytes:
    """The raw value of a field: a number as RabbitMQ sends its own, with 64 bits."""
    return b"l" + INT64.pack(value)


def spliced(
    content: bytes,
    headers: Mapping[str, bytes],
    *,
    without: Collection[str] = (),
    drops: Collection[int] = (),
    sets: Mapping[int, bytes] | None = None,
) -> bytes:
    """The same content with these headers (raw values) set and others removed, and with the properties of some flags
    dropped or set (raw, too).

    FrameError if its properties cannot be read.
    """
    start = body_at(content)
    pieces = _pieces(content, PROPERTIES_AT, start - 1)
    pieces[FLAG_HEADERS] = _new_table(pieces.get(FLAG_HEADERS, NO_HEADERS), headers, {*headers, *without})
    if pieces[FLAG_HEADERS] == NO_HEADERS:
        del pieces[FLAG_HEADERS]
    for flag in drops:
        pieces.pop(flag, None)
    pieces.update(sets or {})
    flags = UINT16.pack(sum(pieces))
    packed = flags + b"".join([pieces[flag] for flag, _, _, _ in LAYOUT if flag in pieces])
    payload = CONTENT_HEADER.pack(BASIC_CLASS, 0, body_size(content)) + packed
    return frame(FRAME_HEADER, int.from_bytes(content[1:3], "big"), payload) + content[start:]


def appended(head: bytes, fields: bytes) -> bytes:
    """A header frame with more headers behind those it has. ``fields`` are names and raw values, none of them there
    already. FrameError if the headers that are there cannot be read."""
    before, behind = opened(head, len(fields))
    return before + fields + behind


def opened(head: bytes, room: int) -> tuple[bytes, bytes]:
    """A header frame in two parts, between which ``room`` bytes of further headers belong; as ``appended``."""
    flags = int.from_bytes(head[PROPERTIES_AT : PROPERTIES_AT + 2], "big")
    at, end = PROPERTIES_AT + 2, len(head) - 1
    for flag in (FLAG_CONTENT_TYPE, FLAG_CONTENT_ENCODING):
        if flags & flag:
            _, at = decode_short(head, at, end)
    first, fields, rest = head[PROPERTIES_AT + 2 : at], b"", at
    if flags & FLAG_HEADERS:
        _, rest = decode_table(head, at, end)
        fields = head[at + 4 : rest]
    table = (len(fields) + room).to_bytes(4, "big") + fields
    packed = head[PAYLOAD:PROPERTIES_AT] + UINT16.pack(flags | FLAG_HEADERS) + first + table
    size = len(packed) + room + end - rest
    return ENVELOPE.pack(FRAME_HEADER, int.from_bytes(head[1:3], "big"), size) + packed, head[rest:]


def _pieces(data: bytes, offset: int, end: int) -> dict[int, bytes]:
    """The raw properties by their flags."""
    flags = int.from_bytes(data[offset : offset + 2], "big")
    if flags & UNKNOWN_FLAGS:
        raise FrameError(f"unknown property flags 0x{flags & UNKNOWN_FLAGS:04x}")
    offset += 2
    pieces: dict[int, bytes] = {}
    for flag, _, _, decode in LAYOUT:
        if flags & flag:
            _, stop = decode(data, offset, end)
            pieces[flag] = data[offset:stop]
            offset = stop
    expect_end(offset, end)
    return pieces


def _new_table(table: bytes, fields: Mapping[str, bytes], without: set[str]) -> bytes:
    kept: list[bytes] = []
    offset, end = 4, len(table)
    while offset < end:
        name, at = decode_short(table, offset, end)
        _, stop = decode_value(table, at, end)
        if name not in without:
            kept.append(table[offset:stop])
        offset = stop
    kept += [encode_short(name) + value for name, value in fields.items()]
    return encode_long(b"".join(kept))
