"""Changes single properties and headers of stored content, and keeps every other byte as the publisher sent it.

Decoding and encoding again would change the types of numbers in the headers (a small int64 would become an int32),
which matters to clients in typed languages. So the properties are split into raw pieces, and the table of headers into
raw fields; only those that change are encoded again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from leveret.errors import FrameError
from leveret.wire.constants import BASIC_CLASS, FRAME_HEADER
from leveret.wire.content import PAYLOAD, PROPERTIES_AT, body_at, body_size, unpack_size
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
from leveret.wire.frames import CONTENT_HEADER, frame
from leveret.wire.properties import FLAG_CONTENT_ENCODING, FLAG_CONTENT_TYPE, FLAG_HEADERS, LAYOUT, UNKNOWN_FLAGS

NO_HEADERS = encode_long(b"")
BEFORE_HEADERS = FLAG_CONTENT_TYPE | FLAG_CONTENT_ENCODING


def long(value: int) -> bytes:
    """The raw value of a number field, with 64 bits, as RabbitMQ encodes numbers in its own headers."""
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
    dropped or set (also as raw values).

    FrameError if the properties of the content cannot be decoded.
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
    """A header frame with more headers after the existing ones. ``fields`` are names and raw values; none of the names
    may exist already. FrameError if the existing headers cannot be decoded."""
    flags, at = _headers_at(head)
    if flags & FLAG_HEADERS:
        decode_table(head, at, len(head) - 1)
    before, behind = opened(head, len(fields))
    return before + fields + behind


def opened(head: bytes, space: int) -> tuple[bytes, bytes]:
    """A header frame in two parts, between which ``space`` bytes of further headers are to be inserted. The existing
    headers are not decoded; FrameError if they do not end within the frame."""
    flags, at = _headers_at(head)
    end = len(head) - 1
    first, rest = at, at
    if flags & FLAG_HEADERS:
        first = at + 4
        rest = first + (unpack_size(head, at)[0] if first <= end else 0)
    if rest > end:
        raise FrameError("the headers exceed their frame")
    table = (rest - first + space).to_bytes(4, "big")
    size = (end - PAYLOAD + space + 4 - (first - at)).to_bytes(4, "big")
    new_flags = UINT16.pack(flags | FLAG_HEADERS)
    kept, fields = head[PROPERTIES_AT + 2 : at], head[first:rest]
    return b"".join((head[:3], size, head[PAYLOAD:PROPERTIES_AT], new_flags, kept, table, fields)), head[rest:]


def _headers_at(head: bytes) -> tuple[int, int]:
    """The flags of a header frame, and the position of its headers, or where they would be inserted."""
    flags = int.from_bytes(head[PROPERTIES_AT : PROPERTIES_AT + 2], "big")
    at = PROPERTIES_AT + 2
    if flags & BEFORE_HEADERS:
        for flag in (FLAG_CONTENT_TYPE, FLAG_CONTENT_ENCODING):
            if flags & flag:
                at += 1 + head[at] if at < len(head) else 1
        if at >= len(head):
            raise FrameError("the properties exceed their frame")
    return flags, at


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
