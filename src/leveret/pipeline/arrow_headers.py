"""Headers of rows as AMQP field tables.

A column of texts (map<string, string>) is encoded without a Python object for each value. All other types are
converted row by row: a struct has a header for each field that is not null, a map one for each entry; their values are
numbers, booleans, texts, binaries, timestamps, decimals, arrays, structs, maps with names, and Spark's variants.

Values are untrusted: as Python objects, or decoded from a variant, they can take many times the memory of the column.
So columns are converted in parts, and the number and size of the values in a row are limited before they are converted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa

from leveret.errors import FrameError
from leveret.http.errors import BadRequest
from leveret.pipeline.arrow_values import UNREADABLE, are_different, bytes_of, is_binary, is_text, raw_values, short
from leveret.pipeline.variants import Budget, variant_of
from leveret.wire.fields import UINT32, encode_short, encode_table

MOST_HEADERS_BYTES = 64 << 10
MOST_VALUES = MOST_HEADERS_BYTES  # of a row, and of rows that are converted at once
TEXTS = pa.map_(pa.string(), pa.string())
ACCEPTED = (
    "a struct, or a map of names, whose values are numbers, booleans, texts, binaries, timestamps, decimals, lists, "
    "structs, maps of names or variants"
)
SCALARS = (
    pa.types.is_integer,
    pa.types.is_float32,
    pa.types.is_float64,
    pa.types.is_boolean,
    pa.types.is_timestamp,
    pa.types.is_decimal128,
    pa.types.is_null,
)

Convert = Callable[[Any], object]


# ---- types


def are_headers(kind: pa.DataType) -> bool:
    return (pa.types.is_struct(kind) or pa.types.is_map(kind)) and not is_variant(kind) and _can_be_sent(kind)


def is_variant(kind: pa.DataType) -> bool:
    """Spark passes a variant as a struct of two binaries, of which one is marked."""
    if not pa.types.is_struct(kind) or {inner.name for inner in kind} != {"value", "metadata"}:
        return False
    return any((inner.metadata or {}).get(b"variant") == b"true" for inner in kind)


def _can_be_sent(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return are_different(kind) and all(_can_be_sent(inner.type) for inner in kind)
    if pa.types.is_map(kind):
        return is_text(kind.key_type) and _can_be_sent(kind.item_type)
    if _is_list(kind):
        return _can_be_sent(kind.value_type)
    return is_text(kind) or is_binary(kind) or any(test(kind) for test in SCALARS)


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


# ---- values


def encoded_headers(column: pa.Array) -> Sequence[bytes]:
    """The headers of each row as a field table; b"" for a row without."""
    return [table for part in _parts(column) for table in _encoded(part)]


def _parts(column: pa.Array) -> Iterator[pa.Array]:
    """Parts with at most MOST_VALUES values."""
    number = _values(column)
    if number <= MOST_VALUES:
        yield column
    elif len(column) == 1:
        raise BadRequest(f"headers of {number} values in one row: at most {MOST_VALUES} fit")
    else:
        half = len(column) // 2
        yield from _parts(column.slice(0, half))
        yield from _parts(column.slice(half))


def _values(column: pa.Array) -> int:
    """The number of values at all levels, null or not."""
    kind = column.type
    if pa.types.is_struct(kind):
        return len(column) + sum(_values(column.field(place)) for place in range(kind.num_fields))
    if not pa.types.is_map(kind) and not _is_list(kind):
        return len(column)
    if not len(column):
        return 0
    first, stop = column.offsets[0].as_py(), column.offsets[-1].as_py()
    inner = column.items if pa.types.is_map(kind) else column.values  # of the whole batch
    return len(column) + _values(inner.slice(first, stop - first))


def _encoded(column: pa.Array) -> Sequence[bytes]:
    kind = column.type
    if pa.types.is_map(kind) and is_text(kind.item_type):
        return _encoded_texts(column if kind == TEXTS else column.cast(TEXTS))
    budget = Budget(MOST_HEADERS_BYTES)
    convert = _conversion(kind, budget)
    tables: list[bytes] = []
    try:
        for row in column.to_pylist():
            budget.reset()
            headers = None if row is None else convert(row)
            tables.append(_table(headers) if headers else b"")
    except (FrameError, KeyError, OverflowError, *UNREADABLE) as problem:
        raise BadRequest(f"the headers of a row cannot be sent: {problem}") from None
    return tables


def _table(headers: Any) -> bytes:
    table = encode_table(headers)
    _refuse_large(len(table))
    return table


def _refuse_large(size: int) -> None:
    if size > MOST_HEADERS_BYTES:
        raise BadRequest(f"headers of {size} bytes in one row: at most {MOST_HEADERS_BYTES} fit")


def _conversion(kind: pa.DataType, budget: Budget) -> Convert:
    """Makes the value that ``to_pylist`` returns one that the wire format has. A null in a struct or map is left out;
    in a list it is void. ``budget`` is that of the variants in one row."""
    if is_variant(kind):
        return lambda value: variant_of(value["value"], value["metadata"], budget)
    if pa.types.is_struct(kind):
        inner = {field.name: _conversion(field.type, budget) for field in kind}
        return lambda value: {name: inner[name](each) for name, each in value.items() if each is not None}
    if pa.types.is_map(kind):
        item = _conversion(kind.item_type, budget)
        return lambda value: {name: item(each) for name, each in value if each is not None}
    if _is_list(kind):
        element = _conversion(kind.value_type, budget)
        return lambda value: [None if each is None else element(each) for each in value]
    return lambda value: value


def _encoded_texts(column: pa.Array) -> Sequence[bytes]:
    offsets = column.offsets.to_pylist()
    first, number = offsets[0], offsets[-1] - offsets[0]  # keys and items belong to the whole batch
    keys, items = column.keys.slice(first, number), column.items.slice(first, number)
    names, values = bytes_of(keys, "the names of headers"), raw_values(items)
    fields = {name: _header_name(name) + b"S" for name in set(names)}
    present = items.is_valid().to_pylist() if items.null_count else None
    is_null = column.is_null().to_pylist() if column.null_count else None
    tables: list[bytes] = []
    pack = UINT32.pack
    for row, (start, stop) in enumerate(pairwise([offset - first for offset in offsets])):
        if start == stop or (is_null is not None and is_null[row]):
            tables.append(b"")
            continue
        parts = [
            fields[names[at]] + pack(len(values[at])) + values[at]
            for at in range(start, stop)
            if present is None or present[at]
        ]
        table = b"".join(parts)
        _refuse_large(len(table))
        tables.append(pack(len(table)) + table)
    return tables


def _header_name(name: bytes) -> bytes:
    return encode_short(short(name.decode(), "name of a header"))
