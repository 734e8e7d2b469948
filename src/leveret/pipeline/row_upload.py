"""The rows of a request: converted from Arrow, checked, and split into pieces that do not block the event loop or
outrun the disk.

Memory is bounded: a request holds one record batch and the messages of a few megabytes of it, and the record batches of
all requests together have no more bytes than ``PipelineContext.most_held``. Messages are built in a worker thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, NamedTuple

from starlette.requests import Request

from leveret.broker.vhost import Vhost
from leveret.http.authorization import access_of, refuse_while_blocked, vhost_of
from leveret.http.bodies import body_chunks
from leveret.http.durability import wait_until_durable
from leveret.http.errors import BadRequest, Blocked, Forbidden
from leveret.http.login import user_of
from leveret.http.time_slice import TimeSlice
from leveret.http.values import boolean_of, query_parameter
from leveret.message import Address, Message
from leveret.pipeline.admission import Admission, Publisher
from leveret.pipeline.arrow_frames import MOST_BODY, Framed, Framing
from leveret.pipeline.arrow_schema import need_arrow
from leveret.pipeline.context import PipelineContext
from leveret.pipeline.inflow import (
    RUN,
    RUN_BYTES,
    SLICE_COST,
    AddressRoutes,
    Incoming,
    Look,
    WriteWindow,
    front,
    incoming,
    looked_at,
)

if TYPE_CHECKING:
    from leveret.pipeline.arrow_contents import Contents

Cost = Callable[[Sequence[Message], Look], int]  # approximate work of a run

Run = list[Message]


class Piece(NamedTuple):
    """Messages of one address that need the same inspection, with their traits unless that is ``CLOSE``."""

    run: list[Message]
    look: Look


class RowUpload:
    """A request with rows: their default exchange and routing key, and the permissions of its user.

    Call ``refuse_unless_permitted`` first."""

    def __init__(self, context: PipelineContext, request: Request) -> None:
        self._context = context
        self._request = request
        self._broker = context.broker
        self.vhost = vhost_of(request)
        self.exchange = query_parameter(request, "exchange", "")
        self.key = query_parameter(request, "routing_key", "")
        user = user_of(request)
        publisher = Publisher(user.name, user.tags, boolean_of(request.query_params, "mandatory"))
        self.admission = Admission(self.vhost, self._broker.permissions, publisher)
        refuse_while_blocked(self._broker)

    async def refuse_unless_permitted(self) -> None:
        """Check permissions before the body is read. Exchanges named in the rows are checked row by row."""
        if self.exchange:
            self.admission.refuse_unless_writable(self.exchange, self.key)
        else:
            await refuse_unless_writer(self._request, self.vhost)

    async def pieces(self, cost: Cost = lambda run, look: 0) -> AsyncGenerator[Piece]:
        """The received pieces. The caller processes a piece, at ``cost``, before it requests the next one."""
        window = WriteWindow(self._broker)
        left = SLICE_COST
        async with aclosing(self._runs()) as runs:
            async for run, is_plain, whole in runs:
                while run:
                    some = run if len(run) <= RUN and whole <= RUN_BYTES else front(run)
                    look, piece = (Look.PLAIN, some) if is_plain else looked_at(some, self.vhost.queue_context.now())
                    price = max(self.admission.cost(piece, look), cost(piece, look))
                    if price > SLICE_COST:
                        piece = piece[: max(len(piece) * SLICE_COST // price, 1)]
                    size = whole if len(piece) == len(run) else sum([len(message[0]) for message in piece])
                    run, whole = run[len(piece) :], whole - size
                    refuse_while_blocked(self._broker)
                    self.admission.admit(piece, look)
                    yield Piece(piece, look)
                    self._broker.wake()
                    window.wrote(size)
                    left -= max(price, size * SLICE_COST // RUN_BYTES)
                    if left <= 0:
                        left = SLICE_COST
                        await asyncio.sleep(0)
                    if (receipt := window.too_long()) is not None:
                        await wait_until_durable(self._broker, receipt)

    async def _runs(self) -> AsyncGenerator[Incoming]:
        """Merges small runs."""
        small: list[Incoming] = []
        number = size = 0
        async with aclosing(runs_of(self._context, body_chunks(self._request), self.exchange, self.key)) as runs:
            async for run in runs:
                small.append(run)
                number += len(run.messages)
                size += run.size
                if number >= RUN or size >= RUN_BYTES:
                    for each in merged(small, self.admission.routes):
                        yield each
                    small, number, size = [], 0, 0
        for each in merged(small, self.admission.routes):
            yield each


async def refuse_unless_writer(request: Request, vhost: Vhost) -> None:
    """Refuse a user that has no write permission on any exchange of the virtual host."""
    access, time_slice = access_of(request, vhost), TimeSlice()
    for exchange in list(vhost.exchanges):
        if access.has("write", exchange):
            return
        await time_slice.pause_if_over()
    raise Forbidden(
        f"user '{user_of(request).name}' has no write permission on any exchange in vhost '{vhost.name}': grant it one"
    )


def merged(arrived: Sequence[Incoming], routes: AddressRoutes) -> Sequence[Incoming]:
    """The same messages in fewer runs, if addresses alternate: a record of the log holds messages of one address.

    Every queue must get the same messages in the same order. So messages of one address are moved before others only
    if no queue gets both: addresses that share a queue are *related*, and related ones keep their order.
    """
    runs = [each.messages for each in arrived]
    fewer = merged_runs(runs, routes)
    if fewer is runs:
        return arrived
    is_plain = all(each.is_plain for each in arrived)
    return [incoming(run, is_plain=is_plain) for run in fewer]


def merged_runs(runs: Sequence[Run], routes: AddressRoutes) -> Sequence[Run]:
    addresses = {id(run[0][1]): run[0][1] for run in runs}
    if len(addresses) == len(runs):
        return runs
    family_of = _families(list(addresses.values()), routes)
    if family_of is None:
        return runs
    families: dict[int, list[Run]] = {}
    for run in runs:
        family = families.setdefault(family_of[id(run[0][1])], [])
        if family and family[-1][0][1] is run[0][1]:
            family[-1] += run
        else:
            family.append(list(run))
    return [run for family in families.values() for run in family]


def _families(addresses: Sequence[Address], routes: AddressRoutes) -> dict[int, int] | None:
    """A number for each address (by its id), the same for related ones; None if that cannot be determined."""
    parents = list(range(len(addresses)))
    first_with: dict[int, int] = {}  # by queue: the place of an address that reaches it

    def root(place: int) -> int:
        while parents[place] != place:
            parents[place] = place = parents[parents[place]]
        return place

    for place, address in enumerate(addresses):
        route = routes.of(address)
        if route is None or route.special:
            return None
        for queue in route.queues:
            other = first_with.setdefault(id(queue), place)
            parents[root(place)] = root(other)
    return {id(address): root(place) for place, address in enumerate(addresses)}


async def runs_of(
    context: PipelineContext, parts: AsyncIterator[bytes], exchange: str, key: str
) -> AsyncGenerator[Incoming]:
    """Runs of at most a thousand messages, each of one address, in the order of the rows.

    ``parts`` is the body (http/bodies.py). ``exchange`` and ``key`` are the defaults of rows without their own.
    Messages are persistent unless their properties have another delivery mode. An expiration counts from the
    publish, so there is no deadline yet.
    """
    await context.in_worker(need_arrow)
    contents: Contents | None = None
    framing, held = Framing(min(MOST_BODY, context.most_held)), 0
    try:
        async for part in parts:
            for framed in framing.feed(part):
                if contents is None:
                    contents = await context.in_worker(lambda framed=framed: _begin(context, framed, exchange, key))  # type: ignore[misc]
                    continue
                async for run in _runs(context, contents, framed):
                    yield run
            context.held += framing.held - held
            held = framing.held
            if context.held > context.most_held:
                raise Blocked("too many uploads are in progress: retry later")
        framing.finish()
        if contents is None:
            raise BadRequest("the body has no Arrow schema: send the output of pyarrow.ipc.new_stream")
    finally:
        context.held -= held


def _begin(context: PipelineContext, framed: Framed, exchange: str, key: str) -> Contents:
    from leveret.pipeline.arrow_contents import Contents

    return Contents(framed, exchange, key, context.max_message_size)


async def _runs(context: PipelineContext, contents: Contents, framed: Framed) -> AsyncIterator[Incoming]:
    for piece in await context.in_worker(lambda: contents.slices(framed)):
        async with context.building:
            for run in await context.in_worker(lambda piece=piece: contents.runs(piece)):  # type: ignore[misc]
                yield run
