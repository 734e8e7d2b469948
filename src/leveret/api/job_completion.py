"""Waiting for a job that walks through a queue, but not for ever."""

from __future__ import annotations

import asyncio

from leveret.broker.queue_jobs import Job


class JobEnd:
    """The end of one job, which is made with ``on_done=end.tell``."""

    def __init__(self) -> None:
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def tell(self, job: Job) -> None:
        if not self._over.done():
            self._over.set_result(None)

    async def of(self, job: Job, seconds: float) -> None:
        """Starts it, and returns when it is over; one that takes longer is cancelled."""
        job.start()
        try:
            async with asyncio.timeout(seconds):
                await self._over
        except TimeoutError:
            pass
        finally:
            job.cancel()
