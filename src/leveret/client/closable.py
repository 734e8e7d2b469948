"""Closing objects of the asyncio API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Self


class Closable:
    """Closed at the end of ``async with``."""

    async def close(self) -> None:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()


class Once:
    """Work that is done once, however many callers request it. If it is cancelled, the next caller starts it again:
    each of its steps can be repeated."""

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = work
        self._is_under_way = False
        self._is_done = False

    async def do(self) -> None:
        """Returns at once while the work is running: the work may be waiting for that caller."""
        if self._is_under_way or self._is_done:
            return
        self._is_under_way = True
        try:
            await self._work()
            self._is_done = True
        finally:
            self._is_under_way = False
