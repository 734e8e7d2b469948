"""Waits, with a time limit, for a job that walks through a queue."""

from __future__ import annotations

import asyncio

from leveret.broker.queue_jobs import Job
from leveret.http.awaited import future_with_callback


class JobCompletion:
    """The completion of one job, which is created with ``on_done=completion.notify``."""

    def __init__(self) -> None:
        self._over: asyncio.Future[Job]
        self._over, self.notify = future_with_callback()

    async def run(self, job: Job, seconds: float) -> None:
        """Start the job and return when it is done; a job that takes longer is cancelled."""
        job.start()
        try:
            async with asyncio.timeout(seconds):
                await self._over
        except TimeoutError:
            pass
        finally:
            job.cancel()
