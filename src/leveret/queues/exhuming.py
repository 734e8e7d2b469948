"""Messages that are on disk only and leave their queue, where somebody wants to see them before they go.

They may lie anywhere in the lane, and there may be thousands: what stands close together is read at once, one stretch
after the other, so that neither the reader nor memory is flooded. Until they are read and buried they hold their places
in the log, and a crash brings them back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from leveret.queues.dying import Dead
from leveret.store.pages import Loaded, Pages

if TYPE_CHECKING:
    from leveret.queues.classic import ClassicQueue
    from leveret.queues.lane import Lane

STRETCH = 512  # messages: each is sent on when it is here, and that takes its time
STRETCH_BYTES = 1 << 20
SMALL_GAP = 64  # sequences: reading so many in vain is cheaper than reading twice


class ScatteredRead:
    """Reads some messages of one lane. ``take`` gets them as they come, with the sequences that could not be found;
    ``over`` is called once at the end."""

    __slots__ = ("_is_reading", "_is_running", "_lane", "_over", "_pages", "_queue", "_take", "_wanted")

    def __init__(
        self,
        pages: Pages,
        queue: int,
        lane: int,
        sequences: Sequence[int],
        take: Callable[[list[Loaded], list[int]], None],
        over: Callable[[], None],
    ) -> None:
        self._pages = pages
        self._queue = queue
        self._lane = lane
        self._wanted = deque(sorted(sequences))
        self._take = take
        self._over = over
        self._is_reading = False
        self._is_running = False

    def go_on(self) -> None:
        """Called again from below by each answer; a reader that answers at once must not pile up calls."""
        if self._is_running:
            return
        self._is_running = True
        while self._wanted and not self._is_reading:
            self._is_reading = True
            first, stop = self._wanted[0], self._stretch_end() + 1
            self._pages.load(self._queue, self._lane, first, stop, STRETCH_BYTES, self._loaded)
        self._is_running = False
        if not self._is_reading:
            self._over()

    def _stretch_end(self) -> int:
        end = self._wanted[0]
        for sequence in islice(self._wanted, STRETCH):
            if sequence - end > SMALL_GAP:
                break
            end = sequence
        return end

    def _loaded(self, loaded: list[Loaded]) -> None:
        self._is_reading = False
        by_sequence = {each.sequence: each for each in loaded}
        reached = loaded[-1].sequence if loaded else self._wanted[0]
        found: list[Loaded] = []
        missing: list[int] = []
        while self._wanted and self._wanted[0] <= reached:
            sequence = self._wanted.popleft()
            if sequence in by_sequence:
                found.append(by_sequence[sequence])
            else:
                missing.append(sequence)
        self._take(found, missing)
        self.go_on()


def exhume(queue: ClassicQueue, lane: Lane, sequences: Sequence[int], bury: Callable[[list[Dead]], None]) -> int:
    """These leave the lane now, and ``bury`` gets them as they are read; how many were still there."""
    pager = queue.pager
    assert pager is not None
    pager.forget_exhumed()
    sizes: dict[int, int] = {}
    for sequence in sequences:
        size = pager.take_out(lane, sequence)
        if size is not None:
            sizes[sequence] = size
    if not sizes:
        return 0
    pager.exhuming += 1

    def take(found: list[Loaded], missing: list[int]) -> None:
        if not queue.alive:
            return
        if found:
            # Both books are to lose the same, and the other one knew these by their share of a run only.
            queue.bytes += sum([len(message[0]) - sizes[sequence] for sequence, message, _ in found])
            bury([Dead(lane.number, sequence, message) for sequence, message, _ in found])
        for sequence in missing:
            queue.release(lane.number, sequence, 1, sizes[sequence])
        for sequence in [*(each.sequence for each in found), *missing]:
            pager.pages.drop(queue.id, lane.number, sequence, 1)

    def over() -> None:
        pager.exhuming -= 1
        queue.touch()

    ScatteredRead(pager.pages, queue.id, lane.number, list(sizes), take, over).go_on()
    return len(sizes)
