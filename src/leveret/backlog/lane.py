"""One line of waiting messages, first in, first out.  Hot path.

Theory of operation. ``ready`` holds messages with consecutive sequences; ``head`` is the sequence of ready[0], so a
message does not store its own number. Messages are only taken from the front, so a message that is returned (nack,
closed connection) has a lower sequence than everything in ``ready``: it waits in ``returned``, a heap by sequence, and
is delivered before all others. So a message returns to its place without moving any other message.

A message that leaves from the middle, because it expired, is replaced by a HOLE. Holes are rare and counted: the fast
paths check the count once per burst and never check single messages.

If a lane is too large for memory, its middle is on disk only (backlog/pager.py):

    returned │ ready (in memory) │ paged: head + len(ready) .. page_stop │ fresh (in memory)

New messages then go to ``fresh``; ``incoming`` is the deque that takes new messages. ``page_stop`` is 0 as long as
nothing is paged. Some messages of the paged stretch may be gone: ``paged`` counts the others.

A plain queue has one lane, a priority queue one per priority. Only this package assigns to the attributes of a lane or
removes from its deques; other packages read them, and append to ``incoming`` (tests/test_architecture.py checks it).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from itertools import groupby, islice
from typing import NamedTuple

from leveret.delivery.consumer import Consumer
from leveret.message import TRANSIENT, Address, Message

HOLE: Message = (b"", Address("", "", 0, 0), TRANSIENT)

Waiting = tuple[int, int, Message]  # sequence, deliveries so far, message


class Cleared(NamedTuple):
    """The messages of a lane that were in memory when it was cleared."""

    head: int  # the sequence of ready[0]
    ready: deque[Message]
    page_stop: int  # the sequence of fresh[0]
    fresh: deque[Message]
    returned: list[Waiting]
    has_holes: bool

    def stretches(self) -> Iterator[tuple[int, int]]:
        """First sequence and number of consecutive messages."""
        for first, messages in ((self.head, self.ready), (self.page_stop, self.fresh)):
            if not self.has_holes:
                if messages:
                    yield first, len(messages)
                continue
            for is_message, group in groupby(enumerate(messages, first), key=lambda pair: pair[1] is not HOLE):
                if is_message:
                    sequences = [sequence for sequence, _ in group]
                    yield sequences[0], len(sequences)
        for sequence, _, _ in self.returned:
            yield sequence, 1

    def pop_some(self, most: int) -> tuple[int, int]:
        """Free at most ``most`` messages; returns their number and their bytes."""
        number = size = 0
        for messages in (self.ready, self.fresh):
            for _ in range(min(most - number, len(messages))):
                size += len(messages.popleft()[0])
                number += 1
        for _ in range(min(most - number, len(self.returned))):
            size += len(self.returned.pop()[2][0])
            number += 1
        return number, size


class Lane:
    __slots__ = (
        "attempted",
        "fresh",
        "head",
        "holes",
        "in_turn",
        "incoming",
        "number",
        "page_stop",
        "paged",
        "ready",
        "redelivered_below",
        "returned",
    )

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self.ready: deque[Message] = deque()
        self.incoming = self.ready
        self.head = 1
        self.holes = 0
        self.in_turn = 0.0  # messages that expire later than this expire in order (backlog/deadlines.py)
        self.returned: list[tuple[int, int, Message]] = []
        self.attempted = 1  # every message below this sequence was offered to the consumers at least once
        self.fresh: deque[Message] = deque()
        self.page_stop = 0
        self.paged = 0
        self.redelivered_below = 0  # paged messages below this were delivered before the restart

    def __len__(self) -> int:
        return len(self.ready) - self.holes + len(self.returned) + self.paged + len(self.fresh)

    @property
    def tail(self) -> int:
        """The sequence that the next message gets."""
        if self.page_stop:
            return self.page_stop + len(self.fresh)
        return self.head + len(self.ready)

    @property
    def page_start(self) -> int:
        return self.head + len(self.ready)

    def is_paged(self, sequence: int) -> bool:
        """Whether the sequence is in the stretch that is on disk only; the message may be gone."""
        return self.page_start <= sequence < self.page_stop

    @property
    def is_empty_here(self) -> bool:
        """Whether no message can be taken now, although there may be some on disk."""
        return not self.ready and not self.returned

    def __iter__(self) -> Iterator[Waiting]:
        """All waiting messages that are in memory, in order; they stay in the lane."""
        yield from sorted(self.returned, key=lambda waiting: waiting[0])
        for first, messages in ((self.head, self.ready), (self.page_stop, self.fresh)):
            for sequence, message in enumerate(messages, first):
                if message is not HOLE:
                    yield sequence, 0, message

    def put_back(self, sequence: int, count: int, message: Message) -> None:
        """Return a message to its place; it was delivered ``count`` times."""
        heappush(self.returned, (sequence, count, message))

    def hold(self, number: int, waiting: Waiting, redelivered: bool) -> None:
        """Make this empty lane hold one message of lane ``number``, so that it can be delivered from here."""
        self.number, self.head = number, waiting[0]
        if redelivered:
            self.returned.append(waiting)
        else:
            self.ready.append(waiting[2])

    def mark_attempted(self) -> None:
        """Record that all messages were offered to the consumers."""
        self.attempted = self.tail

    # ---- out

    def deliver(self, consumer: Consumer, limit: int) -> tuple[int, int, int]:
        """Let a consumer take up to ``limit`` messages off ``ready``; returns first sequence, number and bytes."""
        if self.holes:
            limit = self.stretch(limit)
        elif limit > len(self.ready):
            limit = len(self.ready)
        sequence = self.head
        number, size = consumer.take(self.ready, self.number, sequence, limit)
        self.head = sequence + number
        return sequence, number, size

    def take(self, number: int) -> tuple[int, list[Message]]:
        """Remove the first ``number`` messages of ``ready``, without holes; returns first sequence and messages."""
        sequence, popleft = self.head, self.ready.popleft
        messages = [popleft() for _ in range(number)]
        self.head = sequence + number
        return sequence, messages

    def shed(self, number: int) -> list[tuple[int, Message]]:
        """Remove the first ``number`` places of ``ready``; returns sequences and messages, without the holes."""
        sequence, messages = self.take(number)
        kept = [(place, message) for place, message in enumerate(messages, sequence) if message is not HOLE]
        self.holes -= number - len(kept)
        return kept

    def pop(self) -> Waiting | None:
        """Remove the first waiting message."""
        if self.returned:
            return heappop(self.returned)
        self.strip()
        if not self.ready:
            return None
        self.head += 1
        return self.head - 1, 0, self.ready.popleft()

    def strip(self) -> None:
        """Remove the holes at the front."""
        while self.holes and self.ready and self.ready[0] is HOLE:
            self.ready.popleft()
            self.head += 1
            self.holes -= 1

    def stretch(self, limit: int) -> int:
        """The number of messages at the front of ``ready`` before the next hole, at most ``limit``."""
        if not self.holes:
            return min(limit, len(self.ready))
        self.strip()
        for length, message in enumerate(islice(self.ready, limit)):
            if message is HOLE:
                return length
        return min(limit, len(self.ready))

    def first(self) -> Waiting | None:
        """The message that pop() would return."""
        if self.returned:
            return self.returned[0]
        self.strip()
        return (self.head, 0, self.ready[0]) if self.ready else None

    def cut_out(self, sequence: int) -> Waiting | None:
        """Remove the message with this sequence, at any place; None if it is not waiting in memory."""
        if sequence >= self.head and (waiting := self._make_hole(sequence)) is not None:
            return waiting
        if self.returned and self.returned[0][0] == sequence:  # the usual case: returned messages expire in order, too
            return heappop(self.returned)
        for index, waiting in enumerate(self.returned):
            if waiting[0] == sequence:
                self.returned[index] = self.returned[-1]
                self.returned.pop()
                heapify(self.returned)
                return waiting
        return None

    def _make_hole(self, sequence: int) -> Waiting | None:
        messages, index = self.ready, sequence - self.head
        if self.page_stop and index >= len(self.ready):
            messages, index = self.fresh, sequence - self.page_stop
        if not 0 <= index < len(messages) or messages[index] is HOLE:
            return None
        message = messages[index]
        messages[index] = HOLE
        self.holes += 1
        self.strip()
        return sequence, 0, message

    def clear(self) -> Cleared:
        """Remove everything, in constant time; sequences continue."""
        cleared = Cleared(self.head, self.ready, self.page_stop, self.fresh, self.returned, self.holes > 0)
        self.head = self.tail
        self.ready, self.fresh, self.returned = type(self.ready)(), type(self.fresh)(), []
        self.incoming = self.ready
        self.holes = self.page_stop = self.paged = 0
        return cleared

    # ---- the stretch on disk (used by this package only)

    def open_stretch(self) -> None:
        """Begin an empty paged stretch behind ``ready``; new messages go to ``fresh``."""
        self.page_stop = self.page_start
        self.incoming = self.fresh

    def close_stretch(self) -> None:
        """End the paged stretch, which is empty now: join ``ready`` and ``fresh``, with holes in between."""
        if not self.ready:
            self.head = self.page_stop
        else:
            self.fill_holes(self.page_stop)
        self.ready.extend(self.fresh)
        self.fresh.clear()
        self.incoming = self.ready
        self.page_stop = 0

    def fill_holes(self, sequence: int) -> None:
        """Append holes to ``ready``, up to this sequence."""
        gap = sequence - self.page_start
        if gap > 0:
            self.ready.extend([HOLE] * gap)
            self.holes += gap
