"""How many may look through queues at a time. Each look takes a step in every turn, and keeps what it found until it is
told: many of them together would hold up everybody who sends or waits for a message."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from leveret.management.errors import Busy

MOST = 20
PATIENCE = 5.0  # seconds that one waits for another to leave


class LookPlaces:
    def __init__(self) -> None:
        self._places = asyncio.Semaphore(MOST)

    @asynccontextmanager
    async def one(self) -> AsyncGenerator[None]:
        try:
            async with asyncio.timeout(PATIENCE):
                await self._places.acquire()
        except TimeoutError:
            raise Busy(f"{MOST} looks into queues are under way already: ask again when one of them is over") from None
        try:
            yield
        finally:
            self._places.release()
