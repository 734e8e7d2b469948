"""Settling many messages at once: acks and nacks of a whole backlog, and unacked messages of a closed channel.

It takes as many time slices as needed (broker/background.py). Messages are requeued in the order of the queue. Until
all are requeued, the queue delivers only requeued ones (``returning``), so that no message overtakes an earlier one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from leveret.delivery.unacked import Portion

if TYPE_CHECKING:
    from leveret.broker.background import BackgroundTasks

FEW = 4096  # messages that are settled in one step, within a millisecond or two
AT_ONCE = 500  # messages between two checks of the time

Settle = Callable[[list[Portion]], None]


class Settlement:
    """A background task: ``settle`` is called for all portions, a few messages at a time."""

    def __init__(
        self, background: BackgroundTasks, portions: Iterable[Portion], settle: Settle, *, returns: bool
    ) -> None:
        self._background = background
        self._portions = deque(portions)
        self._settle = settle
        self._queues = dict.fromkeys([portion.holder.queue for portion in self._portions] if returns else [])
        for queue in self._queues:
            queue.returning += 1
        for portion in self._portions:
            portion.messages.reverse()  # so that settled ones can be removed from the end

    def step(self) -> bool:
        time_slice = self._background.new_slice()
        while self._portions:
            holder, lane, sequence, messages, tries = self._portions.popleft()
            some = messages[-AT_ONCE:]
            some.reverse()
            del messages[-AT_ONCE:]
            if messages:
                self._portions.appendleft(Portion(holder, lane, sequence + len(some), messages, tries))
            self._settle([Portion(holder, lane, sequence, some, tries)])
            if time_slice.is_over:
                break
        if self._portions:
            return True
        for queue in self._queues:
            queue.returning -= 1
            queue.touch()
        return False
