"""The size of the bodies that wait in a queue, for x-max-length-bytes: exact or too low, never too high.

RabbitMQ counts bodies only, and a limit must not drop a message because of an estimate. In memory, messages wait in
``SizedDeque``s, which update the total when messages are added and removed. For messages that were paged out since the
start the sum is known as well. Messages that were on disk before the start are counted when they are read for the first
time; until then they count as 0.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from leveret.message import Message
from leveret.wire.content import body_size

if TYPE_CHECKING:
    from leveret.backlog.backlog import Backlog
    from leveret.backlog.lane import Lane


def waiting_body_size(message: Message) -> int:
    return body_size(message[0]) if message[0] else 0  # a hole has no content


class SizedDeque(deque[Message]):
    """Waiting messages; ``bodies`` is the total size of their bodies."""

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        super().__init__(messages)
        self.bodies = sum(map(waiting_body_size, self))

    def append(self, message: Message) -> None:
        self.bodies += waiting_body_size(message)
        super().append(message)

    def appendleft(self, message: Message) -> None:
        self.bodies += waiting_body_size(message)
        super().appendleft(message)

    def extend(self, messages: Iterable[Message]) -> None:
        messages = list(messages)
        self.bodies += sum(map(waiting_body_size, messages))
        super().extend(messages)

    def pop(self) -> Message:  # type: ignore[override]
        message = super().pop()
        self.bodies -= waiting_body_size(message)
        return message

    def popleft(self) -> Message:
        message = super().popleft()
        self.bodies -= waiting_body_size(message)
        return message

    def clear(self) -> None:
        self.bodies = 0
        super().clear()

    def __setitem__(self, index: int, message: Message) -> None:  # type: ignore[override]
        self.bodies += waiting_body_size(message) - waiting_body_size(self[index])
        super().__setitem__(index, message)


def count_bodies(queue: Backlog) -> None:
    """Count the bodies in this queue from now on."""
    for lane in queue.lanes:
        if isinstance(lane.ready, SizedDeque):
            continue
        is_paged = lane.incoming is lane.fresh
        lane.ready, lane.fresh = SizedDeque(lane.ready), SizedDeque(lane.fresh)
        lane.incoming = lane.fresh if is_paged else lane.ready
    if queue.pager is not None and queue.pager.paged_bodies is None:
        queue.pager.paged_bodies = PagedBodySizes()
        for lane in queue.lanes:
            queue.pager.paged_bodies.unknown[lane.number] = (lane.page_start, lane.page_stop)


def bodies_of(queue: Backlog) -> int:
    """The size of the bodies of all ready messages."""
    total = 0 if queue.pager is None or queue.pager.paged_bodies is None else queue.pager.paged_bodies.total
    for lane in queue.lanes:
        assert isinstance(lane.ready, SizedDeque)
        assert isinstance(lane.fresh, SizedDeque)
        total += lane.ready.bodies + lane.fresh.bodies + sum([body_size(each[2][0]) for each in lane.returned])
    return total


class PagedBodySizes:
    """The sizes of the bodies of messages that are on disk only, as far as they are known."""

    __slots__ = ("total", "unknown")

    def __init__(self) -> None:
        self.total = 0
        self.unknown: dict[int, tuple[int, int]] = {}  # by lane: range of sequences that were never read

    def _is_known(self, lane: Lane, sequence: int) -> bool:
        start, stop = self.unknown.get(lane.number, (0, 0))
        return not start <= sequence < stop

    def paged_out(self, message: Message) -> None:
        """Count a message that is on disk only from now on."""
        self.total += body_size(message[0])

    def loaded(self, lane: Lane, sequence: int, message: Message) -> None:
        if self._is_known(lane, sequence):
            self.total -= body_size(message[0])
        else:
            self.unknown[lane.number] = (sequence + 1, self.unknown[lane.number][1])

    def dropped(self, lane: Lane, sequence: int, size: int) -> None:
        """Subtract a message that was not read. ``size``: of its content, which is no smaller than its body."""
        if self._is_known(lane, sequence):
            self.total = max(self.total - size, 0)

    def many_dropped(self, lane: Lane, sequence: int, number: int, size: int) -> None:
        """As ``dropped``, for consecutive messages; the total may become too low."""
        if self._is_known(lane, sequence) or self._is_known(lane, sequence + number - 1):
            self.total = max(self.total - size, 0)

    def begin(self, lane: Lane) -> None:
        """Mark all paged messages of the lane as on disk before the start."""
        self.unknown[lane.number] = (lane.page_start, lane.page_stop)
