"""Long work on the loop, in short turns: nobody who sends or waits for a message notices it."""

from __future__ import annotations

import asyncio
from time import perf_counter

TURN_SECONDS = 0.0005  # a message that comes meanwhile waits about that long


class Turn:
    """Of somebody who looks at many things: ``await turn.rest()`` after each of them."""

    __slots__ = ("_end",)

    def __init__(self) -> None:
        self._end = perf_counter() + TURN_SECONDS

    async def rest(self) -> bool:
        """Lets the others go first, if the turn has lasted long enough; says whether it has."""
        if perf_counter() < self._end:
            return False
        await asyncio.sleep(0)
        self._end = perf_counter() + TURN_SECONDS
        return True
