"""Going through all waiting messages of a queue without consuming them, also those that are on disk only.

A walk looks at the messages in the order in which they would be delivered, some at a time (``step``), so that a queue
of millions never holds the loop. What is on disk only is read ahead of it in the worker; ``step`` says False then, and
``on_progress`` tells when it is worth going on. Messages that come or go meanwhile may be met or not; none is met twice
unless it was given back in between. The visitor says of each whether it takes it: such a message leaves its lane and
still holds its place in the log, until the visitor lets it go (queues/dying.py, ``leave``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from leveret.queues.expiry import dated
from leveret.queues.lane import HOLE, Lane, Waiting
from leveret.store.pages import Loaded
from leveret.store.returns import unpack_return

if TYPE_CHECKING:
    from leveret.queues.classic import ClassicQueue

STEP = 500  # messages
READ_BYTES = 1 << 20

Visitor = Callable[[int, Waiting], bool]  # (lane, (sequence, tries, message)): whether it takes the message


class Walk:
    def __init__(self, queue: ClassicQueue, visit: Visitor, on_progress: Callable[[], None] = lambda: None) -> None:
        self._queue = queue
        self._visit = visit
        self._on_progress = on_progress
        self._lanes = deque(reversed(queue.lanes))
        self._returned: list[Waiting] | None = None  # of the lane we are in, still to be looked at
        self._still_returned: set[int] | None = None  # those of them that are still there, by what they are
        self._at = 0  # the next sequence of that lane
        self._stop = 0  # where the lane ended when we came
        self._read: deque[Loaded] = deque()  # of it, from disk
        self._read_upto = 0
        self._is_reading = False
        self.is_over = False
        self.enough = False  # the visitor has had its fill for this step

    def step(self, most: int = STEP) -> bool:
        """Look at some; False if there is nothing to do before ``on_progress`` is called, or ever."""
        looked = 0
        self.enough = False
        self._still_returned = None
        while looked < most and not self._is_reading and not self.is_over and not self.enough:
            if not self._queue.alive or not self._lanes:
                self.is_over = True
                break
            looked += self._look(self._lanes[0])
        return not self._is_reading and not self.is_over

    def _look(self, lane: Lane) -> int:
        """At one message, if there is one where we stand."""
        if self._returned is None:
            self._returned = sorted(lane.returned, key=lambda waiting: -waiting[0])
            self._at, self._stop = lane.head, lane.tail
        if self._returned:
            waiting = self._returned.pop()
            if self._still_returned is None:  # once a step: after a crash all of a backlog may be among them
                self._still_returned = set(map(id, lane.returned))
            if id(waiting) in self._still_returned:
                self._meet(lane, waiting)
            return 1
        if self._at >= self._stop:
            self._lanes.popleft()
            self._still_returned = None
            self._read.clear()
            self._returned = None
            self._read_upto = 0
            return 0
        self._at = max(self._at, lane.head)
        return self._look_on_disk(lane) if lane.is_paged(self._at) else self._look_here(lane)

    def _look_here(self, lane: Lane) -> int:
        messages, first = (lane.ready, lane.head) if self._at < lane.page_start else (lane.fresh, lane.page_stop)
        index = self._at - first
        self._at += 1
        if not 0 <= index < len(messages) or messages[index] is HOLE:
            return 1
        self._meet(lane, (self._at - 1, 0, messages[index]))
        return 1

    def _look_on_disk(self, lane: Lane) -> int:
        while self._read and self._read[0].sequence < self._at:
            self._read.popleft()
        if self._read:
            sequence, message, time = self._read.popleft()
            self._at = sequence + 1
            queue = self._queue
            assert queue.pager is not None
            if lane.is_paged(sequence) and not queue.pager.is_leased(lane, sequence):
                tries, _ = unpack_return(queue.pager.pages.tries(queue.id, lane.number, sequence))
                self._meet(lane, (sequence, tries, dated(queue, message, time)))
            return 1
        if self._read_upto > self._at:
            self._at = min(self._read_upto, self._stop)
            return 1
        self._fetch(lane)
        return 0

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


def take_out(queue: ClassicQueue, lane: Lane, waiting: Waiting) -> None:
    """The message leaves its lane, wherever it stands."""
    sequence, _, message = waiting
    if not lane.is_paged(sequence):
        lane.cut_out(sequence)
    elif queue.pager is not None:
        queue.pager.expire(lane, sequence, len(message[0]))
