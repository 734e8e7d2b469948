"""Marks in the definitions that two cells send each other, so that a request can wait for the changes before it.

Requests of the HTTP API have connections of their own. The sender puts a mark behind the changes that it has reported,
and names it in its request or reply; the other side waits until the mark has arrived. Between two cells that are not
the first, marks go through the first, as the changes do.
"""

from __future__ import annotations

import asyncio
from itertools import count


class DefinitionMarks:
    def __init__(self) -> None:
        self._numbers = count(1)
        self._arrived: dict[str, int] = {}  # by the cell that sent it
        self._waiting: dict[str, list[tuple[int, asyncio.Future[None]]]] = {}

    def make(self) -> int:
        return next(self._numbers)

    def forget(self, cell: str) -> None:
        """It counts from the beginning again."""
        self._arrived.pop(cell, None)

    def forget_all(self) -> None:
        """They arrive on another connection from now on."""
        self._arrived.clear()

    def arrived(self, cell: str, mark: int) -> None:
        self._arrived[cell] = mark
        waiting = self._waiting.pop(cell, [])
        for wanted, reached in waiting:
            if wanted > mark:
                self._waiting.setdefault(cell, []).append((wanted, reached))
            elif not reached.done():
                reached.set_result(None)

    async def wait(self, cell: str, mark: int) -> None:
        if self._arrived.get(cell, 0) < mark:
            reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(cell, []).append((mark, reached))
            await reached
