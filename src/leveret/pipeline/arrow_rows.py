"""Rows of Arrow become messages: the body of a request goes in as it comes, runs of one address come out.

Bounded: a request holds one record batch and the messages of a few megabytes of it, and the record batches of all
requests together have no more bytes than ``House.most_held``. Messages are built in a worker thread.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING

from leveret.http.errors import BadRequest, Blocked
from leveret.pipeline.arrow_frames import MOST_BODY, Framed, Framing
from leveret.pipeline.arrow_schema import need_arrow
from leveret.pipeline.context import PipelineContext
from leveret.pipeline.inflow import Incoming

if TYPE_CHECKING:
    from leveret.pipeline.arrow_contents import Contents


async def runs_of(
    context: PipelineContext, parts: AsyncIterator[bytes], exchange: str, key: str
) -> AsyncGenerator[Incoming]:
    """Runs of at most a thousand messages, each of one address, in the order of the rows.

    ``parts`` is the body (doors.parts_of). ``exchange`` and ``key`` are for rows that do not name their own. Messages
    are persistent unless their properties say otherwise; an expiration counts from the publish, so there is no deadline
    yet.
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
