"""Responses with messages as an Arrow IPC stream. Two batches are in memory: one is being built, one is being sent.

A *job* builds record batches in a thread; the generator of the jobs runs on the event loop. A client that reads slowly
delays only its own response. After it disconnects, no further job is run.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, NamedTuple

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from leveret.message import Message
from leveret.pipeline.arrow_schema import END_OF_STREAM, MEDIA_TYPE, need_arrow
from leveret.pipeline.context import PipelineContext

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    import pyarrow as pa

PIECE = 1 << 20  # bytes passed to the socket at once
STALLED = 600.0  # seconds that a client may take for one piece

Job = Callable[[], "Sequence[pa.RecordBatch]"]


class Rows(NamedTuple):
    """Messages of one queue with their columns. ``times``: arrival in microseconds since 1970."""

    queue: str
    partition: int
    offsets: Sequence[int]
    redelivered: Sequence[bool]
    times: Sequence[int | None] | None
    messages: Sequence[Message]


def batch_of(rows: Rows, columns: Sequence[str]) -> pa.RecordBatch:
    """Build one record batch. Call this in a thread, with at most ten thousand rows."""
    from leveret.pipeline.record_batches import record_batch_of

    return record_batch_of(rows, columns)


async def arrow_response(context: PipelineContext, jobs: AsyncGenerator[Job], columns: Sequence[str]) -> Response:
    """The response. The first job is run before it starts, so that an error there has its own status code."""
    encoder = StreamEncoder(columns)
    try:
        await context.in_worker(need_arrow)
        first = await _next_pieces(context, jobs, encoder)
    except BaseException:
        await jobs.aclose()
        raise
    return ArrowResponse(context, jobs, encoder, first)


class StreamEncoder:
    """The bytes of an Arrow stream. If the schema of a batch differs from the one before (its constants do), a stream
    ends there and another one follows."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns
        self._schema: pa.Schema | None = None

    @property
    def has_begun(self) -> bool:
        return self._schema is not None

    def encoded(self, batches: Sequence[pa.RecordBatch]) -> list[bytes]:
        """To be called in a thread. The first call begins the stream, also without batches."""
        from leveret.pipeline.arrow_columns import schema_of

        pieces: list[bytes] = []
        for batch in batches:
            pieces += self._change_of(batch.schema)
            pieces.append(batch.serialize().to_pybytes())
        return pieces if self.has_begun else self._change_of(schema_of(self._columns))

    def _change_of(self, schema: pa.Schema) -> list[bytes]:
        if self._schema is not None and self._schema.equals(schema, check_metadata=True):
            return []
        end = [END_OF_STREAM] if self.has_begun else []
        self._schema = schema
        return [*end, schema.serialize().to_pybytes()]


async def _next_pieces(
    context: PipelineContext, jobs: AsyncGenerator[Job], encoder: StreamEncoder
) -> list[bytes] | None:
    """The bytes of the next batches; None at the end."""
    job = await anext(jobs, None)
    if job is None and encoder.has_begun:
        return None
    return await context.in_worker(lambda: encoder.encoded(() if job is None else job()))


class ArrowResponse(Response):
    media_type = MEDIA_TYPE

    def __init__(
        self, context: PipelineContext, jobs: AsyncGenerator[Job], encoder: StreamEncoder, first: list[bytes] | None
    ) -> None:
        self.status_code = 200
        self.background = None
        self.init_headers()
        self._context = context
        self._jobs = jobs
        self._encoder = encoder
        self._first = first

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.ensure_future(_disconnect(receive))
        sending = asyncio.ensure_future(self._send_all(send))
        try:
            await asyncio.wait({gone, sending}, return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                raise ClientDisconnect
            sending.result()
        finally:
            for task in (gone, sending):
                task.cancel()
                with suppress(asyncio.CancelledError, Exception):  # the first error was raised above
                    await task

    async def _send_all(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async with aclosing(self._jobs):
            pieces = self._first
            while pieces is not None:
                coming = asyncio.ensure_future(_next_pieces(self._context, self._jobs, self._encoder))
                try:
                    await _send_pieces(send, pieces)
                    pieces = await coming
                finally:
                    if not coming.done():
                        coming.cancel()
                        with suppress(asyncio.CancelledError):
                            await coming
        await send({"type": "http.response.body", "body": END_OF_STREAM, "more_body": False})


async def _send_pieces(send: Send, pieces: Sequence[bytes]) -> None:
    for piece in pieces:
        for start in range(0, len(piece), PIECE):
            try:
                async with asyncio.timeout(STALLED):
                    part = memoryview(piece)[start : start + PIECE]
                    await send({"type": "http.response.body", "body": part, "more_body": True})
            except TimeoutError:
                raise ClientDisconnect from None


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def jobs_of(rows: AsyncIterator[Rows], columns: Sequence[str]) -> AsyncGenerator[Job]:
    """One job for each ``Rows``."""
    async for each in rows:
        yield lambda each=each: [batch_of(each, columns)]  # type: ignore[misc]
