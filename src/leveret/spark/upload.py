"""Divides the rows of a task into Arrow streams that can be sent again, and sends one while the next is made.

A piece is a complete Arrow stream of a few megabytes, kept until the broker has accepted it. If the broker restarts
during a task, only a piece is repeated, not the task. A piece that was staged twice is dropped by the commit, which
lists the valid stages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa

PIECE_BYTES = 8 << 20
# Types that Spark sends with spark.sql.execution.arrow.useLargeVarTypes, and the types of a message.
Answer = dict[str, object]
NARROW = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}


def pieces_of(batches: Iterator[pa.RecordBatch], most_bytes: int = PIECE_BYTES) -> Iterator[memoryview]:
    """The rows as Arrow streams, each ended when it is longer than `most_bytes`; none if there are no rows."""
    rows = (narrowed(batch) for batch in batches if batch.num_rows)
    for first in rows:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, first.schema) as stream:
            stream.write_batch(first)
            while sink.tell() < most_bytes:
                following = next(rows, None)
                if following is None:
                    break
                stream.write_batch(following)
        yield memoryview(sink.getvalue())


def answers_to(pieces: Iterator[memoryview], send: Callable[[memoryview], Answer]) -> Iterator[Answer]:
    """The answer of ``send`` to each piece, in order. It is called in one thread of its own, so that Spark produces
    the rows of a piece while the broker takes the one before: two pieces are in memory."""
    with ThreadPoolExecutor(1, thread_name_prefix="leveret-upload") as thread:
        sent: Future[Answer] | None = None
        for piece in pieces:
            if sent is not None:
                yield sent.result()
            sent = thread.submit(send, piece)
        if sent is not None:
            yield sent.result()


def narrowed(batch: pa.RecordBatch) -> pa.RecordBatch:
    if not any(field.type in NARROW for field in batch.schema):
        return batch
    fields = [field.with_type(NARROW.get(field.type, field.type)) for field in batch.schema]
    columns = [column.cast(field.type) for column, field in zip(batch.columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
