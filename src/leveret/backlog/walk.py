"""Visits all waiting messages of a queue without consuming them, including those that are on disk only.

A walk visits the messages in the order in which they would be delivered, some at a time (``step``), so that a queue of
millions never blocks the loop. Messages on disk only are read ahead in the worker; until they are read ``step`` returns
False, and ``on_progress`` is called when it can continue. Messages that arrive or leave during the walk may be visited
or not; none is visited twice unless it was returned in between. The visitor returns whether it takes the message: such
a message leaves its lane and keeps its place in the log until the visitor releases it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from leveret.backlog.lane import HOLE, Lane, Waiting
from leveret.message import Message
from leveret.store.pages import Loaded
from leveret.store.returns import unpack_return

if TYPE_CHECKING:
    from leveret.backlog.backlog import Backlog

STEP = 500  # messages
READ_BYTES = 1 << 20
COPIED = 4_096  # messages in memory that are copied at once

Visitor = Callable[[int, Waiting], bool]  # (lane, (sequence, delivery count, message)) -> whether it takes the message
Glance = Callable[[Sequence[int], list[Message]], None]  # (sequences, messages): they stay in the queue
Position = Mapping[int, int]  # the last sequence that was visited in each lane
START: Position = {}


class Walk:
    """``first`` and ``stop`` limit the sequences, ``after`` begins behind the position of an earlier walk, and ``lane``
    limits the walk to one lane. A caller that takes nothing may pass a ``glance``: it is called with many messages at
    once, none of them delivered before, instead of ``visit`` with each message."""

    def __init__(
        self,
        queue: Backlog,
        visit: Visitor,
        on_progress: Callable[[], None] = lambda: None,
        *,
        glance: Glance | None = None,
        first: int = 0,
        stop: int | None = None,
        lane: Lane | None = None,
        after: Position = START,
    ) -> None:
        self._queue = queue
        self._visit = visit
        self._glance = glance
        self._on_progress = on_progress
        self._least, self._last_stop = first, stop
        self._after = after
        self._first = first  # the first sequence of the current lane that is visited
        self._lanes = deque(reversed(queue.lanes) if lane is None else (lane,))
        self._returned: list[Waiting] | None = None  # of the current lane, not visited yet
        self._still_returned: set[int] | None = None  # object ids of those that are still in the lane
        self._at = 0  # the next sequence of the current lane
        self._stop = 0  # the end of the lane when the walk reached it
        self._line = DequeReader()
        self._read: deque[Loaded] = deque()  # messages of the lane that were read from disk
        self._read_upto = 0
        self._is_reading = False
        self.is_over = False
        self.enough = False  # set by the visitor: no more messages in this step
        self.ends: dict[int, int] = {}  # the last sequence of each lane that was visited completely

    def step(self, most: int = STEP) -> bool:
        """Visit some messages; False if there is nothing to do until ``on_progress`` is called, or at the end."""
        looked = 0
        self.enough = False
        self._still_returned = None
        while looked < most and not self._is_reading and not self.is_over and not self.enough:
            if not self._queue.alive or not self._lanes:
                self.is_over = True
                break
            looked += self._look(self._lanes[0], most - looked)
        return not self._is_reading and not self.is_over

    def _look(self, lane: Lane, most: int) -> int:
        """Visit the message at this place, if there is one, or several consecutive messages; returns how many."""
        if self._returned is None:
            self._first = max(self._least, self._after.get(lane.number, -1) + 1)
            asked = (waiting for waiting in lane.returned if waiting[0] >= self._first)
            self._returned = sorted(asked, key=lambda waiting: -waiting[0])
            self._at = max(lane.head, self._first)
            self._stop = lane.tail if self._last_stop is None else min(lane.tail, self._last_stop)
        if self._returned:
            waiting = self._returned.pop()
            if self._still_returned is None:  # built once per step: after a crash ``returned`` may hold a whole backlog
                self._still_returned = set(map(id, lane.returned))
            if id(waiting) in self._still_returned and self._is_asked_for(waiting[0]):
                self._meet(lane, waiting)
            return 1
        if self._at >= self._stop:
            self._lanes.popleft()
            self.ends[lane.number] = self._stop - 1
            self._still_returned = None
            self._read.clear()
            self._returned = None
            self._read_upto = 0
            return 0
        self._at = max(self._at, lane.head)
        return self._look_on_disk(lane, most) if lane.is_paged(self._at) else self._look_here(lane, most)

    def _is_asked_for(self, sequence: int) -> bool:
        return sequence >= self._first and (self._last_stop is None or sequence < self._last_stop)

    def _look_here(self, lane: Lane, most: int) -> int:
        messages, first = (lane.ready, lane.head) if self._at < lane.page_start else (lane.fresh, lane.page_stop)
        index = self._at - first
        if self._glance is not None and not lane.holes and 0 <= index < len(messages):
            run = self._line.run(messages, index, self._at, min(most, self._stop - self._at))
            self._at += len(run)
            self._glance(range(self._at - len(run), self._at), run)
            return len(run)
        self._at += 1
        if not 0 <= index < len(messages):
            return 1
        # A copy still contains messages that have left since; without holes, none has left.
        message = messages[index] if lane.holes else self._line.at(messages, index, self._at - 1)
        if message is not HOLE:
            self._meet(lane, (self._at - 1, 0, message))
        return 1

    def _look_on_disk(self, lane: Lane, most: int) -> int:
        queue = self._queue
        assert queue.pager is not None
        while self._read and self._read[0].sequence < self._at:
            self._read.popleft()
        if self._read and self._glance is not None and queue.pager.is_untouched(lane):
            return self._glance_at_read(lane, self._glance, min(most, len(self._read)))
        if self._read:
            sequence, message, time = self._read.popleft()
            self._at = sequence + 1
            if lane.is_paged(sequence) and not queue.pager.is_leased(lane, sequence):
                count, _ = unpack_return(queue.pager.pages.tries(queue.id, lane.number, sequence))
                self._meet(lane, (sequence, count, queue.dated(message, time)))
            return 1
        if self._read_upto > self._at:
            self._at = min(self._read_upto, self._stop)
            return 1
        self._fetch(lane)
        return 0

    def _glance_at_read(self, lane: Lane, glance: Glance, number: int) -> int:
        start, stop = lane.page_start, min(lane.page_stop, self._stop)
        some = [self._read.popleft() for _ in range(number)]
        self._at = some[-1].sequence + 1
        there = [each for each in some if start <= each.sequence < stop]
        messages = [self._queue.dated(message, time) for _, message, time in there]
        glance([each.sequence for each in there], messages)
        return number

    def _fetch(self, lane: Lane) -> None:
        queue = self._queue
        assert queue.pager is not None
        found = queue.pager.next_stretch(lane, self._at)
        if found is None:
            self._at = lane.page_stop
            return
        self._is_reading = True
        first, stop = found
        pages = queue.pager.pages
        pages.load(queue.id, lane.number, first, stop, READ_BYTES, lambda loaded: self._fetched(loaded, first))

    def _fetched(self, loaded: list[Loaded], first: int) -> None:
        self._is_reading = False
        self._read = deque(loaded)
        self._read_upto = loaded[-1].sequence + 1 if loaded else first + 1
        self._on_progress()

    def _meet(self, lane: Lane, waiting: Waiting) -> None:
        if self._visit(lane.number, waiting):
            take_out(self._queue, lane, waiting)


class DequeReader:
    """Reads a deque from some index on.

    Indexing the middle of a deque takes time proportional to its distance from the ends. So some messages are copied at
    once, and as long as the deque does not change, an iterator continues with the next messages.
    """

    def __init__(self) -> None:
        self._copied: list[Message] = []
        self._first = 0  # the sequence of the first copied message
        self._messages: deque[Message] | None = None
        self._rest: Iterator[Message] = iter(())

    def at(self, messages: deque[Message], index: int, sequence: int) -> Message:
        """The message at this index, which has this sequence."""
        place = sequence - self._first
        if messages is not self._messages or not 0 <= place < len(self._copied):
            self._copy(messages, index, is_next=messages is self._messages and place == len(self._copied))
            self._messages, self._first, place = messages, sequence, 0
        return self._copied[place]

    def run(self, messages: deque[Message], index: int, sequence: int, most: int) -> list[Message]:
        """Some messages from this index on, at least one."""
        self.at(messages, index, sequence)
        place = sequence - self._first
        return self._copied[place : place + min(most, len(messages) - index)]

    def _copy(self, messages: deque[Message], index: int, *, is_next: bool) -> None:
        if is_next:
            try:
                self._copied = list(islice(self._rest, COPIED))
            except RuntimeError:  # the deque has changed since
                self._copied = []
            if self._copied:
                return
        self._rest = iter(messages)
        self._copied = list(islice(self._rest, index, index + COPIED))


def take_out(queue: Backlog, lane: Lane, waiting: Waiting) -> None:
    """Remove a message from its lane, at any place."""
    sequence, _, message = waiting
    if not lane.is_paged(sequence):
        lane.cut_out(sequence)
    elif queue.pager is not None:
        queue.pager.expire(lane, sequence, len(message[0]))
