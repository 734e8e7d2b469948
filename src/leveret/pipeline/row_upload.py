"""The rows of a request: converted from Arrow, checked, and split into pieces that do not block the event loop or
outrun the disk.

Memory is bounded: a request holds one record batch and the messages of a few megabytes of it, and the record batches of
all requests together have no more bytes than ``PipelineContext.most_held``. Messages are built in a worker thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, NamedTuple

from starlette.requests import Request

from leveret.broker.broker import Broker
from leveret.broker.vhost import Vhost
from leveret.http.authorization import access_of, refuse_while_blocked, vhost_of
from leveret.http.bodies import body_chunks
from leveret.http.durability import wait_until_durable
from leveret.http.errors import BadRequest, Blocked, Conflict, Forbidden
from leveret.http.login import user_of
from leveret.http.time_slice import TimeSlice
from leveret.http.values import boolean_of, excerpt, query_parameter
from leveret.message import Message
from leveret.pipeline.admission import Admission, Publisher
from leveret.pipeline.arrow_frames import MOST_BODY, Framed, Framing
from leveret.pipeline.arrow_schema import need_arrow
from leveret.pipeline.context import PipelineContext
from leveret.pipeline.inflow import (
    RUN,
    RUN_BYTES,
    SLICE_COST,
    Incoming,
    Look,
    WriteWindow,
    front,
    looked_at,
)
from leveret.pipeline.packs import Pack
from leveret.pipeline.run_merge import merged
from leveret.pipeline.unroutable import unroutable_view

if TYPE_CHECKING:
    from pyarrow import RecordBatch

    from leveret.pipeline.arrow_contents import Contents

Cost = Callable[[Sequence[Message], Look], int]  # approximate work of a run
FAIL, REPORT = "fail", "report"
TOLD_SECONDS = 0.1  # a request that waited less for the disk does not report it
MOST_TOLD = 10  # unroutable keys in the text of an error


class Piece(NamedTuple):
    """Messages of one address that need the same inspection, with their traits unless that is ``CLOSE``; ``size``: the
    bytes of their contents."""

    run: list[Message]
    look: Look
    size: int


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
        mandatory = boolean_of(request.query_params, "mandatory")
        publisher = Publisher(user.name, user.tags, mandatory, reports_unroutable(request))
        self.admission = Admission(self.vhost, self._broker.permissions, publisher)
        self.pace = Pace(self._broker)
        refuse_while_blocked(self._broker)

    async def refuse_unless_permitted(self) -> None:
        """Check permissions before the body is read. Exchanges named in the rows are checked row by row."""
        if self.exchange:
            self.admission.refuse_unless_writable(self.exchange, self.key)
        else:
            await refuse_unless_writer(self._request, self.vhost)

    async def pieces(self, cost: Cost = lambda run, look: 0) -> AsyncGenerator[Piece]:
        """The received pieces. The caller processes a piece, at ``cost``, before it requests the next one."""
        async with aclosing(self.packs(cost, packs=False)) as packs:
            async for piece in packs:
                assert isinstance(piece, Piece)
                yield piece

    async def packs(self, cost: Cost = lambda run, look: 0, *, packs: bool = True) -> AsyncGenerator[Piece | Pack]:
        """The same for rows to be staged, with ``packs`` of messages that are plain."""
        pace = self.pace
        async with aclosing(self._runs(packs=packs)) as runs:
            async for run in runs:
                if isinstance(run, Pack):
                    refuse_while_blocked(self._broker)
                    for first, number in run.firsts:
                        self.admission.admit([first], Look.PLAIN, number)
                    if not self.admission.unroutable.total:
                        yield run
                    await pace.keep(len(run.firsts), run.size)
                    continue
                for piece, price in self._pieces(run, cost):
                    refuse_while_blocked(self._broker)
                    admitted = self.admission.admit(piece.run, piece.look)
                    if len(admitted) < len(piece.run):
                        piece = Piece(admitted, piece.look, sum([len(message[0]) for message in admitted]))
                    if admitted:
                        yield piece
                    await pace.keep(price, piece.size)
        self._refuse_unroutable()

    def _refuse_unroutable(self) -> None:
        """At the end of the body, so that all of them are counted."""
        unroutable = self.admission.unroutable
        if unroutable.total:
            keys = unroutable.keys
            more = f", and {len(keys) - MOST_TOLD} more" if len(keys) > MOST_TOLD else ""
            raise Conflict(
                f"{unroutable.total} mandatory messages in vhost '{self.vhost.name}' are not routed: "
                f"{', '.join(map(str, keys[:MOST_TOLD]))}{more}; bind a queue, or publish without mandatory or with "
                "unroutable=report",
                **unroutable_view(unroutable.total, keys),
            )

    def _pieces(self, arrived: Incoming, cost: Cost) -> Iterator[tuple[Piece, int]]:
        """Parts that may be processed at once, and their cost."""
        run, is_plain, whole = arrived
        while run:
            some = run if len(run) <= RUN and whole <= RUN_BYTES else front(run)
            look, piece = (Look.PLAIN, some) if is_plain else looked_at(some, self.vhost.queue_context.now())
            price = max(self.admission.cost(piece, look), cost(piece, look))
            if price > SLICE_COST:
                piece = piece[: max(len(piece) * SLICE_COST // price, 1)]
            size = whole if len(piece) == len(run) else sum([len(message[0]) for message in piece])
            run, whole = run[len(piece) :], whole - size
            yield Piece(piece, look, size), price

    async def _runs(self, *, packs: bool) -> AsyncGenerator[Incoming | Pack]:
        """Merges small runs."""
        small: list[Incoming] = []
        number = size = 0
        uploaded = runs_of(self._context, body_chunks(self._request), self.exchange, self.key, packs=packs)
        async with aclosing(uploaded) as runs:
            async for run in runs:
                if not isinstance(run, Pack):
                    small.append(run)
                    number += len(run.messages)
                    size += run.size
                if number >= RUN or size >= RUN_BYTES or isinstance(run, Pack):
                    for each in merged(small, self.admission.routes):
                        yield each
                    small, number, size = [], 0, 0
                if isinstance(run, Pack):
                    yield run
        for each in merged(small, self.admission.routes):
            yield each


class Pace:
    """Gives other work a time slice, and waits for the disk, as often as needed."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._window = WriteWindow(broker)
        self._left = SLICE_COST
        self._waited = 0.0  # seconds, for the disk

    def view(self) -> dict[str, object]:
        """For the response: how long the request waited, if that was long."""
        return {"waited": {"disk": round(self._waited, 3)}} if self._waited > TOLD_SECONDS else {}

    async def keep(self, price: int, size: int) -> None:
        """To be called after ``size`` bytes have been processed at this price."""
        self._broker.wake()
        self._window.wrote(size)
        self._left -= max(price, size * SLICE_COST // RUN_BYTES)
        if self._left <= 0:
            self._left = SLICE_COST
            await asyncio.sleep(0)
        if (receipt := self._window.too_long()) is not None:
            begun = self._broker.clock.work_time()
            await wait_until_durable(self._broker, receipt)
            self._waited += self._broker.clock.work_time() - begun


def reports_unroutable(request: Request) -> bool:
    """Whether mandatory rows that are unroutable are to be reported instead of refused."""
    chosen = query_parameter(request, "unroutable", FAIL)
    if chosen not in (FAIL, REPORT):
        raise BadRequest(f"'unroutable' must be '{FAIL}' or '{REPORT}', not {excerpt(chosen)}")
    return chosen == REPORT


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


async def runs_of(
    context: PipelineContext, parts: AsyncIterator[bytes], exchange: str, key: str, *, packs: bool = False
) -> AsyncGenerator[Incoming | Pack]:
    """Runs of at most a few thousand messages, each of one address, or ``packs`` of runs, in the order of the rows.

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
                async for run in _runs(context, contents, framed, packs=packs):
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


async def _runs(
    context: PipelineContext, contents: Contents, framed: Framed, *, packs: bool
) -> AsyncIterator[Incoming | Pack]:
    build: Callable[[RecordBatch], Sequence[Incoming | Pack]] = contents.packs if packs else contents.runs
    for piece in await context.in_worker(lambda: contents.slices(framed)):
        async with context.building:
            for run in await context.in_worker(lambda piece=piece: build(piece)):  # type: ignore[misc]
                yield run
