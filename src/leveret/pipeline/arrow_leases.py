"""Messages of a lease as record batches, without an object for each message. Runs in a thread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from leveret.pipeline.arrow_columns import TIME, Places, Stretch, joined, numbers
from leveret.pipeline.arrow_schema import MOST_ROWS
from leveret.pipeline.lease_messages import Part
from leveret.pipeline.record_batches import Portion, batch_of_portion


def batches_of(parts: Sequence[Part], queue: str, partition: int, columns: Sequence[str]) -> list[pa.RecordBatch]:
    return [batch_of_portion(_portion(some, queue, partition), columns) for some in _by_rows(parts)]


def _by_rows(parts: Sequence[Part]) -> Iterator[list[Part]]:
    """Split into groups of at most as many rows as one batch may have."""
    some: list[Part] = []
    left = MOST_ROWS
    for part in parts:
        first = part.first
        while first < part.stop:
            stop = min(part.stop, first + left)
            some.append(part._replace(first=first, stop=stop))
            left -= stop - first
            first = stop
            if not left:
                yield some
                some, left = [], MOST_ROWS
    if some:
        yield some


def _portion(parts: Sequence[Part], queue: str, partition: int) -> Portion:
    known: dict[tuple[str, str], int] = {}
    address_of = np.concatenate([_address_of(part, known) for part in parts])
    counts = [part.stop - part.first for part in parts]
    offsets = [np.arange(part.run.sequence + part.first, part.run.sequence + part.stop) for part in parts]
    return Portion(
        slab=joined([_stretch(part) for part in parts]),
        queue=queue,
        partition=partition,
        offsets=np.concatenate(offsets).astype(np.int64),
        times=numbers(np.repeat([int(part.run.time * 1e6) for part in parts], counts).astype(np.int64), TIME),
        redelivered=pa.array(np.repeat([part.redelivered for part in parts], counts)),
        addresses=list(known),
        address_of=address_of,
    )


def _address_of(part: Part, known: dict[tuple[str, str], int]) -> Places:
    """The address of each message, as an index into the known addresses of all parts."""
    run = part.run
    if not run.which:
        return np.full(part.stop - part.first, known.setdefault(run.addresses[0], len(known)), np.int64)
    places = np.array([known.setdefault(address, len(known)) for address in run.addresses], np.int64)
    return places[np.array(run.which[part.first : part.stop], np.int64)]


def _stretch(part: Part) -> Stretch:
    starts = np.array(part.run.starts[part.first : part.stop], np.int64)
    return Stretch(part.run.data, starts, np.array(part.run.stops[part.first : part.stop], np.int64) - starts)
