"""Constants of AMQP 0-9-1, and default limits."""

from __future__ import annotations

FRAME_METHOD = 1
FRAME_HEADER = 2
FRAME_BODY = 3
FRAME_HEARTBEAT = 8
FRAME_KINDS = frozenset((FRAME_METHOD, FRAME_HEADER, FRAME_BODY, FRAME_HEARTBEAT))

FRAME_END = 0xCE
END_BYTE = b"\xce"
FRAME_OVERHEAD = 8  # kind, channel and size before the payload, the end byte after it

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
HEARTBEAT_FRAME = b"\x08\x00\x00\x00\x00\x00\x00\xce"

BASIC_CLASS = 60  # the only class whose methods carry content

REPLY_SUCCESS = 200
NO_ROUTE = 312
NO_CONSUMERS = 313

MIN_FRAME_MAX = 4096
DEFAULT_FRAME_MAX = 131072
FRAME_MAX_BEFORE_TUNE = 8192
DEFAULT_CHANNEL_MAX = 2047
DEFAULT_HEARTBEAT = 60
MAX_TABLE_DEPTH = 32
MAX_TABLE_FIELDS = 4096
MAX_SHORT_STRING = 255
MAX_BODY_SIZE = 512 << 20  # hard ceiling; the usual limit is a setting
