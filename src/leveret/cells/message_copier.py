"""Reads the messages of a queue in order and sends them to its copy in another cell (cells/queue_copy.py).

Each lane is walked in rounds: a round visits what has arrived since the last one. Messages on disk are read in a
worker, a few at a time. The copy numbers the messages of a lane 1, 2, 3, ..., so this side knows the sequence of each
message there, and can have those removed that leave the queue later.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from itertools import groupby, islice
from typing import NamedTuple

from leveret.backlog.lane import Lane, Waiting
from leveret.backlog.walk import STEP, Walk
from leveret.cells.queue_copy import CopiedMessage, Send
from leveret.message import NEVER, Message
from leveret.queues.classic import ClassicQueue
from leveret.store.returns import unpack_return

STEP_BYTES = 256 << 10


class Place(NamedTuple):
    """Consecutive messages: their first sequence in the queue and in the copy."""

    first: int
    copied: int
    number: int


class Waited(NamedTuple):
    """A requeued or delayed message, which is sent before the rest of its lane. ``when``: its due time, or 0."""

    copied: CopiedLane
    tries: int
    message: Message
    when: float


class CopiedLane:
    """Which messages of a lane were sent, and their sequences in the copy."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane
        self.upto = 0  # sequences below this were visited
        self.sent = 0
        self._places: list[Place] = []

    def add(self, sequence: int) -> int:
        self.sent += 1
        last = self._places[-1] if self._places else None
        if last is not None and sequence == last.first + last.number:
            self._places[-1] = last._replace(number=last.number + 1)
        else:
            self._places.append(Place(sequence, self.sent, 1))
        return self.sent

    def find(self, first: int, number: int) -> list[tuple[int, int]]:
        """Sequences in the copy, and numbers, of those of these messages that were sent."""
        found: list[tuple[int, int]] = []
        at = max(bisect_right(self._places, first, key=lambda place: place.first) - 1, 0)
        for place in self._places[at:]:
            if place.first >= first + number:
                break
            start, stop = max(first, place.first), min(first + number, place.first + place.number)
            if start < stop:
                found.append((place.copied + start - place.first, stop - start))
        return found

    def has(self, sequence: int) -> bool:
        return bool(self.find(sequence, 1))


class MessageCopier:
    """``on_progress`` is called when messages were read from disk."""

    def __init__(self, queue: ClassicQueue, send: Send, on_progress: Callable[[], None]) -> None:
        self.live = 0  # messages of the copy
        self._queue = queue
        self._send = send
        self._on_progress = on_progress
        self._context = queue.context
        self._lanes = [CopiedLane(lane) for lane in queue.lanes]
        self._order = self._lanes[::-1]  # the highest priority first
        self._ahead: dict[tuple[int, int], Waited] = {}  # lane and sequence, in the order in which they are sent
        self._at = 0  # the lane that is copied
        self._walk: Walk | None = None
        self._gathered: list[tuple[int, Message, bool, int, float]] = []
        self._bytes = 0

    @property
    def left(self) -> int:
        """Sequences that no round has visited."""
        return len(self._ahead) + sum(copied.lane.tail - copied.upto for copied in self._lanes)

    @property
    def is_complete(self) -> bool:
        """Whether the copy has as many messages as the queue, and none is being read from disk."""
        return self.live == self._queue.outstanding and not self.is_loading

    @property
    def is_loading(self) -> bool:
        pager = self._queue.pager
        return pager is not None and (pager.reads_expired > 0 or any(map(pager.is_loading, self._queue.lanes)))

    def begin(self) -> None:
        """Requeued and delayed messages are the first of their lanes, in the order of the queue."""
        delayed, ahead = self._queue.delayed, self._context.wall_ahead()
        for copied in self._lanes:
            number = copied.lane.number
            found = {sequence: Waited(copied, count, message, 0.0) for sequence, count, message in copied.lane.returned}
            if delayed is not None:
                due = [(when, place) for when, place in delayed.times() if place[0] == number]
                found |= {place[1]: Waited(copied, *delayed.find(*place), when + ahead) for when, place in due}
            self._ahead |= {(number, sequence): found[sequence] for sequence in sorted(found)}
            copied.upto = copied.lane.head

    def step(self) -> bool | None:
        """Send some messages. False if there is nothing to do until ``on_progress`` is called; None at the end of a
        round."""
        self._bytes = 0
        if self._ahead:
            self._send_ahead()
            return True
        if self._walk is None:
            copied = self._order[self._at]
            first, copied.upto = copied.upto, copied.lane.tail
            self._walk = Walk(
                self._queue, self._visit, self._on_progress, first=first, stop=copied.upto, lane=copied.lane
            )
        goes_on = self._walk.step(STEP)
        self.flush()
        if not self._walk.is_over:
            return goes_on
        self._walk = None
        self._at = (self._at + 1) % len(self._order)
        return True if self._at else None

    def _send_ahead(self) -> None:
        for place in list(islice(self._ahead, STEP)):
            copied, count, message, when = self._ahead.pop(place)
            self._gather(copied, place[1], message, True, count, when)
            if self._bytes > STEP_BYTES:
                break
        self.flush()

    def _visit(self, lane: int, waiting: Waiting) -> bool:
        sequence, count, message = waiting
        copied = self._lanes[lane]
        if copied.has(sequence):
            return False
        due = 0.0
        if copied.lane.is_paged(sequence) and self._queue.pager is not None:
            count, due = unpack_return(self._queue.pager.pages.tries(self._queue.id, lane, sequence))
        is_redelivered = count > 0 or sequence < copied.lane.redelivered_below
        self._gather(copied, sequence, message, is_redelivered, count, due)
        if self._bytes > STEP_BYTES and self._walk is not None:
            self._walk.enough = True
        return False

    def _gather(
        self, copied: CopiedLane, sequence: int, message: Message, is_redelivered: bool, count: int, due: float
    ) -> None:
        copied.add(sequence)
        self.live += 1
        self._bytes += len(message[0])
        self._gathered.append((copied.lane.number, message, is_redelivered, count, due))
        if len(self._gathered) >= STEP:
            self.flush()

    def flush(self) -> None:
        """Send what was gathered: a frame for each run of one lane, one address and one persistence."""
        gathered, self._gathered = self._gathered, []
        first = [copied.sent for copied in self._lanes]
        for lane, *_ in gathered:
            first[lane] -= 1
        by_kind = groupby(gathered, key=lambda each: (each[0], id(each[1][1]), each[1][2].persistent))
        for (lane, _, persistent), run in by_kind:
            messages = list(run)
            address = messages[0][1][1]
            where = [address.exchange, address.key, address.channel, address.frame_max]
            packed = [self._packed(*each[1:]) for each in messages]
            self._send({"run": [lane, first[lane] + 1, where, persistent, packed]})
            first[lane] += len(messages)

    def _packed(self, message: Message, is_redelivered: bool, count: int, due: float) -> CopiedMessage:
        traits = message[2]
        deadline = None if traits.deadline == NEVER else traits.deadline + self._context.wall_ahead()
        return [message[0], traits.priority, deadline, is_redelivered, count, due]

    def released(self, lane: int, sequence: int, number: int) -> None:
        """Messages have left the queue."""
        self.flush()
        if self._ahead:
            for place in [each for each in self._ahead if each[0] == lane and sequence <= each[1] < sequence + number]:
                del self._ahead[place]
        for first, gone in self._lanes[lane].find(sequence, number):
            self.live -= gone
            self._send({"gone": [lane, first, gone]})
