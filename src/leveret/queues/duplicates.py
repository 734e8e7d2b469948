"""x-message-deduplication: a message with an ID that the queue has recorded is confirmed and dropped.

Theory of operation. ``_line`` holds the keys in the order in which they were added, ``_ends`` the time at which each
expires. New keys are appended; keys that expired or exceed the limit are removed from the front, a few at a time, so
that no single publish removes thousands. A key that expired may be added again before it is removed from the front: it
is then in the line twice, and ``_stale`` counts how many of its first entries are void.

For a durable queue the keys are also in the log, in the same order (DeduplicationLog). A key is written in one group
with its message, so after a crash both or none exist; and it stays when the message is consumed. Keys that were removed
from the front may reappear after a crash; they have expired and are removed again.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from hashlib import blake2b
from typing import TYPE_CHECKING

from leveret.backlog.scattered_read import ScatteredRead
from leveret.message import NEVER, PERSISTENT, Address, Message, Traits
from leveret.queues.options import DuplicateWindow
from leveret.store.log import GRANTED, Log, Placement
from leveret.store.pages import Loaded, Pages
from leveret.wire.constants import DEFAULT_FRAME_MAX
from leveret.wire.content import body_of, make_content, properties_of
from leveret.wire.properties import Properties

if TYPE_CHECKING:
    from leveret.queues.classic import ClassicQueue

MOST = 1_000_000  # keys, if the window is limited by time only
FORGOTTEN_AT_ONCE = 64
LONGEST_KEY = 32  # bytes; longer keys are stored as a digest
MESSAGE_ID = "message-id"
NOWHERE = Address("", "", 1, DEFAULT_FRAME_MAX)
Take = Callable[[int, bytes, float], None]  # sequence, key, deadline


class Duplicates:
    __slots__ = ("_ends", "_line", "_queue", "_stale", "_trace", "_unsafe", "_unsafe_line", "_window")

    def __init__(self, queue: ClassicQueue, window: DuplicateWindow) -> None:
        self._queue = queue
        self._window = window
        self._line: deque[bytes] = deque()
        self._ends: dict[bytes, float] = {}
        self._stale: Counter[bytes] = Counter()
        self._trace: DeduplicationLog | None = None  # created for the first key
        self._unsafe: set[bytes] = set()  # keys that are not on disk yet
        self._unsafe_line: deque[tuple[int, bytes]] = deque()  # the same keys, with their sequences in the log

    def __len__(self) -> int:
        """The number of stored keys, including expired keys that were not removed yet."""
        return len(self._ends)

    def resize(self, window: DuplicateWindow) -> None:
        """Change the window. Stored keys keep their expiry; keys over the limit are removed as new keys are added."""
        self._window = window

    def has_seen(self, message: Message) -> bool:
        now = self._queue.context.now()
        self._forget(now)
        key = key_of(message, self._window.header)
        return key is not None and self._ends.get(key, -NEVER) > now

    def drop(self, message: Message) -> int:
        """Count a duplicate; returns the receipt that its confirm waits for, until the first message is on disk."""
        self._queue.counters.duplicates += 1
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
        """Remove some keys that expired or exceed the limit."""
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

    def restore(self, trace: DeduplicationLog, done: Callable[[], None]) -> None:
        """Restore the IDs recorded before the restart; nothing may be published to the queue before ``done``."""
        self._trace = trace
        begun = trace.first - len(self._line)

        def take(sequence: int, key: bytes, end: float) -> None:
            while begun + len(self._line) < sequence:
                self._line.append(b"")  # damaged: its place is kept, so that the line and the log agree
            self._take(key, end)

        def taken() -> None:
            while len(self._line) > (self._window.count or MOST):
                self._forget(self._queue.context.now())
            done()

        trace.read(take, taken)

    # ---- moving the queue to another cell

    def kept(self) -> list[tuple[bytes, float]]:
        """The IDs that have not expired, oldest first, each with its expiry."""
        now, last = self._queue.context.now(), dict.fromkeys(self._line)
        return [(key, self._ends[key]) for key in last if self._ends.get(key, -NEVER) > now]

    def adopt(self, kept: list[tuple[bytes, float]]) -> None:
        """Continue with the IDs that the queue has recorded elsewhere."""
        if kept and self._trace is None and self._queue.stored:
            self._trace = self._queue.context.callbacks.open_trace(self._queue)
        for key, end in kept:
            if self._trace is not None:
                self._trace.append(key, end, self._queue.synced)
            self._take(key, end)

    def stop(self) -> None:
        """Discard the stored keys, because deduplication was switched off."""
        if self._trace is not None:
            self._trace.forget(self._trace.next)


def key_of(message: Message, header: str) -> bytes | None:
    """The ID of a message for deduplication; None if there is none."""
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


class DeduplicationLog:
    """The keys of one queue in the log: tiny messages, one for each key, that are never consumed.

    They are not a queue in memory, but have an id and a definition like a queue, so that recovery, reclaim and backup
    treat them as one. They are appended at the end and removed at the front.
    """

    __slots__ = ("_log", "_pages", "first", "id", "name", "next")

    def __init__(self, id_: int, name: str, log: Log, pages: Pages | None) -> None:
        self.id = id_
        self.name = name
        self.first = self.next = 1  # sequences
        self._log = log
        self._pages = pages

    def restore(self, first: int, stop: int) -> None:
        """Set the range that was on disk before the start."""
        self.first, self.next = first, stop

    def append(self, key: bytes, deadline: float, synced: bool) -> None:
        traits = PERSISTENT if deadline == NEVER else Traits(persistent=True, deadline=deadline)
        content = make_content(Properties(), key)
        self._log.append([(content, NOWHERE, traits)], [Placement(self.id, 0, self.next, 1)], synced)
        self.next += 1

    def forget(self, upto: int) -> None:
        """Remove the IDs below this sequence."""
        if upto > self.first:
            self._log.settle(self.id, 0, self.first, upto - self.first)
            self.first = upto

    @property
    def safe_below(self) -> int:
        """The first sequence that is not on disk yet."""
        return self.next if self._pages is None else self._pages.synced(self.id, 0)

    def read(self, take: Take, done: Callable[[], None]) -> None:
        """Read all IDs, in order; damaged entries are left out."""

        def loaded(found: list[Loaded], missing: list[int]) -> None:
            for sequence, (content, _, traits), _ in found:
                take(sequence, body_of(content), traits.deadline)

        if self._pages is None:
            done()
        else:
            ScatteredRead(self._pages, self.id, 0, range(self.first, self.next), loaded, done).go_on()
