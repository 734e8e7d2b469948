"""Leases for callers that wait: taking, committing and releasing, answered when they are durable.

The book itself (broker/leases.py) never waits. What takes more than one turn is waited for here. Nothing is lost when
the caller goes away in the middle: what was taken until then becomes the lease, and it is given again when asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from leveret.backlog.lease_builder import LeaseBuilder, Next
from leveret.broker.lease_rows import Committed
from leveret.broker.leases import Lease
from leveret.errors import PreconditionFailed, ResourceFault
from leveret.http.awaited import future_with_callback
from leveret.http.durability import wait_until_durable
from leveret.pipeline.context import PipelineContext
from leveret.queues.declared_queue import DeclaredQueue

PATIENCE = 3  # waits in vain for messages that are on their way from or to the disk

T = TypeVar("T")


class Leases:
    def __init__(self, context: PipelineContext) -> None:
        self._broker = context.broker
        self._book = context.broker.leases
        self._locks: dict[tuple[int, str], tuple[asyncio.Lock, int]] = {}  # with how many use it

    async def take(self, queue: DeclaredQueue, consumer: str, after: int, most: int, most_bytes: int) -> Lease | None:
        """Lease ``after`` + 1: as it was given before, or a new one; None if there is nothing to lease."""
        async with self._one_at_a_time(queue, consumer):
            self._book.refuse_committed(queue, consumer, after)
            lease = self._book.find(queue, consumer, after + 1)
            if lease is None:
                backlog = self._book.leasable(queue)
                self._book.refuse_too_many(queue, consumer)
                lease = await self._take(queue, consumer, after + 1, LeaseBuilder(backlog, most, most_bytes))
        await wait_until_durable(self._broker)
        return lease

    async def _take(self, queue: DeclaredQueue, consumer: str, number: int, taking: LeaseBuilder) -> Lease | None:
        lease: Lease | None = None
        try:
            await self._fill(queue, taking)
        finally:
            if taking.number and queue.alive:
                lease = self._opened(queue, consumer, number, taking)
        return lease

    def _opened(self, queue: DeclaredQueue, consumer: str, number: int, taking: LeaseBuilder) -> Lease:
        try:
            return self._book.open(queue, consumer, number, taking)
        except ResourceFault:
            self._book.give_up(queue, taking)
            raise

    async def _fill(self, queue: DeclaredQueue, taking: LeaseBuilder) -> None:
        in_vain = 0
        while in_vain < PATIENCE:
            before = (taking.number, queue.ready)
            outcome = taking.step()
            in_vain = in_vain + 1 if (taking.number, queue.ready) == before else 0
            if outcome is Next.MORE:
                await asyncio.sleep(0)
            elif outcome is Next.UNSYNCED and not taking.number:
                await wait_until_durable(self._broker)
            elif outcome is Next.UNREAD:
                if not await _loaded(queue):
                    return
            elif outcome is Next.TRANSIENT and not taking.number:
                raise PreconditionFailed(
                    f"the first message of queue '{queue.name}' in vhost '{queue.vhost}' is transient and cannot be "
                    "leased: consume it, and publish with delivery mode 2"
                )
            else:
                return

    async def commit(self, queue: DeclaredQueue, consumer: str, through: int) -> Committed:
        committed, over = self._begin(lambda done: self._book.commit(queue, consumer, through, lambda: done(None)))
        await over
        await wait_until_durable(self._broker)
        return committed

    async def release(self, queue: DeclaredQueue, consumer: str, number: int | None) -> int:
        """How many messages are back in the queue."""
        _, released = self._begin(lambda done: self._book.release(queue, consumer, number, done))
        messages = await released
        await wait_until_durable(self._broker)
        return messages or 0

    def _begin(self, job: Callable[[Callable[[int | None], None]], T]) -> tuple[T, asyncio.Future[int | None]]:
        """The immediate result of the job, and its outcome."""
        outcome: asyncio.Future[int | None]
        outcome, done = future_with_callback()
        return job(done), outcome

    @asynccontextmanager
    async def _one_at_a_time(self, queue: DeclaredQueue, consumer: str) -> AsyncIterator[None]:
        """A second request for the same lease gets the first one's."""
        key = (queue.id, consumer)
        lock, users = self._locks.get(key, (asyncio.Lock(), 0))
        self._locks[key] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            users = self._locks[key][1] - 1
            if users:
                self._locks[key] = (lock, users)
            else:
                del self._locks[key]


async def _loaded(queue: DeclaredQueue) -> bool:
    """When the next messages are in memory; False if there are none to wait for."""
    loaded: asyncio.Future[None]
    loaded, done = future_with_callback()
    backlog = queue.backlog
    assert backlog is not None
    if backlog.pager is None or not backlog.pager.when_loaded(lambda: done(None)):
        return not backlog.highest_lane().is_empty_here
    await loaded
    return True
