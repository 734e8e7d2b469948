"""A range of a stream as record batches: chunks of its files become columns without decoding single messages.

Everything here runs in a thread, one step after the other. A step makes one batch of several chunks; chunks that were
read from disk together share their bytes, others are copied side by side first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
import pyarrow as pa

from leveret.http.errors import Gone
from leveret.pipeline.arrow_columns import TIME, Slab, Stretch, joined, numbers, one_array, repeated
from leveret.pipeline.arrow_schema import MOST_BYTES, MOST_ROWS
from leveret.pipeline.record_batches import Portion, batch_of_portion
from leveret.pipeline.topics import TopicFilter
from leveret.store.stream_files import StreamChunk, StreamFiles, StreamGone

LONGEST_STEP = 0.2  # seconds after which no further chunk is filtered: the threads are shared with other requests
MOST_LOOKED_AT = 64  # chunks of one step, if few of their messages are in the range


@dataclass(slots=True, frozen=True)
class Wanted:
    """The requested range: messages with ``start`` <= offset < ``stop``."""

    queue: str
    partition: int
    start: int
    stop: int
    columns: Sequence[str]
    only: TopicFilter | None
    skips_missing: bool


class StreamFetch:
    """Call ``step`` until ``is_over``. Raises Gone if messages of the range are missing, unless they are skipped."""

    def __init__(self, files: StreamFiles, wanted: Wanted) -> None:
        self.is_over = False
        self._files = files
        self._wanted = wanted
        self._at = wanted.start
        self._chunks: Iterator[StreamChunk] | None = None
        self._left: StreamChunk | None = None  # did not fit into the last batch

    def step(self) -> list[pa.RecordBatch]:
        gathered: list[StreamChunk] = []
        rows = size = 0
        end = perf_counter() + LONGEST_STEP
        for _ in range(MOST_LOOKED_AT):
            if perf_counter() > end:
                break
            chunk = self._left or self._next()
            self._left = None
            if chunk is None:
                self.is_over = True
                break
            if gathered and (rows + chunk.number > MOST_ROWS or size + chunk.size > MOST_BYTES):
                self._left = chunk
                break
            if self._has_wanted(chunk):
                gathered.append(chunk)
                rows += chunk.number
                size += chunk.size
        return [batch_of_portion(portion, self._wanted.columns) for portion in self._portions(gathered)]

    def _next(self) -> StreamChunk | None:
        wanted = self._wanted
        try:
            if self._chunks is None:
                self._chunks = self._files.chunks(self._at, wanted.stop)
            chunk = next(self._chunks, None)
        except StreamGone:
            self._chunks = None
            first = self._files.first
            if first <= self._at:  # not by retention: the stream was deleted
                raise Gone(f"stream '{wanted.queue}' was deleted while it was read") from None
            self._note_missing(first)
            return self._next() if self._at < wanted.stop else None
        self._note_missing(wanted.stop if chunk is None else chunk.first)
        if chunk is not None:
            self._at = chunk.next
        return chunk

    def _note_missing(self, found: int) -> None:
        """Offsets between the current one and ``found`` do not exist any more."""
        if found > self._at and not self._wanted.skips_missing:
            raise gone(self._wanted.queue, self._at, found)
        self._at = max(found, self._at)

    def _has_wanted(self, chunk: StreamChunk) -> bool:
        only = self._wanted.only
        return only is None or any(only.takes(key) for _, key in chunk.addresses)

    # ---- from chunks to columns

    def _portions(self, chunks: Sequence[StreamChunk]) -> Iterator[Portion]:
        if not chunks:
            return
        portion = _portion(chunks, self._wanted)
        if self._wanted.only is not None:
            portion = _only(portion, self._wanted.only)
        if len(portion.slab):
            yield portion


def gone(queue: str, missing: int, first: int) -> Gone:
    return Gone(
        f"offsets {missing} to {first - 1} of stream '{queue}' were deleted by retention, or are damaged; "
        f"read from {first} on, or set missing=skip",
        first=first,
    )


def _portion(chunks: Sequence[StreamChunk], wanted: Wanted) -> Portion:
    known: dict[tuple[str, str], int] = {}
    offsets, times, address_of = [], [], []
    for chunk in chunks:
        offsets.append(np.arange(chunk.first, chunk.first + chunk.number, dtype=np.int64))
        counts = np.frombuffer(chunk.counts, np.uint32)
        times.append(np.repeat(np.frombuffer(chunk.times, np.int64), counts))
        places = np.array([known.setdefault(address, len(known)) for address in chunk.addresses], np.int64)
        address_of.append(np.repeat(places[np.frombuffer(chunk.indexes, np.uint32)], counts))
    number = sum(chunk.number for chunk in chunks)
    return Portion(
        slab=joined([_stretch(chunk) for chunk in chunks]),
        queue=wanted.queue,
        partition=wanted.partition,
        offsets=one_array(offsets),
        times=numbers(one_array(times), TIME),
        redelivered=repeated(False, pa.bool_(), number),
        addresses=list(known),
        address_of=one_array(address_of),
    )


def _stretch(chunk: StreamChunk) -> Stretch:
    starts, lengths = np.frombuffer(chunk.starts, np.uint64), np.frombuffer(chunk.lengths, np.uint32)
    return Stretch(chunk.data, starts.astype(np.int64), lengths.astype(np.int64))


def _only(portion: Portion, only: TopicFilter) -> Portion:
    taken = np.array([only.takes(key) for _, key in portion.addresses], np.bool_)
    rows = np.flatnonzero(taken[portion.address_of])
    if len(rows) == len(portion.slab):
        return portion
    slab = portion.slab
    return Portion(
        slab=Slab(slab.data, slab.starts[rows], slab.lengths[rows]),
        queue=portion.queue,
        partition=portion.partition,
        offsets=portion.offsets[rows],
        times=portion.times.take(pa.array(rows)),
        redelivered=portion.redelivered.slice(0, len(rows)),
        addresses=portion.addresses,
        address_of=portion.address_of[rows],
    )
