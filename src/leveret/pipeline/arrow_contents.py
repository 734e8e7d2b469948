"""Converts record batches of a request to message contents: a header frame and body frames for each row
(wire/content.py).

A common row has a body and nothing else: its content is a head, which depends on the size of the body only, and the
body. So heads are built once for each size. Properties are encoded column by column and joined in wire order, some
before and some after the headers.

Batches are untrusted: each is validated in full before it is read, since its offsets could point anywhere. It is
decoded in place (pipeline/arrow_frames.py refuses other batches), and at most a few megabytes of it are copied at a
time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from leveret.broker.publish_rules import too_large
from leveret.errors import FrameError
from leveret.http.errors import BadRequest, ContentTooLarge
from leveret.message import (
    PERSISTENT,
    PERSISTENT_BY_PRIORITY,
    TRANSIENT_BY_PRIORITY,
    Address,
    Traits,
)
from leveret.pipeline.arrow_frames import Framed
from leveret.pipeline.arrow_schema import PROPERTIES, refuse_strange_columns
from leveret.pipeline.inflow import Incoming
from leveret.wire.constants import BASIC_CLASS, DEFAULT_FRAME_MAX, END_BYTE, FRAME_BODY, FRAME_HEADER, FRAME_OVERHEAD
from leveret.wire.fields import UINT32, encode_short
from leveret.wire.frames import CONTENT_HEADER, ENVELOPE, content_frames
from leveret.wire.properties import FLAG_HEADERS, LAYOUT, Properties, encode_properties

CHANNEL = 1
ONE_FRAME = DEFAULT_FRAME_MAX - FRAME_OVERHEAD  # the largest body that fits
PLAIN = encode_properties(Properties(delivery_mode=2))
MOST_HEADERS_BYTES = 64 << 10
MOST_ADDRESSES = 10_000  # cached addresses
# Limits of one processing step. pyarrow holds the GIL while it converts a column to Python values, for a few
# milliseconds with this many rows: the event loop waits that long.
PIECE_ROWS = 1_000
PIECE_BYTES = 4 << 20
BESIDES = 1 << 20  # bytes of a row that are not its body: more than headers and properties can have

UNREADABLE = (pa.ArrowException, OSError, ValueError, TypeError)  # raised by pyarrow for invalid data

# No view types: many of their values can share the same bytes, and each value is copied here.
TEXT = pa.types.is_string, pa.types.is_large_string
BINARY = pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary


class Encoded(NamedTuple):
    """The properties of each row except headers: flags, and the bytes before and after the headers in wire order."""

    flags: list[int]
    before: list[bytes]
    behind: list[bytes]
    traits: list[Traits]


class Contents:
    """One stream of record batches, from its schema on."""

    def __init__(self, schema: Framed, exchange: str, key: str, max_message_size: int) -> None:
        self._exchange = _short(exchange, "exchange")
        self._key = _short(key, "routing_key")
        self._most = max_message_size
        self._addresses: dict[tuple[str, str], Address] = {}
        try:
            self._schema = pa.ipc.read_schema(pa.ipc.read_message(schema))
            refuse_strange_columns(self._schema.names)
            _refuse_strange_types(self._schema)
        except UNREADABLE as problem:
            raise BadRequest(f"the Arrow stream does not start with a valid schema: {problem}") from None

    def slices(self, framed: Framed) -> list[pa.RecordBatch]:
        """A record batch, validated, in pieces with the rows and bytes of one step."""
        try:
            batch = pa.ipc.read_record_batch(pa.ipc.read_message(framed), self._schema)
            batch.validate(full=True)
        except UNREADABLE as problem:
            raise BadRequest(f"the Arrow stream is damaged: {problem}") from None
        starts = range(0, batch.num_rows, PIECE_ROWS)
        return [piece for start in starts for piece in pieces(batch.slice(start, PIECE_ROWS))]

    def runs(self, piece: pa.RecordBatch) -> list[Incoming]:
        """The messages of one piece, split wherever the address changes."""
        self._refuse_large_rows(piece)
        try:
            batch = pa.RecordBatch.from_arrays([_plain(column) for column in piece.columns], piece.schema.names)
        except UNREADABLE as problem:
            raise BadRequest(f"the Arrow stream is damaged: {problem}") from None
        bodies = bytes_of(batch.column("body"), "column 'body'")
        names = batch.schema.names
        if "headers" in names or "properties" in names:
            contents, traits = with_properties(bodies, batch)
        else:
            contents, traits = plain_contents(bodies), None
        return [
            _run(contents[start:stop], address, None if traits is None else traits[start:stop])
            for start, stop, address in self._addressed(batch)
        ]

    def _refuse_large_rows(self, piece: pa.RecordBatch) -> None:
        largest = pc.max(pc.binary_length(piece.column("body"))).as_py() or 0
        if largest > self._most:
            raise ContentTooLarge(too_large(largest, self._most))
        if piece.num_rows == 1 and piece.nbytes > self._most + BESIDES:
            raise ContentTooLarge(f"a row of {piece.nbytes} bytes: headers and properties have {BESIDES} bytes at most")

    def _addressed(self, batch: pa.RecordBatch) -> Iterator[tuple[int, int, Address]]:
        """Ranges of rows with the same address."""
        number = batch.num_rows
        keys, key_of = texts_of(batch, "routing_key", self._key)
        exchanges, exchange_of = texts_of(batch, "exchange", self._exchange)
        changes = np.flatnonzero((np.diff(key_of) != 0) | (np.diff(exchange_of) != 0)) + 1
        for start, stop in pairwise([0, *changes.tolist(), number]):
            if start < stop:
                yield start, stop, self._address(exchanges[exchange_of[start]], keys[key_of[start]])

    def _address(self, exchange: str, key: str) -> Address:
        known = self._addresses.get((exchange, key))
        if known is None:
            if len(self._addresses) >= MOST_ADDRESSES:
                self._addresses.clear()
            _short(exchange, "exchange")
            _short(key, "routing_key")
            known = self._addresses[exchange, key] = Address(exchange, key, CHANNEL, DEFAULT_FRAME_MAX)
        return known


def pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Parts that have at most ``PIECE_BYTES``, or one row."""
    half = batch.num_rows // 2
    if half and batch.nbytes > PIECE_BYTES:
        yield from pieces(batch.slice(0, half))
        yield from pieces(batch.slice(half))
    else:
        yield batch


def _run(contents: list[bytes], address: Address, traits: list[Traits] | None) -> Incoming:
    size = sum(map(len, contents))
    if traits is None:
        return Incoming([(content, address, PERSISTENT) for content in contents], True, size)
    messages = [(content, address, each) for content, each in zip(contents, traits, strict=True)]
    return Incoming(messages, False, size)


# ---- contents


def plain_contents(bodies: Sequence[bytes]) -> list[bytes]:
    heads = {size: _head(PLAIN, size) for size in set(map(len, bodies)) if 0 < size <= ONE_FRAME}
    return [
        heads[len(body)] + body + END_BYTE if 0 < len(body) <= ONE_FRAME else _slowly(PLAIN, body) for body in bodies
    ]


def with_properties(bodies: Sequence[bytes], batch: pa.RecordBatch) -> tuple[list[bytes], list[Traits]]:
    flags, before, behind, traits = encoded_properties(batch)
    tables = encoded_headers(batch)
    words = {flag: flag.to_bytes(2, "big") for flag in {flag | bit for flag in set(flags) for bit in (0, FLAG_HEADERS)}}
    contents: list[bytes] = []
    for body, flag, front, table, back in zip(bodies, flags, before, tables, behind, strict=True):
        properties = b"".join((words[flag | FLAG_HEADERS if table else flag], front, table, back))
        if 0 < len(body) <= ONE_FRAME:
            contents.append(b"".join((_head(properties, len(body)), body, END_BYTE)))
        else:
            contents.append(_slowly(properties, body))
    return contents, traits


def _head(properties: bytes, size: int) -> bytes:
    """All bytes before a body that fits into one frame."""
    header = CONTENT_HEADER.pack(BASIC_CLASS, 0, size) + properties
    front = ENVELOPE.pack(FRAME_HEADER, CHANNEL, len(header)) + header + END_BYTE
    return front + ENVELOPE.pack(FRAME_BODY, CHANNEL, size)


def _slowly(properties: bytes, body: bytes) -> bytes:
    return content_frames(CHANNEL, properties, body, DEFAULT_FRAME_MAX)


# ---- properties and headers


def encoded_properties(batch: pa.RecordBatch) -> Encoded:
    """Column by column; a value that many rows have is encoded once."""
    number = batch.num_rows
    given = _given_properties(batch)
    modes = given["delivery_mode"] = [2 if mode is None else mode for mode in given.get("delivery_mode", [2] * number)]
    flags = [0] * number
    parts: dict[bool, list[list[bytes]]] = {True: [], False: []}  # before and after the headers
    for flag, name, encode, _ in LAYOUT:
        if name in given:
            known = {value: _encoded(name, value, encode) for value in set(given[name])}
            column = [known[value] for value in given[name]]
            flags = [each | flag if part else each for each, part in zip(flags, column, strict=True)]
            parts[flag > FLAG_HEADERS].append(column)
    before, behind = ([b"".join(row) for row in zip(*columns, strict=True)] for columns in parts.values())
    priorities = given.get("priority", [0] * number)
    traits = {pair: _traits(*pair) for pair in set(zip(modes, priorities, strict=True))}
    by_row = [traits[pair] for pair in zip(modes, priorities, strict=True)]
    return Encoded(flags, before or [b""] * number, behind or [b""] * number, by_row)


def _given_properties(batch: pa.RecordBatch) -> dict[str, list[Any]]:
    """The values of each property that is present; None also where the whole struct is null."""
    if "properties" not in batch.schema.names:
        return {}
    column = batch.column("properties")
    given: dict[str, list[Any]] = {}
    for place, inner in enumerate(column.type):
        field = column.field(place)
        if column.null_count:
            field = pc.if_else(column.is_valid(), field, pa.scalar(None, field.type))
        if pa.types.is_timestamp(field.type):
            field = field.cast(pa.timestamp("us", "UTC"), safe=False)
        if field.null_count < len(field):
            given[inner.name] = _listed(inner.name, field)
    return given


def _listed(name: str, field: pa.Array) -> list[Any]:
    try:
        values: list[Any] = field.to_pylist()
    except (ValueError, OverflowError) as problem:  # a time beyond year 9999
        raise BadRequest(f"properties.{name} has a value that cannot be sent: {problem}") from None
    return values


def _encoded(name: str, value: Any, encode: Callable[[Any], bytes]) -> bytes:
    """b"" for a missing property: no property has an empty encoding."""
    try:
        return b"" if value is None else encode(value)
    except (FrameError, OverflowError) as problem:
        raise BadRequest(f"properties.{name} {str(value)[:80]!r} cannot be sent: {problem}") from None


def _traits(mode: int, priority: int | None) -> Traits:
    if mode not in (1, 2):
        raise BadRequest(f"properties.delivery_mode {mode} is unknown: 1 is transient, 2 persistent")
    return (PERSISTENT_BY_PRIORITY if mode == 2 else TRANSIENT_BY_PRIORITY)[priority or 0]


def encoded_headers(batch: pa.RecordBatch) -> Sequence[bytes]:
    """The headers of each row as a field table; b"" for a row without."""
    if "headers" not in batch.schema.names:
        return [b""] * batch.num_rows
    column = batch.column("headers")
    offsets = column.offsets.to_pylist()
    first, number = offsets[0], offsets[-1] - offsets[0]  # keys and items belong to the whole batch
    keys, items = column.keys.slice(first, number), column.items.slice(first, number)
    names, values = bytes_of(keys, "the names of headers"), _bytes(items)
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
        if len(table) > MOST_HEADERS_BYTES:
            raise BadRequest(f"headers of {len(table)} bytes in one row: at most {MOST_HEADERS_BYTES} fit")
        tables.append(pack(len(table)) + table)
    return tables


def _header_name(name: bytes) -> bytes:
    return encode_short(_short(name.decode(), "name of a header"))


# ---- values of columns


def bytes_of(column: pa.Array, what: str) -> list[bytes]:
    if column.null_count:
        raise BadRequest(f"a null in {what}: every row needs a value")
    return _bytes(column)


def _bytes(column: pa.Array) -> list[bytes]:
    """Values of a column with 32-bit offsets, b"" for a null. Slices of one bytes: four times as fast as to_pylist."""
    if len(column) == 0:
        return []
    _, offsets, data = column.buffers()
    ends = memoryview(offsets).cast("i")[column.offset : column.offset + len(column) + 1].tolist()
    if data is None:
        return [b""] * len(column)
    first = ends[0]
    raw = data.slice(first, ends[-1] - first).to_pybytes()
    return [raw[start - first : stop - first] for start, stop in pairwise(ends)]


def texts_of(batch: pa.RecordBatch, name: str, default: str) -> tuple[list[str], npt.NDArray[np.int64]]:
    """The distinct texts of a column, and the index of each row's text. A null means the default, as does a missing
    column."""
    if name not in batch.schema.names:
        return [default], np.zeros(batch.num_rows, np.int64)
    column = batch.column(name).dictionary_encode()
    texts: list[str] = [*column.dictionary.to_pylist(), default]
    return texts, column.indices.fill_null(len(texts) - 1).to_numpy(zero_copy_only=False).astype(np.int64)


def _short(text: str, name: str) -> str:
    if len(text.encode()) > 255:
        raise BadRequest(f"{name} {text[:40]!r}... is longer than 255 bytes")
    return text


# ---- types


def _refuse_strange_types(schema: pa.Schema) -> None:
    for field in schema:
        if not _fits(field):
            raise BadRequest(
                f"column '{field.name}' has type {field.type}: body is binary or string, routing_key and exchange are "
                f"string, headers is map<string, string>, properties a struct of {', '.join(PROPERTIES)}; send no "
                "dictionaries and no views"
            )


def _fits(field: pa.Field) -> bool:
    kind = field.type
    if field.name == "body":
        return any(test(kind) for test in TEXT + BINARY)
    if field.name == "headers":
        return pa.types.is_map(kind) and _is_text(kind.key_type) and _is_text(kind.item_type)
    if field.name == "properties":
        return pa.types.is_struct(kind) and _are_different(kind) and all(_is_property(inner) for inner in kind)
    return _is_text(kind)


def _are_different(kind: pa.StructType) -> bool:
    return len({inner.name for inner in kind}) == int(kind.num_fields)


def _is_text(kind: pa.DataType) -> bool:
    return any(test(kind) for test in TEXT)


def _is_property(field: pa.Field) -> bool:
    if field.name not in PROPERTIES:
        raise BadRequest(f"properties.{field.name} is unknown: choose from {', '.join(PROPERTIES)}")
    if field.name in ("delivery_mode", "priority"):
        return bool(pa.types.is_integer(field.type))
    if field.name == "timestamp":
        return bool(pa.types.is_timestamp(field.type))
    return _is_text(field.type) or bool(pa.types.is_null(field.type))


def _plain(column: pa.Array) -> pa.Array:
    """The same values with 32-bit offsets; a body of text as its bytes."""
    kind = column.type
    if pa.types.is_map(kind):
        return column if kind == pa.map_(pa.string(), pa.string()) else column.cast(pa.map_(pa.string(), pa.string()))
    if _is_text(kind):
        return column.cast(pa.string())
    return column.cast(pa.binary()) if any(test(kind) for test in BINARY) else column
