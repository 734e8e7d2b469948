"""A limit on concurrent browse requests. Each of them takes a step in every tick and holds its messages in memory until
the response: many together would delay other clients. One virtual host gets at most half of the slots."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from weakref import WeakValueDictionary

from leveret.http.errors import Busy

MOST = 20
MOST_OF_VHOST = 10
PATIENCE = 5.0  # seconds to wait for a free slot


class BrowseSlots:
    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(MOST)
        self._of_vhost: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()  # while it is in use

    @asynccontextmanager
    async def one(self, vhost: str) -> AsyncGenerator[None]:
        own = self._of_vhost.setdefault(vhost, asyncio.Semaphore(MOST_OF_VHOST))
        async with AsyncExitStack() as held:
            try:
                async with asyncio.timeout(PATIENCE):
                    await held.enter_async_context(own)  # first: waiting here does not occupy a shared slot
                    await held.enter_async_context(self._slots)
            except TimeoutError:
                raise Busy(
                    f"{MOST} browse requests are in progress, or {MOST_OF_VHOST} in one virtual host: retry when "
                    "one has finished"
                ) from None
            yield
