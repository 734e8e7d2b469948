"""Long work on the event loop in short time slices, so that messages are not delayed noticeably."""

from __future__ import annotations

import asyncio
from time import perf_counter

SLICE_SECONDS = 0.0005  # about how long an arriving message waits at most


class TimeSlice:
    """For a loop over many objects: ``await time_slice.pause_if_over()`` after each of them.

    Loops whose steps take a microsecond use ``is_over`` and ``pause``, so that most steps await nothing.
    """

    __slots__ = ("_end",)

    def __init__(self) -> None:
        self._end = perf_counter() + SLICE_SECONDS

    def is_over(self) -> bool:
        return perf_counter() >= self._end

    async def pause(self) -> None:
        """Let other tasks run."""
        await asyncio.sleep(0)
        self._end = perf_counter() + SLICE_SECONDS

    async def pause_if_over(self) -> bool:
        """Let other tasks run if the slice is used up; True if so."""
        if not self.is_over():
            return False
        await self.pause()
        return True
