"""The rows of a request: checked, and split into pieces that do not block the event loop or outrun the disk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import NamedTuple

from starlette.requests import Request

from leveret.http.authorization import refuse_while_blocked, vhost_of
from leveret.http.bodies import body_chunks
from leveret.http.durability import wait_until_durable
from leveret.http.login import user_of
from leveret.http.values import boolean_of, query_parameter
from leveret.message import Message
from leveret.pipeline.admission import Admission, Publisher
from leveret.pipeline.arrow_rows import runs_of
from leveret.pipeline.context import PipelineContext
from leveret.pipeline.inflow import RUN, RUN_BYTES, SLICE_COST, Incoming, Look, front, looked_at
from leveret.pipeline.owners import refuse_unless_writer
from leveret.pipeline.run_merger import merged
from leveret.pipeline.write_window import WriteWindow

Cost = Callable[[Sequence[Message], Look], int]  # of a run: about how much work it is


class Piece(NamedTuple):
    """Messages of one address that need the same inspection, with their traits unless that is a close one."""

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
        """Before the body is read. Exchanges that rows name themselves are checked row by row."""
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
