"""Matches a returned message to its publish.

basic.return carries no publish number and arrives before the confirm: it belongs to the oldest unconfirmed message with
the same address, properties and body, byte for byte. A broker may change properties (RabbitMQ can add headers): then it
belongs to the oldest with the same address and body. A returned message must never be reported as safe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import Struct
from typing import TypeVar

from leveret.client.messages import Returned
from leveret.wire.constants import FRAME_OVERHEAD
from leveret.wire.fields import encode_short
from leveret.wire.frames import CONTENT_HEADER, ENVELOPE

T = TypeVar("T")
Likeness = tuple[bytes, bytes, bytes]  # exchange and routing key, properties, body: as they are on the wire
SIZE = Struct(">I").unpack_from
SIZE_AT = 3  # within a frame
ADDRESS_AT = ENVELOPE.size + 6  # behind the ids of class and method, and a reserved number


def likeness_of(frames: bytes, body: bytes) -> Likeness:
    """Of a publish, by its frames: what they say may differ from what the application said."""
    end: int = SIZE(frames, SIZE_AT)[0] + FRAME_OVERHEAD  # of the method
    size: int = SIZE(frames, end + SIZE_AT)[0]  # of the header
    head_at = end + ENVELOPE.size
    head = frames[head_at + CONTENT_HEADER.size : head_at + size]
    return frames[ADDRESS_AT : end - 2], head, body if body.__class__ is bytes else bytes(body)


def place_of(message: Returned, line: Iterable[tuple[T, Likeness]], is_open: Callable[[T], bool]) -> int | None:
    """Where in the line, whose oldest stands first, the message is that came back."""
    address, body = encode_short(message.exchange) + encode_short(message.routing_key), message.body
    nearly = None
    for place, (item, likeness) in enumerate(line):
        if likeness[0] == address and likeness[2] == body and is_open(item):
            if likeness[1] == message.head:
                return place
            if nearly is None:
                nearly = place
    return nearly
