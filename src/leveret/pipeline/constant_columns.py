"""Columns with the same value in all rows of a batch, which are sent once instead of once per row.

Most batches have one exchange, few routing keys, and of twelve properties one or two. Spark fetches all columns, since
it does not pass the columns of a query to a Python source. So with ``omit_constants`` a column, or a field of the
properties, that has one value in a batch (null included) is left out, and its value is in the metadata of the schema:

    constants: {"exchange": "orders", "redelivered": false, "properties": {"delivery_mode": 2, "priority": null, ...}}

Finding out costs less than building the column: addresses are numbers, and text is compared eight bytes at a time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from leveret.pipeline.arrow_columns import Places, Slab
from leveret.pipeline.arrow_properties import FIXED, Span
from leveret.pipeline.arrow_schema import PROPERTIES
from leveret.wire.fields import LAST_SECOND

METADATA = b"constants"
LONGEST = 64  # bytes of a text that is compared
WORD = 8

Constants = dict[str, object]


def with_constants(schema: pa.Schema, constants: Mapping[str, object]) -> pa.Schema:
    return schema.with_metadata({METADATA: json.dumps(constants).encode()})


def constant_address(name: str, values: list[str], address_of: Places) -> Constants:
    """``values``: exchanges or routing keys, one for each number in ``address_of``."""
    is_constant = len(set(values)) == 1 or bool((address_of == address_of[0]).all())
    return {name: values[address_of[0]]} if is_constant else {}


def constant_flag(name: str, values: pa.Array) -> Constants:
    number = values.true_count
    return {name: number > 0} if number in (0, len(values)) else {}


def constant_properties(slab: Slab, spans: Mapping[str, Span]) -> Constants:
    """The properties with the same value in all rows. Rows whose properties are damaged have none."""
    found: Constants = {}
    for name in PROPERTIES:
        span = spans.get(name)
        if span is None or len(span.rows) == 0:
            found[name] = None
        elif len(span.rows) == len(slab):
            found |= _constant_property(slab, name, span)
    return found


def _constant_property(slab: Slab, name: str, span: Span) -> Constants:
    """Empty if the rows differ, or if the comparison would take long."""
    if name in FIXED:
        numbers = (slab.u64 if name == "timestamp" else slab.u8)[span.starts]
        first = int(numbers[0])
        if not (numbers == numbers[0]).all() or (name == "timestamp" and first > LAST_SECOND):
            return {}
        return {name: first * 1_000_000 if name == "timestamp" else first}
    length, start = int(span.lengths[0]), int(span.starts[0])
    if length > LONGEST or not (span.lengths == length).all() or not _is_same(slab, span.starts, length):
        return {}
    try:
        return {name: slab.data[start : start + length].decode()}
    except UnicodeDecodeError:
        return {}


def _is_same(slab: Slab, starts: Places, length: int) -> bool:
    """Whether the bytes at all starts are equal. Identifiers differ in the first and the last row already."""
    first, last = int(starts[0]), int(starts[-1])
    if slab.data[first : first + length] != slab.data[last : last + length]:
        return False
    view, width = (slab.u64, WORD) if length >= WORD else (slab.u8, 1)
    places = [*range(0, length - width + 1, width)]
    if places and places[-1] != length - width:
        places.append(length - width)
    return all(bool(np.all(view[starts + place] == view[first + place])) for place in places)
