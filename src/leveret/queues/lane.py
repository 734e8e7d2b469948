"""One line of waiting messages, first in, first out.  Hot path.

Theory of operation. ``ready`` holds messages with consecutive sequences; ``head`` is the sequence of ready[0], so no
message carries its own number. Only the front is ever taken, hence a message that comes back (nack, lost connection)
has a lower sequence than everything in ``ready``: it waits in ``returned``, a heap by sequence, and goes out before all
others. So a returned message is back in its place without anything being moved.

A message that dies in the middle (its time is up) leaves a HOLE. Holes are rare and counted: the fast paths look at
that count once per burst and never at the single message.

When there is more than memory should hold, the middle of the line is on disk only (queues/paging.py):

    returned │ ready (in memory) │ paged: head + len(ready) .. page_stop │ fresh (in memory)

New messages then go to ``fresh``; ``incoming`` is whichever deque takes them. ``page_stop`` is 0 as long as nothing is
paged. Some sequences of the paged stretch may be gone: ``paged`` counts those that are not.

A plain queue has one lane, a priority queue one per priority.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from itertools import groupby, islice
from typing import NamedTuple

from leveret.message import TRANSIENT, Address, Message

HOLE: Message = (b"", Address("", "", 0, 0), TRANSIENT)

Waiting = tuple[int, int, Message]  # sequence, deliveries so far, message


class Cleared(NamedTuple):
    """What was in a lane, in memory."""

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
        """Let go of so many messages at most: how many there were, and their bytes."""
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
        self.in_turn = 0.0  # what comes now and dies later than this dies in its turn (queues/arriving.py)
        self.returned: list[tuple[int, int, Message]] = []
        self.attempted = 1  # everything below this sequence has been offered to the consumers once
        self.fresh: deque[Message] = deque()
        self.page_stop = 0
        self.paged = 0
        self.redelivered_below = 0  # paged messages below this were delivered before, in an earlier life

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
        """Whether it is in the stretch that is on disk only, if it is still there at all."""
        return self.page_start <= sequence < self.page_stop

    @property
    def is_empty_here(self) -> bool:
        """Nothing can be taken now; there may be something on disk."""
        return not self.ready and not self.returned

    def __iter__(self) -> Iterator[Waiting]:
        """All waiting messages that are in memory, in order, without taking them."""
        yield from sorted(self.returned, key=lambda waiting: waiting[0])
        for first, messages in ((self.head, self.ready), (self.page_stop, self.fresh)):
            for sequence, message in enumerate(messages, first):
                if message is not HOLE:
                    yield sequence, 0, message

    def give_back(self, sequence: int, count: int, message: Message) -> None:
        heappush(self.returned, (sequence, count, message))

    def pop(self) -> Waiting | None:
        """The first waiting message."""
        if self.returned:
            return heappop(self.returned)
        self.strip()
        if not self.ready:
            return None
        self.head += 1
        return self.head - 1, 0, self.ready.popleft()

    def strip(self) -> None:
        """Drop the holes at the front."""
        while self.holes and self.ready and self.ready[0] is HOLE:
            self.ready.popleft()
            self.head += 1
            self.holes -= 1

    def stretch(self, limit: int) -> int:
        """How many messages stand at the front of ``ready`` before the next hole, at most ``limit``."""
        if not self.holes:
            return min(limit, len(self.ready))
        self.strip()
        for length, message in enumerate(islice(self.ready, limit)):
            if message is HOLE:
                return length
        return min(limit, len(self.ready))

    def first(self) -> Waiting | None:
        """The message that pop() would give."""
        if self.returned:
            return self.returned[0]
        self.strip()
        return (self.head, 0, self.ready[0]) if self.ready else None

    def cut_out(self, sequence: int) -> Waiting | None:
        """Take the message with this sequence, wherever it stands; None if it is not waiting here."""
        if sequence >= self.head and (waiting := self._make_hole(sequence)) is not None:
            return waiting
        if self.returned and self.returned[0][0] == sequence:  # they die, too, first come, first served
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
        """Take everything out, in no time however much it is; sequences go on from where they were."""
        cleared = Cleared(self.head, self.ready, self.page_stop, self.fresh, self.returned, self.holes > 0)
        self.head = self.tail
        self.ready, self.fresh, self.returned = type(self.ready)(), type(self.fresh)(), []
        self.incoming = self.ready
        self.holes = self.page_stop = self.paged = 0
        return cleared
