"""Record batches with the requested columns, from messages in memory or from chunks of a stream's files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from leveret.message import Address
from leveret.pipeline.arrow_batches import Rows
from leveret.pipeline.arrow_columns import TIME, Places, Slab, bodies, numbers, repeated, schema_of, slab_of
from leveret.pipeline.arrow_properties import Span, headers_column, properties_column, spans_of
from leveret.pipeline.arrow_schema import PROPERTIES, Columns
from leveret.pipeline.constant_columns import (
    Constants,
    constant_address,
    constant_flag,
    constant_properties,
    with_constants,
)


@dataclass(slots=True)
class Portion:
    """As many messages as one batch holds."""

    slab: Slab
    queue: str
    partition: int
    offsets: Places
    times: pa.Array
    redelivered: pa.Array
    addresses: Sequence[tuple[str, str]]  # exchange, key
    address_of: Places  # the address of each row, as an index into these


def record_batch_of(rows: Rows, columns: Sequence[str]) -> pa.RecordBatch:
    """A batch of messages that are in memory."""
    number = len(rows.messages)
    known, address_of = _addresses([message[1] for message in rows.messages])
    portion = Portion(
        slab=slab_of(rows.messages),
        queue=rows.queue,
        partition=rows.partition,
        offsets=np.fromiter(rows.offsets, np.int64, number),
        times=pa.nulls(number, TIME) if rows.times is None else pa.array(rows.times, pa.int64()).cast(TIME),
        redelivered=pa.array(rows.redelivered, pa.bool_()),
        addresses=list(known),
        address_of=address_of,
    )
    return batch_of_portion(portion, columns)


def _addresses(given: list[Address]) -> tuple[dict[tuple[str, str], int], Places]:
    """The distinct addresses, and the index of each row's address."""
    if given and given.count(given[0]) == len(given):
        return {(given[0].exchange, given[0].key): 0}, np.zeros(len(given), np.int64)
    known: dict[tuple[str, str], int] = {}
    places = [known.setdefault((address.exchange, address.key), len(known)) for address in given]
    return known, np.array(places, np.int64)


def batch_of_portion(portion: Portion, columns: Sequence[str]) -> pa.RecordBatch:
    spans = spans_of(portion.slab) if "headers" in columns or "properties" in columns else {}
    constants = _constants(portion, columns, spans) if isinstance(columns, Columns) and columns.omit_constants else {}
    same: Constants = constants.get("properties", {})  # type: ignore[assignment]
    number = len(portion.slab)
    make: dict[str, Callable[[], pa.Array]] = {
        "body": lambda: bodies(portion.slab),
        "routing_key": lambda: _addressed(portion, 1),
        "exchange": lambda: _addressed(portion, 0),
        "queue": lambda: repeated(portion.queue, pa.string(), number),
        "partition": lambda: repeated(portion.partition, pa.int32(), number),
        "offset": lambda: numbers(portion.offsets, pa.int64()),
        "timestamp": lambda: portion.times,
        "redelivered": lambda: portion.redelivered,
        "headers": lambda: headers_column(portion.slab, spans),
        "properties": lambda: properties_column(portion.slab, spans, without=same),
    }
    if not constants:
        return pa.RecordBatch.from_arrays([make[name]() for name in columns], schema=schema_of(columns))
    sent = [name for name in columns if name not in constants or (name == "properties" and len(same) < len(PROPERTIES))]
    arrays = [make[name]() for name in sent]
    schema = pa.schema([(name, array.type) for name, array in zip(sent, arrays, strict=True)])
    return pa.RecordBatch.from_arrays(arrays, schema=with_constants(schema, constants))


def _constants(portion: Portion, columns: Sequence[str], spans: Mapping[str, Span]) -> Constants:
    """The columns that have one value, unless no column would be left: then the batch would have no rows."""
    find: dict[str, Callable[[], Constants]] = {
        "routing_key": lambda: constant_address(
            "routing_key", [key for _, key in portion.addresses], portion.address_of
        ),
        "exchange": lambda: constant_address("exchange", [name for name, _ in portion.addresses], portion.address_of),
        "queue": lambda: {"queue": portion.queue},
        "partition": lambda: {"partition": portion.partition},
        "redelivered": lambda: constant_flag("redelivered", portion.redelivered),
        "headers": lambda: {} if "headers" in spans else {"headers": {}},
        "properties": lambda: {"properties": constant_properties(portion.slab, spans)},
    }
    found: Constants = {}
    for name in columns:
        if name in find:
            found |= find[name]()
    return found if len(portion.slab) and len(found) < len(columns) else {}


def _addressed(portion: Portion, part: int) -> pa.Array:
    names = pa.array([address[part] for address in portion.addresses], pa.string())
    if len(names) == 1:
        return repeated(portion.addresses[0][part], pa.string(), len(portion.slab))
    return names.take(pa.array(portion.address_of))
