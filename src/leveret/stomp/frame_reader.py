"""Bytes go in, in chunks of any size; whole STOMP frames come out. Nothing waits.

A frame is a command line, header lines, an empty line, a body and a NUL. A line may end with CR LF. With content-length
the body may contain NULs; without, the first NUL ends it. Line ends between frames are heart-beats. NULs between frames
are skipped as well, since some old clients send one more than content-length says. In 1.0, blanks may follow the colon
of a header, as in the examples of that specification. A frame that is too large is refused before it is buffered.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from leveret.stomp.errors import StompError
from leveret.stomp.frame import UNESCAPED, Frame, unescaped

COMMANDS = frozenset(
    {"CONNECT", "STOMP", "SEND", "SUBSCRIBE", "UNSUBSCRIBE", "ACK", "NACK", "BEGIN", "COMMIT", "ABORT", "DISCONNECT"}
)
LONGEST_COMMAND = 16  # bytes; no command is longer
_HEAD_END = re.compile(rb"\n\r?\n")
_BETWEEN_FRAMES = re.compile(rb"[\r\n\0]+")


@dataclass(frozen=True, slots=True)
class FrameLimits:
    headers: int  # lines
    head: int  # bytes of command and headers
    body: int  # bytes of a SEND
    other_body: int = 4096  # bytes of any other frame, ignored


BEFORE_LOGIN = FrameLimits(headers=64, head=16 << 10, body=0)


def after_login(max_message_size: int) -> FrameLimits:
    return FrameLimits(headers=1_000, head=64 << 10, body=max_message_size)


class StompReader:
    """Keeps at most one partial frame. ``version`` and ``limits`` may be set between two frames."""

    __slots__ = ("_body_size", "_head", "_pending", "_scanned", "limits", "version")

    def __init__(self, limits: FrameLimits = BEFORE_LOGIN) -> None:
        self.limits = limits
        self.version = "1.0"
        self._pending = bytearray()
        self._scanned = 0  # bytes that have been searched for an end
        self._head: Frame | None = None  # of the frame whose body is incomplete
        self._body_size: int | None = None

    @property
    def size(self) -> int:
        """Bytes of the partial frame."""
        return len(self._pending)

    def rest(self) -> bytes:
        """Everything after the last frame, if no frame was begun."""
        return bytes(self._pending)

    def feed(self, data: bytes) -> None:
        self._pending += data

    def next_frame(self) -> Frame | None:
        """The next frame; None if it is incomplete."""
        return self._take_body() if self._head is not None or self._take_head() else None

    def _take_head(self) -> bool:
        pending = self._pending
        if not self._scanned:
            self._skip_to_frame()
        found = _HEAD_END.search(pending, self._scanned)
        end = found.start() if found is not None else len(pending)
        if end > self.limits.head:
            raise StompError("Frame too large", f"command and headers of more than {self.limits.head} bytes")
        if pending.find(0, self._scanned, end) >= 0:
            raise StompError("Malformed frame", "a NUL before the empty line that ends the headers")
        if found is None:
            self._check_command_line()
            self._scanned = max(0, len(pending) - 2)  # an empty line may be split between two reads
            return False
        self._head = head = self._parsed(bytes(pending[:end]))
        self._body_size = self._announced(head)
        del pending[: found.end()]
        self._scanned = 0
        return True

    def _skip_to_frame(self) -> None:
        found = _BETWEEN_FRAMES.match(self._pending)  # in one step: there may be very many
        if found is not None:
            del self._pending[: found.end()]

    def _check_command_line(self) -> None:
        """Refuse other protocols early, not only when the limit for a head is reached."""
        pending = self._pending
        if len(pending) > LONGEST_COMMAND and b"\n" not in pending[: LONGEST_COMMAND + 1]:
            raise _unknown(bytes(pending[:LONGEST_COMMAND]))

    def _parsed(self, raw: bytes) -> Frame:
        command_raw, *lines = raw.split(b"\n")
        command_raw = command_raw.removesuffix(b"\r")
        command = command_raw.decode("ascii", "replace")
        if command not in COMMANDS:
            raise _unknown(command_raw)
        if len(lines) > self.limits.headers:
            raise StompError("Frame too large", f"{len(lines)} headers, at most {self.limits.headers} are allowed")
        version = "1.0" if command in UNESCAPED else self.version
        frame = Frame(command)
        for number, line in enumerate(lines, 1):
            try:
                text = line.removesuffix(b"\r").decode()
            except UnicodeDecodeError:
                raise StompError("Malformed frame", f"header {number} of {command} is not UTF-8") from None
            name, colon, value = text.partition(":")
            if not colon or not name:
                raise StompError("Malformed frame", f"header {number} of {command} has no name or no colon")
            frame.headers.setdefault(unescaped(version, name), unescaped(version, value))
        return without_blanks(frame) if self.version == "1.0" and command not in UNESCAPED else frame

    def _announced(self, head: Frame) -> int | None:
        size = head.number("content-length")
        if size is not None and size > self._most(head):
            raise _too_large(head, size, self._most(head))
        return size

    def _most(self, head: Frame) -> int:
        return self.limits.body if head.command == "SEND" else self.limits.other_body

    def _take_body(self) -> Frame | None:
        pending, head = self._pending, self._head
        assert head is not None
        size = self._body_size
        if size is not None:
            if len(pending) <= size:
                return None
            if pending[size]:
                raise StompError("Malformed frame", f"no NUL after the {size} bytes of content-length")
        else:
            size = pending.find(0, self._scanned)
            self._scanned = len(pending)
            if (size if size >= 0 else len(pending)) > self._most(head):
                raise _too_large(head, len(pending), self._most(head))
            if size < 0:
                return None
        head.body = bytes(memoryview(pending)[:size])
        del pending[: size + 1]
        self._head, self._scanned = None, 0
        return head


def without_blanks(frame: Frame) -> Frame:
    """For 1.0. The version of CONNECT is known only after it was read."""
    frame.headers = {name: value.lstrip(" ") for name, value in frame.headers.items()}
    return frame


def _unknown(command: bytes) -> StompError:
    return StompError("Bad command", f'Could not interpret command "{command.decode("ascii", "replace")[:64]}"')


def _too_large(head: Frame, size: int, most: int) -> StompError:
    remedy = ": raise max_message_size to accept it" if head.command == "SEND" and most else ""
    text = f"{head.command} has a body of {size} bytes or more, {most} are allowed{remedy}"
    return StompError("Frame too large", text)
