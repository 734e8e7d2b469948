"""Frames of basic.publish and basic.ack, encoded by hand for speed, and IDs for published messages."""

from __future__ import annotations

from copy import copy
from itertools import count
from struct import Struct
from uuid import uuid4

from leveret.client.errors import ClientError
from leveret.wire.constants import FRAME_BODY, FRAME_OVERHEAD
from leveret.wire.fields import encode_short
from leveret.wire.frames import ENVELOPE, frame
from leveret.wire.properties import Properties

Route = tuple[str, str, bool]  # exchange, routing key, whether mandatory

PUBLISH = Struct(">BHI6s").pack  # kind, channel, size, class and method and the reserved number
PUBLISH_IDS = b"\x00\x3c\x00\x28\x00\x00"
HEADER = Struct(">BHIHHQ").pack  # kind, channel, size, class, weight, size of the body: the properties follow
HEAD_OVERHEAD = 12 + FRAME_OVERHEAD
BODY = Struct(">BBHI").pack  # the end of the header frame, kind, channel, size: the body follows
ACK = Struct(">BHIIQBB").pack  # a whole frame
ACK_IDS = 0x003C0050


def route_frame(channel: int, route: Route) -> bytes:
    """basic.publish itself: the header and the body follow it."""
    exchange, key, mandatory = route
    rest = encode_short(exchange) + encode_short(key) + (b"\x01" if mandatory else b"\x00")
    return PUBLISH(1, channel, len(PUBLISH_IDS) + len(rest), PUBLISH_IDS) + rest + b"\xce"


def too_large(what: str, size: int, frame_max: int) -> ClientError:
    """AMQP can split only bodies. The broker would close the connection."""
    return ClientError(f"{what} would need a frame of {size} bytes, above the negotiated {frame_max}: raise frame_max")


def refitted(frames: bytes, frame_max: int) -> bytes:
    """The same message for a broker that accepts smaller frames: its body is split again."""
    if not frame_max or len(frames) <= frame_max:
        return frames
    parts, start, step = [], 0, frame_max - FRAME_OVERHEAD
    while start < len(frames):
        kind, channel, size = ENVELOPE.unpack_from(frames, start)
        end = start + size + FRAME_OVERHEAD
        if kind == FRAME_BODY and size > step:
            body = frames[start + ENVELOPE.size : end - 1]
            parts += [frame(FRAME_BODY, channel, body[at : at + step]) for at in range(0, size, step)]
        else:
            parts.append(frames[start:end])
        start = end
    return b"".join(parts)


class MessageIds:
    """Generates IDs for messages of one channel, by which duplicates are recognised. Any thread may use it."""

    def __init__(self) -> None:
        self._prefix = f"ID:{uuid4().hex}:"
        self._numbers = count(1)

    def stamped(self, properties: Properties) -> Properties:
        """The properties with their message ID, or with a new one."""
        if properties.message_id is None:
            properties = copy(properties)
            properties.message_id = self._prefix + str(next(self._numbers))
        return properties
