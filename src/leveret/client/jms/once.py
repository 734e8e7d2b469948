"""Work that is done once, whoever asks for it and however often. If it is given up half way, the next who asks does it
from its beginning: each of its steps may be done twice."""

from __future__ import annotations

from collections.abc import Awaitable, Callable


class Once:
    __slots__ = ("_is_done", "_is_under_way", "_work")

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = work
        self._is_under_way = False
        self._is_done = False

    async def do(self) -> None:
        """Who comes while it is under way does not wait: it may be the one who is waited for."""
        if self._is_under_way or self._is_done:
            return
        self._is_under_way = True
        try:
            await self._work()
            self._is_done = True
        finally:
            self._is_under_way = False
