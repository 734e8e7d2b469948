"""How many bytes of bodies wait in a queue, for x-max-length-bytes: exact, or too low, never too high.

RabbitMQ counts bodies alone, and a limit must not drop a message on a guess. In memory the messages stand in
``Bodies``, deques that count what goes in and out. Of messages that were paged out in this life the sum is known, too.
Those that an earlier life left on disk are counted when they are read for the first time; until then they count
nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from leveret.message import Message
from leveret.wire.content import body_size

if TYPE_CHECKING:
    from leveret.queues.classic import ClassicQueue
    from leveret.queues.lane import Lane


def body_of_waiting(message: Message) -> int:
    return body_size(message[0]) if message[0] else 0  # a hole has no content


class Bodies(deque[Message]):
    """Waiting messages; ``bodies`` is the size of all their bodies."""

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        super().__init__(messages)
        self.bodies = sum(map(body_of_waiting, self))

    def append(self, message: Message) -> None:
        self.bodies += body_of_waiting(message)
        super().append(message)

    def appendleft(self, message: Message) -> None:
        self.bodies += body_of_waiting(message)
        super().appendleft(message)

    def extend(self, messages: Iterable[Message]) -> None:
        messages = list(messages)
        self.bodies += sum(map(body_of_waiting, messages))
        super().extend(messages)

    def pop(self) -> Message:  # type: ignore[override]
        message = super().pop()
        self.bodies -= body_of_waiting(message)
        return message

    def popleft(self) -> Message:
        message = super().popleft()
        self.bodies -= body_of_waiting(message)
        return message

    def clear(self) -> None:
        self.bodies = 0
        super().clear()

    def __setitem__(self, index: int, message: Message) -> None:  # type: ignore[override]
        self.bodies += body_of_waiting(message) - body_of_waiting(self[index])
        super().__setitem__(index, message)


def count_bodies(queue: ClassicQueue) -> None:
    """From now on the bodies in this queue are counted."""
    for lane in queue.lanes:
        if isinstance(lane.ready, Bodies):
            continue
        is_paged = lane.incoming is lane.fresh
        lane.ready, lane.fresh = Bodies(lane.ready), Bodies(lane.fresh)
        lane.incoming = lane.fresh if is_paged else lane.ready
    if queue.pager is not None and queue.pager.paged_bodies is None:
        queue.pager.paged_bodies = PagedBodies()
        for lane in queue.lanes:
            queue.pager.paged_bodies.unknown[lane.number] = (lane.page_start, lane.page_stop)


def bodies_of(queue: ClassicQueue) -> int:
    """Of all that are ready."""
    total = 0 if queue.pager is None or queue.pager.paged_bodies is None else queue.pager.paged_bodies.total
    for lane in queue.lanes:
        assert isinstance(lane.ready, Bodies)
        assert isinstance(lane.fresh, Bodies)
        total += lane.ready.bodies + lane.fresh.bodies + sum([body_size(each[2][0]) for each in lane.returned])
    return total


class PagedBodies:
    """Bodies of messages that are on disk only, as far as they are known."""

    __slots__ = ("total", "unknown")

    def __init__(self) -> None:
        self.total = 0
        self.unknown: dict[int, tuple[int, int]] = {}  # by lane: sequences from..below that were never seen

    def _is_known(self, lane: Lane, sequence: int) -> bool:
        start, stop = self.unknown.get(lane.number, (0, 0))
        return not start <= sequence < stop

    def left(self, message: Message) -> None:
        """It is on disk only from now on."""
        self.total += body_size(message[0])

    def came_back(self, lane: Lane, sequence: int, message: Message) -> None:
        if self._is_known(lane, sequence):
            self.total -= body_size(message[0])
        else:
            self.unknown[lane.number] = (sequence + 1, self.unknown[lane.number][1])

    def died(self, lane: Lane, sequence: int, size: int) -> None:
        """Unseen: its content is no smaller than its body."""
        if self._is_known(lane, sequence):
            self.total = max(self.total - size, 0)

    def many_died(self, lane: Lane, sequence: int, number: int, size: int) -> None:
        """As ``died``, for consecutive ones: too low is allowed."""
        if self._is_known(lane, sequence) or self._is_known(lane, sequence + number - 1):
            self.total = max(self.total - size, 0)

    def begin(self, lane: Lane) -> None:
        """All that is paged was left by an earlier life."""
        self.unknown[lane.number] = (lane.page_start, lane.page_stop)
