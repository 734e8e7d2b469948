"""Work that is done once, however many callers ask for it. If it is cancelled half way, the next caller starts it from
the beginning: each of its steps may be repeated."""

from __future__ import annotations

from collections.abc import Awaitable, Callable


class Once:
    __slots__ = ("_is_done", "_is_under_way", "_work")

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = work
        self._is_under_way = False
        self._is_done = False

    async def do(self) -> None:
        """A call while it runs does not wait: the work itself may be waiting for that caller."""
        if self._is_under_way or self._is_done:
            return
        self._is_under_way = True
        try:
            await self._work()
            self._is_done = True
        finally:
            self._is_under_way = False
