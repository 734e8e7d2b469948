"""What a reader of a stream gets: each message with its offset in the headers.  Hot path.

Most messages of a publisher have the same header frame. For each frame that is seen, the beginning of the frame that
the reader gets is made once, up to the eight bytes of the offset. Behind them follows what followed the headers before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from leveret.errors import FrameError
from leveret.message import Message
from leveret.wire.content import body_at
from leveret.wire.content_edit import opened, spliced
from leveret.wire.fields import encode_short

OFFSET = "x-stream-offset"
FIELD = encode_short(OFFSET) + b"l"  # a number with 64 bits follows
RAW_OFFSET = OFFSET.encode()
MOST_KNOWN = 256  # frames that are remembered
NO_FRAME = b"\x00"  # no content begins like this


class Marker:
    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[bytes, int]] = {}  # the new beginning, and where the old content goes on

    def mark(self, messages: Sequence[Message], offset: int, into: deque[Message], most_bytes: int) -> int:
        """Put messages with consecutive offsets ``into`` a stretch, until it has so many bytes more; how many."""
        add, known = into.append, self._known
        head, begin, rest = NO_FRAME, b"", 0
        size = 0
        for content, address, traits in messages:
            if not content.startswith(head):  # a frame tells its own length: none is the beginning of another
                head = content[: body_at(content)]
                begin, rest = known.get(head) or self._learn(head)
            size += len(content)
            if begin:
                content = begin + offset.to_bytes(8, "big") + content[rest:]
            add((content, address, traits))
            offset += 1
            if size >= most_bytes:
                break
        return size

    def _learn(self, head: bytes) -> tuple[bytes, int]:
        known = self._known
        if len(known) >= MOST_KNOWN:
            known.clear()
        try:
            # What was read from a stream before has an offset already, which is the other's.
            clean = spliced(head, {}, without=(OFFSET,)) if RAW_OFFSET in head else head
            before, behind = opened(clean, len(FIELD) + 8)
            found = before + FIELD, len(head) - len(behind)
        except FrameError:  # its headers cannot be read, nobody checked them when it came: it goes out as it is
            found = b"", 0
        known[head] = found
        return found


def marked(message: Message, offset: int) -> Message:
    """One message alone."""
    into: deque[Message] = deque()
    Marker().mark((message,), offset, into, 0)
    return into[0]
