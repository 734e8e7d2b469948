"""Objects of the asyncio API that are closed at the end of ``async with``."""

from __future__ import annotations

from typing import Self


class Closable:
    __slots__ = ()

    async def close(self) -> None:
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()
