"""Messages that come back from a consumer: at once, after a while, or not any more.

A message that came back more often than the queue's delivery limit allows is dead. With a retry plan it waits before it
is tried again; while it waits it is neither ready nor unacked. Its place, how often it came back and until when it
waits are in the log: after a restart it waits on, as soon as it was read from disk (until then it counts as ready).
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from leveret.message import NEVER, Message
from leveret.queues.dying import DELIVERY_LIMIT, Dead, bury
from leveret.queues.next_moment import NextMoment
from leveret.store.returns import pack_return

if TYPE_CHECKING:
    from leveret.queues.classic import ClassicQueue


def give_back(
    queue: ClassicQueue, lane: int, sequence: int, messages: list[Message], count: int, tried: bool = True
) -> None:
    """Consecutive messages, each delivered ``count`` times before this delivery. ``tried``: a consumer has had its
    chance; else it went before it could decide."""
    tries, options = count + 1, queue.options
    plan = options.retry
    is_over = options.delivery_limit is not None and tries > options.delivery_limit
    if is_over or (plan is not None and tried and plan.is_over(tries)):
        queue.counters.dropped += len(messages)
        bury(queue, DELIVERY_LIMIT, [Dead(lane, place, message) for place, message in enumerate(messages, sequence)])
        return
    queue.counters.requeued += len(messages)
    if plan is not None and (plan.failed if tried else plan.left):
        assert queue.waiting is not None
        queue.waiting.take(lane, sequence, messages, tries)
        return
    if queue.stored:
        queue.surroundings.log.returned(queue.id, lane, sequence, len(messages), tries)
    for place, message in enumerate(messages, sequence):
        restore(queue, lane, place, tries, message)


def restore(queue: ClassicQueue, lane: int, sequence: int, tries: int, message: Message) -> None:
    """To its old place, ready."""
    queue.lanes[lane].give_back(sequence, tries, message)
    if message[2].deadline != NEVER and queue.deadlines is not None:
        queue.deadlines.watch(lane, sequence, message[2].deadline)


class Waiting:
    """Messages of one queue that are to be tried again later."""

    __slots__ = ("_due", "_kept", "_next", "_queue", "bytes")

    def __init__(self, queue: ClassicQueue) -> None:
        self._queue = queue
        self._due: list[tuple[float, int, int]] = []  # when, lane, sequence
        self._kept: dict[tuple[int, int], tuple[int, Message]] = {}
        self._next = NextMoment(queue.surroundings, self._look)
        self.bytes = 0  # of content

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[tuple[int, int, Message]]:
        """Lane, sequence and message of each."""
        return ((lane, sequence, message) for (lane, sequence), (_, message) in self._kept.items())

    def take(self, lane: int, sequence: int, messages: list[Message], tries: int) -> None:
        queue = self._queue
        plan, surroundings = queue.options.retry, queue.surroundings
        assert plan is not None
        now = surroundings.now()
        for place, message in enumerate(messages, sequence):
            due = now + plan.delay(tries, surroundings.chance())
            if queue.stored:
                wall = due + surroundings.wall_ahead()
                surroundings.log.returned(queue.id, lane, place, 1, pack_return(tries, wall))
            self.keep(due, lane, place, tries, message)

    def keep(self, due: float, lane: int, sequence: int, tries: int, message: Message) -> None:
        due = min(due, message[2].deadline)
        self._kept[lane, sequence] = (tries, message)
        self.bytes += len(message[0])
        heappush(self._due, (due, lane, sequence))
        self._next.no_later_than(due)

    def _look(self) -> None:
        self.release(self._queue.surroundings.now())
        if self._due:
            self._next.no_later_than(self._due[0][0])

    def release(self, now: float) -> None:
        """What is due by then is ready again."""
        queue = self._queue
        while self._due and self._due[0][0] <= now:
            _, lane, sequence = heappop(self._due)
            tries, message = self._kept.pop((lane, sequence))
            self.bytes -= len(message[0])
            restore(queue, lane, sequence, tries, message)
        queue.touch()

    def stop(self) -> None:
        self._next.stop()


def note_redelivered(queue: ClassicQueue) -> None:
    """Tell the log which waiting messages were delivered before without having come back in this life."""
    log = queue.surroundings.log
    for lane in queue.lanes:
        for sequence, tries, _ in lane.returned:
            if not tries:
                log.returned(queue.id, lane.number, sequence, 1, 0)
        number = min(lane.redelivered_below, lane.page_stop) - lane.page_start
        if number > 0:
            log.returned(queue.id, lane.number, lane.page_start, number, 0)
