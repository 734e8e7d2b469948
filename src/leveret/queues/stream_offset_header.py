"""The messages that a reader of a stream gets: each with its offset in the headers.  Hot path.

Most messages of a publisher have the same header frame. For each such frame, the beginning of the frame for the reader
is built once, up to the eight bytes of the offset. The rest of the old frame follows after these bytes.
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
FIELD = encode_short(OFFSET) + b"l"  # a 64-bit integer follows
RAW_OFFSET = OFFSET.encode()
MOST_KNOWN = 256  # cached frames
NO_FRAME = b"\x00"  # no content begins like this


class OffsetHeaders:
    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[bytes, int]] = {}  # the new beginning, and where the old content continues

    def append(self, messages: Sequence[Message], offset: int, into: deque[Message], most_bytes: int) -> int:
        """Append messages with consecutive offsets to ``into``, up to about ``most_bytes``; returns their bytes."""
        add, known = into.append, self._known
        head, begin, rest = NO_FRAME, b"", 0
        size = 0
        for content, address, traits in messages:
            if not content.startswith(head):  # frames have a length field: none is a prefix of another
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
            # A message that was read from another stream has the offset of that stream.
            clean = spliced(head, {}, without=(OFFSET,)) if RAW_OFFSET in head else head
            before, behind = opened(clean, len(FIELD) + 8)
            found = before + FIELD, len(head) - len(behind)
        except FrameError:  # malformed headers, which are not checked on publish: delivered as they are
            found = b"", 0
        known[head] = found
        return found


def with_offset(message: Message, offset: int) -> Message:
    """A single message with its offset."""
    into: deque[Message] = deque()
    OffsetHeaders().append((message,), offset, into, 0)
    return into[0]
