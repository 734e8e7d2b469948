"""Whoever comes while it is shut waits until it is opened, or is turned away."""

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
        """Those who wait now; it stays shut."""
        if not self.is_open:
            self._passage.set_exception(problem)
            self._passage.exception()  # perhaps nobody waits
        self._passage = self._loop.create_future()
