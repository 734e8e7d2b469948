"""The fourteen properties of a message: a word of flags, then the values whose flag is set, in order of the flags."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from leveret.errors import FrameError
from leveret.wire.fields import (
    UINT16,
    FarTime,
    Table,
    decode_octet,
    decode_short,
    decode_table,
    decode_time,
    encode_octet,
    encode_short,
    encode_table,
    encode_time,
    expect_end,
    take,
)

FLAG_CONTENT_TYPE = 0x8000
FLAG_CONTENT_ENCODING = 0x4000
FLAG_HEADERS = 0x2000
FLAG_DELIVERY_MODE = 0x1000
FLAG_PRIORITY = 0x0800
FLAG_CORRELATION_ID = 0x0400
FLAG_REPLY_TO = 0x0200
FLAG_EXPIRATION = 0x0100
FLAG_MESSAGE_ID = 0x0080
FLAG_TIMESTAMP = 0x0040
FLAG_TYPE = 0x0020
FLAG_USER_ID = 0x0010
FLAG_APP_ID = 0x0008
FLAG_CLUSTER_ID = 0x0004
UNKNOWN_FLAGS = 0x0003  # bit 0 announces a second word of flags, which the basic class does not use


@dataclass(slots=True)
class Properties:
    content_type: str | None = None
    content_encoding: str | None = None
    headers: Table | None = None
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: datetime | FarTime | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None


Encoder = Callable[[Any], bytes]
Decoder = Callable[[bytes, int, int], tuple[Any, int]]

LAYOUT: tuple[tuple[int, str, Encoder, Decoder], ...] = (
    (FLAG_CONTENT_TYPE, "content_type", encode_short, decode_short),
    (FLAG_CONTENT_ENCODING, "content_encoding", encode_short, decode_short),
    (FLAG_HEADERS, "headers", encode_table, decode_table),
    (FLAG_DELIVERY_MODE, "delivery_mode", encode_octet, decode_octet),
    (FLAG_PRIORITY, "priority", encode_octet, decode_octet),
    (FLAG_CORRELATION_ID, "correlation_id", encode_short, decode_short),
    (FLAG_REPLY_TO, "reply_to", encode_short, decode_short),
    (FLAG_EXPIRATION, "expiration", encode_short, decode_short),
    (FLAG_MESSAGE_ID, "message_id", encode_short, decode_short),
    (FLAG_TIMESTAMP, "timestamp", encode_time, decode_time),
    (FLAG_TYPE, "type", encode_short, decode_short),
    (FLAG_USER_ID, "user_id", encode_short, decode_short),
    (FLAG_APP_ID, "app_id", encode_short, decode_short),
    (FLAG_CLUSTER_ID, "cluster_id", encode_short, decode_short),
)


def encode_properties(properties: Properties) -> bytes:
    flags = 0
    parts = [b""]
    for flag, name, encode, _ in LAYOUT:
        value = getattr(properties, name)
        if value is not None:
            flags |= flag
            parts.append(encode(value))
    parts[0] = UINT16.pack(flags)
    return b"".join(parts)


def decode_properties(data: bytes, offset: int, end: int) -> Properties:
    """Properties must fill (offset, end) exactly."""
    flags: int = take(UINT16, data, offset, end)[0]
    if flags & UNKNOWN_FLAGS:
        raise FrameError(f"unknown property flags 0x{flags & UNKNOWN_FLAGS:04x}")
    offset += 2
    properties = Properties()
    for flag, name, _, decode in LAYOUT:
        if flags & flag:
            value, offset = decode(data, offset, end)
            setattr(properties, name, value)
    expect_end(offset, end)
    return properties
