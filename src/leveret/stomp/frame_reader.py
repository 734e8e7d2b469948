"""Bytes in any slicing go in, whole STOMP frames come out; nothing waits.

A frame is a command line, header lines, an empty line, a body and a NUL. A line may end with CR LF. With content-length
the body may hold NULs; without, the first NUL ends it. Line ends between frames are heart-beats and mean nothing else;
NULs between frames are skipped as well, since some old clients send one more than they announce.
In 1.0 a value may follow its colon after blanks, as the examples of that time have it. Whatever is too large is refused
before it is gathered.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from leveret.stomp.frame import UNESCAPED, Frame, meant
from leveret.stomp.refusals import StompRefusal

COMMANDS = frozenset(
    {"CONNECT", "STOMP", "SEND", "SUBSCRIBE", "UNSUBSCRIBE", "ACK", "NACK", "BEGIN", "COMMIT", "ABORT", "DISCONNECT"}
)
LONGEST_COMMAND = 16  # bytes, more than any has
_HEAD_END = re.compile(rb"\n\r?\n")
_BETWEEN_FRAMES = re.compile(rb"[\r\n\0]+")


@dataclass(frozen=True, slots=True)
class FrameLimits:
    headers: int  # lines
    head: int  # bytes of command and headers
    body: int  # bytes of a SEND
    other_body: int = 4096  # bytes of any other: it has no meaning


BEFORE_LOGIN = FrameLimits(headers=64, head=16 << 10, body=0)


def after_login(max_message_size: int) -> FrameLimits:
    return FrameLimits(headers=1_000, head=64 << 10, body=max_message_size)


class StompReader:
    """Keeps at most one partial frame. ``version`` and ``limits`` may be set at any time, also between two frames."""

    __slots__ = ("_body_size", "_head", "_pending", "_scanned", "limits", "version")

    def __init__(self, limits: FrameLimits = BEFORE_LOGIN) -> None:
        self.limits = limits
        self.version = "1.0"
        self._pending = bytearray()
        self._scanned = 0  # bytes that were searched for an end and hold none
        self._head: Frame | None = None  # of the frame whose body is on its way
        self._body_size: int | None = None

    @property
    def size(self) -> int:
        """Bytes of the partial frame."""
        return len(self._pending)

    def feed(self, data: bytes) -> None:
        self._pending += data

    def frames(self) -> Iterator[Frame]:
        """The frames that are whole now. Whoever stops in the middle finds the rest at the next call."""
        while True:
            if self._head is None and not self._take_head():
                return
            frame = self._take_body()
            if frame is None:
                return
            yield frame

    def _take_head(self) -> bool:
        pending = self._pending
        if not self._scanned:
            self._skip_to_frame()
        found = _HEAD_END.search(pending, self._scanned)
        end = found.start() if found is not None else len(pending)
        if end > self.limits.head:
            raise StompRefusal("Frame too large", f"command and headers of more than {self.limits.head} bytes")
        if pending.find(0, self._scanned, end) >= 0:
            raise StompRefusal("Malformed frame", "a NUL before the empty line that ends the headers")
        if found is None:
            self._check_command_line()
            self._scanned = max(0, len(pending) - 2)  # the line ends may be cut in two
            return False
        self._head = head = self._parsed(bytes(pending[:end]))
        self._body_size = self._announced(head)
        del pending[: found.end()]
        self._scanned = 0
        return True

    def _skip_to_frame(self) -> None:
        found = _BETWEEN_FRAMES.match(self._pending)  # in one step: strangers send as many as they like
        if found is not None:
            del self._pending[: found.end()]

    def _check_command_line(self) -> None:
        """Who does not speak STOMP is told early, not after so many bytes without an empty line."""
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
            raise StompRefusal("Frame too large", f"{len(lines)} headers, at most {self.limits.headers} are allowed")
        version = "1.0" if command in UNESCAPED else self.version
        frame = Frame(command)
        for number, line in enumerate(lines, 1):
            try:
                text = line.removesuffix(b"\r").decode()
            except UnicodeDecodeError:
                raise StompRefusal("Malformed frame", f"header {number} of {command} is not UTF-8") from None
            name, colon, value = text.partition(":")
            if not colon or not name:
                raise StompRefusal("Malformed frame", f"header {number} of {command} has no name or no colon")
            frame.headers.setdefault(meant(version, name), meant(version, value))
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
                raise StompRefusal("Malformed frame", f"no NUL behind the {size} bytes of content-length")
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
    """As 1.0 means it; of CONNECT the version is known only once it is read."""
    frame.headers = {name: value.lstrip(" ") for name, value in frame.headers.items()}
    return frame


def _unknown(command: bytes) -> StompRefusal:
    return StompRefusal("Bad command", f'Could not interpret command "{command.decode("ascii", "replace")[:64]}"')


def _too_large(head: Frame, size: int, most: int) -> StompRefusal:
    remedy = ": raise max_message_size to accept it" if head.command == "SEND" and most else ""
    told = f"{head.command} has a body of {size} bytes or more, {most} are allowed{remedy}"
    return StompRefusal("Frame too large", told)
