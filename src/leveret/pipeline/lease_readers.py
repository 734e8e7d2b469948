"""The current reader of each lease consumer: a name must not be used by two queries at the same time. In memory.

Two queries with one consumer name would commit each other's leases. So a reader registers before it takes leases, with
an identifier of its own, and keeps registered by requests that stay open for some seconds, one after the other. A
process that ends, by whatever signal, closes its connection: its name is free at once. The name of a machine that is
gone is free when its last request has ended and ``GRACE`` has passed.

After a restart of the broker the readers register again. Readers without an identifier (other programs, scripts with
curl) are not checked.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from leveret.clock import Clock
from leveret.errors import PreconditionFailed
from leveret.http.errors import Conflict

if TYPE_CHECKING:
    from starlette.requests import Request

    from leveret.broker.broker import Broker
    from leveret.queues.declared_queue import DeclaredQueue

GRACE = 5.0  # seconds without a request after which a reader is gone
LONGEST_WAIT = 5  # seconds of one request
PAUSE = 0.2  # seconds between two looks at whether the broker is stopping
MOST_READERS = 1_000  # of a queue


class LeaseReader:
    __slots__ = ("identifier", "name", "requests", "since", "started", "until", "user")

    def __init__(self, identifier: str, name: str, user: str, since: float) -> None:
        self.identifier = identifier
        self.name = name  # shown to other readers
        self.user = user
        self.since = since  # wall time
        self.started = 0  # requests so far: a number that grows shows that the reader is running
        self.requests = 0  # requests that are open
        self.until = 0.0  # time of the clock

    def is_gone(self, now: float) -> bool:
        return self.requests == 0 and now > self.until


class LeaseReaders:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._readers: dict[int, dict[str, LeaseReader]] = {}  # by queue and consumer
        self._next_sweep = 0.0

    @property
    def _clock(self) -> Clock:
        return self._broker.clock

    def register(self, queue: DeclaredQueue, consumer: str, identifier: str, name: str, user: str) -> LeaseReader:
        """The reader with this identifier, new or known. Conflict if another reader is running."""
        self._sweep()
        self.refuse_other(queue, consumer, identifier)
        reader = self._find(queue, consumer)
        if reader is None:
            self._refuse_too_many(queue)
            reader = LeaseReader(identifier, name, user, self._clock.wall())
            self._readers.setdefault(queue.id, {})[consumer] = reader
        reader.started += 1
        reader.until = self._clock.now() + GRACE
        return reader

    def refuse_other(self, queue: DeclaredQueue, consumer: str, identifier: str) -> None:
        reader = self._find(queue, consumer)
        if reader is not None and reader.identifier != identifier:
            raise Conflict(
                f"consumer '{consumer}' of queue '{queue.name}' in vhost '{queue.vhost}' is in use by {reader.name} "
                f"(user '{reader.user}')",
                requests=reader.started,
                since=reader.since,
                reader=reader.name,
            )

    async def hold(self, request: Request, reader: LeaseReader, seconds: float) -> bool:
        """Keep the reader registered for some seconds; False if the client has disconnected meanwhile."""
        gone = asyncio.ensure_future(_disconnect(request))
        end = self._clock.machine_time() + seconds
        reader.requests += 1
        try:
            while not gone.done() and not self._broker.is_stopping and self._clock.machine_time() < end:
                await asyncio.wait({gone}, timeout=PAUSE)
            return not gone.done()
        finally:
            reader.requests -= 1
            reader.until = self._clock.now() + GRACE
            gone.cancel()
            with suppress(asyncio.CancelledError):
                await gone

    def remove(self, queue: DeclaredQueue, consumer: str, identifier: str) -> bool:
        reader = self._find(queue, consumer)
        if reader is None or reader.identifier != identifier:
            return False
        del self._readers[queue.id][consumer]
        if not self._readers[queue.id]:
            del self._readers[queue.id]
        return True

    def _find(self, queue: DeclaredQueue, consumer: str) -> LeaseReader | None:
        reader = self._readers.get(queue.id, {}).get(consumer)
        if reader is not None and reader.is_gone(self._clock.now()):
            self._remove_gone(queue.id)
            return None
        return reader

    def _sweep(self) -> None:
        """Remove the readers that are gone, also those of deleted queues, which no request asks for again."""
        now = self._clock.now()
        if now >= self._next_sweep:
            self._next_sweep = now + GRACE
            for queue in list(self._readers):
                self._remove_gone(queue)

    def _remove_gone(self, queue: int) -> None:
        now = self._clock.now()
        kept = {name: each for name, each in self._readers.pop(queue, {}).items() if not each.is_gone(now)}
        if kept:
            self._readers[queue] = kept

    def _refuse_too_many(self, queue: DeclaredQueue) -> None:
        if len(self._readers.get(queue.id, {})) < MOST_READERS:
            return
        self._remove_gone(queue.id)
        if len(self._readers.get(queue.id, {})) >= MOST_READERS:
            raise PreconditionFailed(
                f"queue '{queue.name}' in vhost '{queue.vhost}' has {MOST_READERS} readers, no more are accepted: stop "
                "queries that are not needed"
            )


async def _disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
