"""How many may look through queues at a time. Each look takes a step in every turn, and keeps what it found until it is
told: many of them together would hold up everybody who sends or waits for a message. One virtual host gets half of the
places at most."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from weakref import WeakValueDictionary

from leveret.http.errors import Busy

MOST = 20
MOST_OF_VHOST = 10
PATIENCE = 5.0  # seconds that one waits for another to leave


class BrowseSlots:
    def __init__(self) -> None:
        self._places = asyncio.Semaphore(MOST)
        self._of_vhost: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()  # while one is in use

    @asynccontextmanager
    async def one(self, vhost: str) -> AsyncGenerator[None]:
        own = self._of_vhost.setdefault(vhost, asyncio.Semaphore(MOST_OF_VHOST))
        async with AsyncExitStack() as held:
            try:
                async with asyncio.timeout(PATIENCE):
                    await held.enter_async_context(
                        own
                    )  # first: a request that waits here does not occupy a shared slot
                    await held.enter_async_context(self._places)
            except TimeoutError:
                raise Busy(
                    f"{MOST} looks into queues are under way already, or {MOST_OF_VHOST} in one virtual host: ask "
                    "again when one of them is over"
                ) from None
            yield
