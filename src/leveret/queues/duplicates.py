"""x-message-deduplication: a message whose id the queue has seen is confirmed and dropped.

Theory of operation. ``_line`` holds the keys in the order in which they were noted, ``_ends`` says until when each
counts. What is noted goes to the end; what is too old, or one too many, leaves at the front, a few at a time, so that
no publish pays for thousands. A key whose time is over may be noted again before it has left the front: it then stands
in the line twice, and ``_stale`` counts how many of its first places mean nothing any more.

A queue that outlives the process has a trace of this in the log: place for place the same line (queues/trace.py). What
is noted is written in one group with the message, so a crash leaves both or none; and it stays when the message is
consumed. What has left the front may come back by a crash; it is then found too old again.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from hashlib import blake2b
from typing import TYPE_CHECKING

from leveret.message import NEVER, Message
from leveret.queues.options import DuplicateWindow
from leveret.queues.trace import Trace
from leveret.store.log import GRANTED
from leveret.wire.content import properties_of

if TYPE_CHECKING:
    from leveret.queues.classic import ClassicQueue

MOST = 1_000_000  # keys, where the window has an end in time only
FORGOTTEN_AT_ONCE = 64
LONGEST_KEY = 32  # bytes; longer ones are remembered by their digest
MESSAGE_ID = "message-id"


class Duplicates:
    __slots__ = ("_ends", "_line", "_queue", "_stale", "_trace", "_unsafe", "_unsafe_line", "_window")

    def __init__(self, queue: ClassicQueue, window: DuplicateWindow) -> None:
        self._queue = queue
        self._window = window
        self._line: deque[bytes] = deque()
        self._ends: dict[bytes, float] = {}
        self._stale: Counter[bytes] = Counter()
        self._trace: Trace | None = None  # until the first is noted
        self._unsafe: set[bytes] = set()  # a crash may still cost them
        self._unsafe_line: deque[tuple[int, bytes]] = deque()  # the same, with their sequences in the trace

    def __len__(self) -> int:
        """Keys that are remembered, with those whose time is over and that have not left yet."""
        return len(self._ends)

    def resize(self, window: DuplicateWindow) -> None:
        """What was noted keeps its time; what is too much leaves as new ones come."""
        self._window = window

    def has_seen(self, message: Message) -> bool:
        now = self._queue.context.now()
        self._forget(now)
        key = key_of(message, self._window.header)
        return key is not None and self._ends.get(key, -NEVER) > now

    def owed(self, message: Message) -> int:
        """The receipt that the confirm of a duplicate waits for: none once the first one is safe."""
        key = key_of(message, self._window.header)
        self._note_safe()
        return self._queue.context.log.promise() if key in self._unsafe else GRANTED

    def note(self, message: Message) -> None:
        key = key_of(message, self._window.header)
        if key is None:
            return
        seconds = self._window.seconds
        end = NEVER if seconds is None else self._queue.context.now() + seconds
        if self._trace is None and self._queue.stored:
            self._trace = self._queue.context.callbacks.open_trace(self._queue)
        if self._trace is not None:
            self._note_safe()
            self._unsafe.add(key)
            self._unsafe_line.append((self._trace.next, key))
            self._trace.append(key, end, self._queue.synced)
        self._take(key, end)
        self._forget(self._queue.context.now())

    def _take(self, key: bytes, end: float) -> None:
        if key in self._ends:
            self._stale[key] += 1
        self._ends[key] = end
        self._line.append(key)

    def _forget(self, now: float) -> None:
        """Some of those that are too old or too many."""
        most = self._window.count or MOST
        left = 0
        while left < FORGOTTEN_AT_ONCE and self._line and (len(self._line) > most or self._is_over(self._line[0], now)):
            self._leave(self._line.popleft())
            left += 1
        if self._trace is not None and left:
            self._trace.forget(self._trace.first + left)

    def _is_over(self, key: bytes, now: float) -> bool:
        return key in self._stale or self._ends.get(key, -NEVER) <= now

    def _leave(self, key: bytes) -> None:
        if key not in self._stale:
            self._ends.pop(key, None)
        elif self._stale[key] > 1:
            self._stale[key] -= 1
        else:
            del self._stale[key]

    def _note_safe(self) -> None:
        if self._trace is None or not self._unsafe_line:
            return
        below = self._trace.safe_below
        while self._unsafe_line and self._unsafe_line[0][0] < below:
            self._unsafe.discard(self._unsafe_line.popleft()[1])

    # ---- over a restart

    def restore(self, trace: Trace, done: Callable[[], None]) -> None:
        """Remember what an earlier life has seen; nothing may be published to the queue before ``done``."""
        self._trace = trace
        begun = trace.first - len(self._line)

        def take(sequence: int, key: bytes, end: float) -> None:
            while begun + len(self._line) < sequence:
                self._line.append(b"")  # was damaged: its place is kept, so that the line and the trace agree
            self._take(key, end)

        def taken() -> None:
            while len(self._line) > (self._window.count or MOST):
                self._forget(self._queue.context.now())
            done()

        trace.read(take, taken)

    def stop(self) -> None:
        """The queue is to remember no more."""
        if self._trace is not None:
            self._trace.forget(self._trace.next)


def key_of(message: Message, header: str) -> bytes | None:
    """What tells the message from others; None if it does not say."""
    properties = properties_of(message[0])
    value: object = properties.message_id if header == MESSAGE_ID else (properties.headers or {}).get(header)
    match value:
        case str():
            key = b"s" + value.encode("utf-8", "surrogateescape")
        case bytes() | bytearray():
            key = b"b" + value
        case bool() | int() | float():
            key = b"n" + repr(value).encode()
        case _:
            return None
    return key if len(key) <= LONGEST_KEY else b"d" + blake2b(key, digest_size=16).digest()
