"""A gate: while it is shut, callers wait until it opens, or fail."""

from __future__ import annotations

import asyncio


class Gate:
    __slots__ = ("_loop", "_passage")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._passage: asyncio.Future[None] = self._loop.create_future()

    @property
    def is_open(self) -> bool:
        return self._passage.done()

    async def wait(self) -> None:
        await asyncio.shield(self._passage)

    def open(self) -> None:
        if not self.is_open:
            self._passage.set_result(None)

    def shut(self) -> None:
        if self.is_open:
            self._passage = self._loop.create_future()

    def turn_away(self, problem: Exception) -> None:
        """Fail the callers that wait now; the gate stays shut."""
        if not self.is_open:
            self._passage.set_exception(problem)
            self._passage.exception()  # it may have no waiting caller
        self._passage = self._loop.create_future()
