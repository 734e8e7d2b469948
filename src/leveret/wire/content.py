"""The content of a message as it is stored: its header frame and body frames as received, in one ``bytes`` object.

Hot path: ``refit`` runs once per delivery whose channel number or frame size differs from the publisher's. The other
functions read or rewrite content for dead-lettering, headers routing, management and the client.

    | 2 | channel | size | 60 | 0 | body size | properties | 0xCE |   | 3 | channel | size | bytes | 0xCE | ...
      1   2         4      2    2   8           size - 12    1         1   2         4      size    1

Content was checked when it was received, so only the properties, which were not decoded then, are checked here.
"""

from __future__ import annotations

from struct import Struct

from leveret.wire.constants import BASIC_CLASS, DEFAULT_FRAME_MAX, FRAME_HEADER, FRAME_OVERHEAD
from leveret.wire.frames import CONTENT_HEADER, ENVELOPE, content_frames, frame
from leveret.wire.properties import Properties, decode_properties, encode_properties

PAYLOAD = ENVELOPE.size
BODY_SIZE_AT = PAYLOAD + 4
PROPERTIES_AT = PAYLOAD + CONTENT_HEADER.size
SIZE_AT = 3

unpack_size = Struct(">I").unpack_from
unpack_body_size = Struct(">Q").unpack_from


def refit(content: bytes, channel: int, frame_max: int) -> bytes:
    """The same content for another channel and, if one of its frames is larger than ``frame_max``, split again."""
    number = channel.to_bytes(2, "big")
    total = len(content)
    behind_head: int = unpack_size(content, SIZE_AT)[0] + FRAME_OVERHEAD
    if behind_head == total:
        return b"\x02" + number + content[3:]
    body: int = unpack_size(content, behind_head + SIZE_AT)[0] + FRAME_OVERHEAD
    if behind_head + body == total and (not frame_max or body <= frame_max):
        if content[1:3] == number:  # most peers use channel 1 only: no copy for them
            return content
        return b"".join((b"\x02", number, content[3 : behind_head + 1], number, content[behind_head + 3 :]))
    return _refit_slowly(content, number, behind_head, frame_max)


def _refit_slowly(content: bytes, number: bytes, behind_head: int, frame_max: int) -> bytes:
    """Refit several body frames: patched in place if all fit, else joined and split again."""
    patched = bytearray(content)
    patched[1:3] = number
    start, total = behind_head, len(content)
    while start < total:
        size: int = unpack_size(content, start + SIZE_AT)[0] + FRAME_OVERHEAD
        if frame_max and size > frame_max:
            channel = int.from_bytes(number, "big")
            return content_frames(channel, content[PROPERTIES_AT : behind_head - 1], body_of(content), frame_max)
        patched[start + 1 : start + 3] = number
        start += size
    return bytes(patched)


def body_at(content: bytes) -> int:
    size: int = unpack_size(content, SIZE_AT)[0]
    return size + FRAME_OVERHEAD


def body_size(content: bytes) -> int:
    size: int = unpack_body_size(content, BODY_SIZE_AT)[0]
    return size


def body_of(content: bytes) -> bytes:
    start, total = body_at(content), len(content)
    parts: list[bytes] = []
    while start < total:
        end: int = start + PAYLOAD + unpack_size(content, start + SIZE_AT)[0]
        parts.append(content[start + PAYLOAD : end])
        start = end + 1
    return b"".join(parts)


def properties_of(content: bytes) -> Properties:
    return decode_properties(content, PROPERTIES_AT, body_at(content) - 1)


def make_content(properties: Properties, body: bytes, channel: int = 1, frame_max: int = DEFAULT_FRAME_MAX) -> bytes:
    return content_frames(channel, encode_properties(properties), body, frame_max)


def with_properties(content: bytes, properties: Properties) -> bytes:
    """The content with a new header frame; the channel and the body frames stay the same."""
    channel = int.from_bytes(content[1:3], "big")
    header = CONTENT_HEADER.pack(BASIC_CLASS, 0, body_size(content)) + encode_properties(properties)
    return frame(FRAME_HEADER, channel, header) + content[body_at(content) :]
