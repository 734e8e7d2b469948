"""What the home cell reports about a consumer of another cell, each as one frame on the channel of the link.

    | 10 | channel | size | subject | value | 0xCE |
      1    2         4      1         8

OFFSET is the offset of the next delivery from a stream, or a lower bound of it. It is reported when the reader starts,
and before each delivery whose offset does not follow that of the one before. ACTIVE is 1 when the consumer becomes the
active one of a queue with x-single-active-consumer, and 0 when another one takes its place.

Reports are sent to cells that pass CLIENT_TAG, an argument of basic.consume that only links use: an older cell does not
know the frame.
"""

from __future__ import annotations

from struct import Struct

from leveret.wire.constants import END_BYTE
from leveret.wire.frames import ENVELOPE

REPORT = 10  # the type of the frame
OFFSET, ACTIVE = 1, 2
CLIENT_TAG = "x-link-consumer-tag"  # the consumer tag of the client
RESUME_AT = "x-link-stream-offset"  # where the consumer of a stream continues after the link was lost

BODY = Struct(">BQ")


def report_frame(channel: int, subject: int, value: int) -> bytes:
    return ENVELOPE.pack(REPORT, channel, BODY.size) + BODY.pack(subject, value) + END_BYTE


def decode_report(data: bytes, pos: int) -> tuple[int, int]:
    """Subject and value of the frame at ``pos``, whose envelope was checked."""
    subject, value = BODY.unpack_from(data, pos + ENVELOPE.size)
    return subject, value
