"""Reads messages that are scattered over a lane on disk.

There may be thousands, anywhere in the lane: neighbours are read together, one stretch after the other, to limit the
load of the reader and the use of memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice

from leveret.store.pages import Loaded, Pages

STRETCH = 512  # messages; each is processed after it was read, which takes some time
STRETCH_BYTES = 1 << 20
SMALL_GAP = 64  # sequences: reading these unnecessarily is cheaper than a second read
Wait = Callable[[Callable[[], None]], bool]


class ScatteredRead:
    """Reads some messages of one lane. ``take`` is called with messages as they are read, and with the sequences that
    were not found; ``over`` is called once at the end. ``wait(call)`` is called before each read: if it returns True,
    the read goes on when it calls back."""

    __slots__ = ("_is_reading", "_is_running", "_lane", "_over", "_pages", "_queue", "_take", "_wait", "_wanted")

    def __init__(
        self,
        pages: Pages,
        queue: int,
        lane: int,
        sequences: Sequence[int],
        take: Callable[[list[Loaded], list[int]], None],
        over: Callable[[], None],
        wait: Wait = lambda _: False,
    ) -> None:
        self._pages = pages
        self._queue = queue
        self._lane = lane
        self._wanted = deque(sorted(sequences))
        self._take = take
        self._over = over
        self._wait = wait
        self._is_reading = False
        self._is_running = False

    def go_on(self) -> None:
        """Called again after each read; if a reader answers at once, these calls must not nest."""
        if self._is_running:
            return
        self._is_running = True
        while self._wanted and not self._is_reading:
            if self._wait(self.go_on):
                self._is_running = False
                return
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
