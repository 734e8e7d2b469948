"""Leases over HTTP: messages of a classic queue for Spark readers, which may repeat the request for a lease.

The lease book (broker/leases.py) never waits: ``Leases`` waits for work of more than one tick, and until a change is
durable. If the client disconnects meanwhile, the messages taken so far become the lease, which a repeated request
returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.backlog.lease_builder import LeaseBuilder, Next
from leveret.broker.lease_rows import Committed
from leveret.broker.leases import Lease, Standing
from leveret.errors import PreconditionFailed, ResourceFault
from leveret.http.authorization import access_of, refuse_while_paused, vhost_of
from leveret.http.awaited import future_with_callback
from leveret.http.bodies import read_json
from leveret.http.durability import wait_until_durable
from leveret.http.errors import BadRequest, ObjectNotFound
from leveret.http.login import user_of
from leveret.http.responses import json_response
from leveret.http.values import integer_of, query_parameter, text_of
from leveret.pipeline.arrow_batches import arrow_response
from leveret.pipeline.arrow_schema import columns_of
from leveret.pipeline.context import PipelineContext
from leveret.pipeline.lease_messages import jobs_of_lease, slice_of
from leveret.pipeline.lease_readers import LONGEST_WAIT, LeaseReaders
from leveret.queues.declared_queue import DeclaredQueue

PATIENCE = 3  # waits without progress for messages that are being read or written

T = TypeVar("T")
LONGEST_CONSUMER = LONGEST_READER = 255  # characters
MOST_MESSAGES = 10_000_000  # of one lease
MOST_BYTES = 1 << 40
MOST_SLICES = 1_000_000
LARGEST_PARTITION = (1 << 31) - 1


class Leases:
    def __init__(self, context: PipelineContext) -> None:
        self._broker = context.broker
        self._book = context.broker.leases
        self._locks: dict[tuple[int, str], tuple[asyncio.Lock, int]] = {}  # each with its number of users

    async def take(self, queue: DeclaredQueue, consumer: str, after: int, most: int, most_bytes: int) -> Lease | None:
        """Lease ``after`` + 1: the existing one or a new one; None if there is nothing to lease."""
        async with self._one_at_a_time(queue, consumer):
            self._book.refuse_committed(queue, consumer, after)
            lease = self._book.find(queue, consumer, after + 1)
            if lease is None:
                refuse_while_paused(self._broker)
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
        """Release the lease. Returns the number of messages that were requeued."""
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
        """Serialise requests: a second request for the same lease gets the lease of the first."""
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
    """Wait until the next messages are in memory; False if there are none to wait for."""
    loaded: asyncio.Future[None]
    loaded, done = future_with_callback()
    backlog = queue.backlog
    assert backlog is not None
    if backlog.pager is None or not backlog.pager.when_loaded(lambda: done(None)):
        return not backlog.highest_lane().is_empty_here
    await loaded
    return True


class LeasesEndpoints:
    def __init__(self, context: PipelineContext) -> None:
        self._context = context
        self._book = context.broker.leases
        self._leases = Leases(context)
        self._readers = LeaseReaders(context.broker)

    async def take(self, request: Request) -> Response:
        given = await read_json(request)
        queue, consumer = _queue_of(request, text_of(given, "queue")), _consumer_of(text_of(given, "consumer"))
        if (answer := await self._context.answer_of_home(request, queue, given)) is not None:
            return answer
        after = integer_of(given, "after", default=0)
        most = integer_of(given, "max_messages", 1, MOST_MESSAGES)
        most_bytes = integer_of(given, "max_bytes", 1, MOST_BYTES, default=MOST_BYTES)
        if "reader" in given:
            self._readers.refuse_other(queue, consumer, _reader_of(given))
        lease = await self._leases.take(queue, consumer, after, most, most_bytes)
        if lease is None:
            return json_response({"lease": after, "messages": 0, "bytes": 0})
        return json_response({"lease": lease.number, "messages": lease.messages, "bytes": lease.bytes})

    async def show(self, request: Request) -> Response:
        vhost = vhost_of(request)
        access = access_of(request, vhost)
        queue, consumer = query_parameter(request, "queue", ""), query_parameter(request, "consumer", "")
        if queue and (answer := await self._context.answer_of_home(request, _queue_of(request, queue))) is not None:
            return answer

        def is_shown(each: Lease | Standing) -> bool:
            if queue not in ("", each.queue.name) or consumer not in ("", each.consumer):
                return False
            return access.has("read", each.queue.name)

        leases = [_lease_view(each) for each in self._book.leases(vhost.name) if is_shown(each)]
        standings = [_standing_view(each) for each in self._book.standings(vhost.name) if is_shown(each)]
        for other in [] if queue else await self._context.answers_of_others(request, vhost):
            leases += other["leases"]
            standings += other["consumers"]
        return json_response({"leases": leases, "consumers": standings})

    async def messages(self, request: Request) -> Response:
        queue, consumer = (
            _queue_of(request, query_parameter(request, "queue")),
            _consumer_of(query_parameter(request, "consumer")),
        )
        if (answer := await self._context.answer_of_home(request, queue)) is not None:
            return answer
        given = request.query_params
        number = integer_of(given, "lease", 1)
        of = integer_of(given, "of", 1, MOST_SLICES, default=1)
        index = integer_of(given, "slice", 0, of - 1, default=0)
        partition = integer_of(given, "partition", 0, LARGEST_PARTITION, default=0)
        columns = columns_of(given)
        lease = self._book.find(queue, consumer, number)
        if lease is None:
            raise ObjectNotFound(
                f"no lease {number} of consumer '{consumer}' on queue '{queue.name}' in vhost '{queue.vhost}': it was "
                "never granted, or was committed or released; take a lease first"
            )
        runs = slice_of(lease.runs, lease.messages, index, of)
        return await arrow_response(self._context, jobs_of_lease(lease, runs, partition, columns), columns)

    async def commit(self, request: Request) -> Response:
        given = await read_json(request)
        queue, consumer = _queue_of(request, text_of(given, "queue")), _consumer_of(text_of(given, "consumer"))
        if (answer := await self._context.answer_of_home(request, queue, given)) is not None:
            return answer
        committed = await self._leases.commit(queue, consumer, integer_of(given, "through"))
        return json_response({"committed": committed.number, "messages": committed.messages})

    async def release(self, request: Request) -> Response:
        queue, consumer = (
            _queue_of(request, query_parameter(request, "queue")),
            _consumer_of(query_parameter(request, "consumer")),
        )
        if (answer := await self._context.answer_of_home(request, queue)) is not None:
            return answer
        given = request.query_params
        number = integer_of(given, "lease", 1) if "lease" in given else None
        return json_response({"released": await self._leases.release(queue, consumer, number)})

    async def register(self, request: Request) -> Response:
        """Register the reader of a consumer, and keep the request open for ``wait`` seconds."""
        given = await read_json(request)
        queue, consumer = _queue_of(request, text_of(given, "queue")), _consumer_of(text_of(given, "consumer"))
        identifier, name = _reader_of(given), text_of(given, "name", "another reader")[:LONGEST_READER]
        seconds = integer_of(given, "wait", 0, LONGEST_WAIT, default=0)
        if (answer := await self._context.answer_of_home(request, queue, given)) is not None:
            return answer
        reader = self._readers.register(queue, consumer, identifier, name, user_of(request).name)
        if seconds and not await self._readers.hold(request, reader, seconds):
            self._readers.remove(queue, consumer, identifier)
        return json_response({"reader": identifier, "since": reader.since})

    async def unregister(self, request: Request) -> Response:
        queue = _queue_of(request, query_parameter(request, "queue"))
        consumer = _consumer_of(query_parameter(request, "consumer"))
        if (answer := await self._context.answer_of_home(request, queue)) is not None:
            return answer
        return json_response({"removed": self._readers.remove(queue, consumer, query_parameter(request, "reader"))})


def _reader_of(given: Mapping[str, object]) -> str:
    identifier = text_of(given, "reader")
    if not 0 < len(identifier) <= LONGEST_READER:
        raise BadRequest(f"'reader' must have 1 to {LONGEST_READER} characters: it has {len(identifier)}")
    return identifier


def _queue_of(request: Request, name: str) -> DeclaredQueue:
    vhost = vhost_of(request)
    access_of(request, vhost).check("consume", name)
    return vhost.queue(name)


def _consumer_of(name: str) -> str:
    if not 0 < len(name) <= LONGEST_CONSUMER:
        raise BadRequest(f"'consumer' must have 1 to {LONGEST_CONSUMER} characters: it has {len(name)}")
    return name


def _lease_view(lease: Lease) -> dict[str, object]:
    return {
        "consumer": lease.consumer,
        "queue": lease.queue.name,
        "lease": lease.number,
        "messages": lease.messages,
        "bytes": lease.bytes,
        "since": lease.since,
    }


def _standing_view(standing: Standing) -> dict[str, object]:
    return {"consumer": standing.consumer, "queue": standing.queue.name, "committed": standing.committed}


def routes(context: PipelineContext) -> list[Route]:
    leases, path = LeasesEndpoints(context), "/api/pipeline/{vhost}/leases"
    return [
        Route(path, leases.take, methods=["POST"]),
        Route(path, leases.show, methods=["GET"]),
        Route(path, leases.release, methods=["DELETE"]),
        Route(f"{path}/messages", leases.messages, methods=["GET"]),
        Route(f"{path}/commit", leases.commit, methods=["POST"]),
        Route(f"{path}/readers", leases.register, methods=["POST"]),
        Route(f"{path}/readers", leases.unregister, methods=["DELETE"]),
    ]
