"""Converts record batches of a request to message contents: a header frame and body frames for each row
(wire/content.py).

A common row has a body and nothing else: its content is a head, which depends on the size of the body only, and the
body. So heads are built once for each size, and Arrow joins the contents of all rows in one step, without the GIL.
Properties are encoded column by column and joined in wire order, some before and some after the headers.

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
from leveret.pipeline.arrow_headers import ACCEPTED, are_headers, encoded_headers
from leveret.pipeline.arrow_schema import PROPERTIES, refuse_strange_columns
from leveret.pipeline.arrow_values import (
    UNREADABLE,
    are_different,
    bytes_of,
    is_binary,
    is_text,
    raw_values,
    refuse_nulls,
    short,
)
from leveret.pipeline.inflow import RUN, RUN_BYTES, Incoming
from leveret.pipeline.packs import MOST_RUNS, Pack, packed
from leveret.pipeline.unroutable import MandatoryAddress
from leveret.wire.constants import BASIC_CLASS, DEFAULT_FRAME_MAX, END_BYTE, FRAME_BODY, FRAME_HEADER, FRAME_OVERHEAD
from leveret.wire.frames import CONTENT_HEADER, ENVELOPE, content_frames
from leveret.wire.properties import FLAG_HEADERS, LAYOUT, Properties, encode_properties

CHANNEL = 1
ONE_FRAME = DEFAULT_FRAME_MAX - FRAME_OVERHEAD  # the largest body that fits
PLAIN = encode_properties(Properties(delivery_mode=2))
MOST_ADDRESSES = 10_000  # cached addresses
# Limits of one processing step. pyarrow holds the GIL while it converts a column to Python values, for a few
# milliseconds with this many rows: the event loop waits that long.
PIECE_ROWS = 1_000
PIECE_BYTES = 4 << 20
# Rows that have no properties are not converted that way.
PLAIN_ROWS = RUN
PLAIN_BYTES = RUN_BYTES // 2  # with their heads they are still below RUN_BYTES
MOST_BESIDES = 1 << 20  # bytes of a row that are not its body: more than headers and properties can have


class Encoded(NamedTuple):
    """The properties of each row except headers: flags, and the bytes before and after the headers in wire order."""

    flags: list[int]
    before: list[bytes]
    behind: list[bytes]
    traits: list[Traits]


class Contents:
    """One stream of record batches, from its schema on."""

    def __init__(self, schema: Framed, exchange: str, key: str, max_message_size: int) -> None:
        self._exchange = short(exchange, "exchange")
        self._key = short(key, "routing_key")
        self._most = max_message_size
        self._addresses: dict[tuple[str, str, bool], Address] = {}
        try:
            self._schema = pa.ipc.read_schema(pa.ipc.read_message(schema))
            refuse_strange_columns(self._schema.names)
            _refuse_strange_types(self._schema)
            self._is_plain = not {"headers", "properties"} & {*self._schema.names}
        except UNREADABLE as problem:
            raise BadRequest(f"the Arrow stream does not start with a valid schema: {problem}") from None

    def slices(self, framed: Framed) -> list[pa.RecordBatch]:
        """A record batch, validated, in pieces with the rows and bytes of one step."""
        try:
            batch = pa.ipc.read_record_batch(pa.ipc.read_message(framed), self._schema)
            batch.validate(full=True)
        except UNREADABLE as problem:
            raise BadRequest(f"the Arrow stream is damaged: {problem}") from None
        rows, size = (PLAIN_ROWS, PLAIN_BYTES) if self._is_plain else (PIECE_ROWS, PIECE_BYTES)
        starts = range(0, batch.num_rows, rows)
        return [piece for start in starts for piece in pieces(batch.slice(start, rows), size)]

    def runs(self, piece: pa.RecordBatch) -> list[Incoming]:
        """The messages of one piece, split wherever the address changes."""
        return self._runs_of(self._columns(piece))

    def _runs_of(self, batch: pa.RecordBatch) -> list[Incoming]:
        traits: list[Traits] | None = None
        if self._is_plain:
            contents = plain_contents(batch.column("body"))
        else:
            contents, traits = with_properties(bytes_of(batch.column("body"), "column 'body'"), batch)
        return [
            _run(contents[start:stop], address, None if traits is None else traits[start:stop])
            for start, stop, address in self._addressed(batch)
        ]

    def packs(self, piece: pa.RecordBatch) -> list[Pack | Incoming]:
        """The messages of one piece to be staged: as one pack if they are plain and have few addresses."""
        batch = self._columns(piece)
        joined = joined_contents(batch.column("body")) if self._is_plain else None
        if joined is None:
            return [*self._runs_of(batch)]
        runs = [*self._addressed(batch)]
        if len(runs) > MOST_RUNS:
            return [*self._runs_of(batch)]
        _, offsets, data = joined.buffers()
        ends = np.frombuffer(offsets, np.int32)[: len(joined) + 1]
        return [packed(runs, ends, data.to_pybytes())]

    def _columns(self, piece: pa.RecordBatch) -> pa.RecordBatch:
        self._refuse_large_rows(piece)
        try:
            return pa.RecordBatch.from_arrays([_plain(column) for column in piece.columns], piece.schema.names)
        except UNREADABLE as problem:
            raise BadRequest(f"the Arrow stream is damaged: {problem}") from None

    def _refuse_large_rows(self, piece: pa.RecordBatch) -> None:
        largest = pc.max(pc.binary_length(piece.column("body"))).as_py() or 0
        if largest > self._most:
            raise ContentTooLarge(too_large(largest, self._most))
        besides = piece.nbytes - piece.column("body").nbytes if piece.num_rows == 1 else 0
        if besides > MOST_BESIDES:
            raise ContentTooLarge(f"headers and properties have {besides} bytes in one row: at most {MOST_BESIDES} fit")

    def _addressed(self, batch: pa.RecordBatch) -> Iterator[tuple[int, int, Address]]:
        """Ranges of rows with the same address."""
        number = batch.num_rows
        if number and not {"routing_key", "exchange", "mandatory"} & {*batch.schema.names}:
            yield 0, number, self._address(self._exchange, self._key, mandatory=False)
            return
        keys, key_of = texts_of(batch, "routing_key", self._key)
        exchanges, exchange_of = texts_of(batch, "exchange", self._exchange)
        mandatory = flags_of(batch, "mandatory")
        changes = np.flatnonzero((np.diff(key_of) != 0) | (np.diff(exchange_of) != 0) | np.diff(mandatory)) + 1
        for start, stop in pairwise([0, *changes.tolist(), number]):
            if start < stop:
                exchange, key = exchanges[exchange_of[start]], keys[key_of[start]]
                yield start, stop, self._address(exchange, key, mandatory=bool(mandatory[start]))

    def _address(self, exchange: str, key: str, *, mandatory: bool) -> Address:
        known = self._addresses.get((exchange, key, mandatory))
        if known is None:
            if len(self._addresses) >= MOST_ADDRESSES:
                self._addresses.clear()
            short(exchange, "exchange")
            short(key, "routing_key")
            kind = MandatoryAddress if mandatory else Address
            known = self._addresses[exchange, key, mandatory] = kind(exchange, key, CHANNEL, DEFAULT_FRAME_MAX)
        return known


def pieces(batch: pa.RecordBatch, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """Parts that have at most so many bytes, or one row."""
    half = batch.num_rows // 2
    if half and batch.nbytes > most_bytes:
        yield from pieces(batch.slice(0, half), most_bytes)
        yield from pieces(batch.slice(half), most_bytes)
    else:
        yield batch


def _run(contents: list[bytes], address: Address, traits: list[Traits] | None) -> Incoming:
    size = sum(map(len, contents))
    if traits is None:
        return Incoming([(content, address, PERSISTENT) for content in contents], True, size)
    messages = [(content, address, each) for content, each in zip(contents, traits, strict=True)]
    return Incoming(messages, False, size)


# ---- contents


def plain_contents(bodies: pa.Array) -> list[bytes]:
    joined = joined_contents(bodies)
    return [_content(PLAIN, body) for body in raw_values(bodies)] if joined is None else raw_values(joined)


def joined_contents(bodies: pa.Array) -> pa.Array | None:
    """The contents of plain rows, made by Arrow at once; None if a body does not have exactly one frame."""
    refuse_nulls(bodies, "column 'body'")
    sizes = pc.binary_length(bodies).dictionary_encode()
    known = sizes.dictionary.to_pylist()
    if not known or min(known) == 0 or max(known) > ONE_FRAME:
        return None
    heads = pa.array([_head(PLAIN, size) for size in known], pa.binary()).take(sizes.indices)
    end, nothing = pa.scalar(END_BYTE, pa.binary()), pa.scalar(b"", pa.binary())
    return pc.binary_join_element_wise(heads, bodies.cast(pa.binary()), end, nothing)


def _content(properties: bytes, body: bytes) -> bytes:
    if 0 < len(body) <= ONE_FRAME:
        return b"".join((_head(properties, len(body)), body, END_BYTE))
    return content_frames(CHANNEL, properties, body, DEFAULT_FRAME_MAX)


def with_properties(bodies: Sequence[bytes], batch: pa.RecordBatch) -> tuple[list[bytes], list[Traits]]:
    flags, before, behind, traits = encoded_properties(batch)
    has_headers = "headers" in batch.schema.names
    tables = encoded_headers(batch.column("headers")) if has_headers else [b""] * batch.num_rows
    words = {flag: flag.to_bytes(2, "big") for flag in {flag | bit for flag in set(flags) for bit in (0, FLAG_HEADERS)}}
    contents: list[bytes] = []
    for body, flag, front, table, back in zip(bodies, flags, before, tables, behind, strict=True):
        properties = b"".join((words[flag | FLAG_HEADERS if table else flag], front, table, back))
        contents.append(_content(properties, body))
    return contents, traits


def _head(properties: bytes, size: int) -> bytes:
    """All bytes before a body that fits into one frame."""
    header = CONTENT_HEADER.pack(BASIC_CLASS, 0, size) + properties
    front = ENVELOPE.pack(FRAME_HEADER, CHANNEL, len(header)) + header + END_BYTE
    return front + ENVELOPE.pack(FRAME_BODY, CHANNEL, size)


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


# ---- addresses


def texts_of(batch: pa.RecordBatch, name: str, default: str) -> tuple[list[str], npt.NDArray[np.int64]]:
    """The distinct texts of a column, and the index of each row's text. A null means the default, as does a missing
    column."""
    if name not in batch.schema.names:
        return [default], np.zeros(batch.num_rows, np.int64)
    column = batch.column(name).dictionary_encode()
    texts: list[str] = [*column.dictionary.to_pylist(), default]
    return texts, column.indices.fill_null(len(texts) - 1).to_numpy(zero_copy_only=False).astype(np.int64)


def flags_of(batch: pa.RecordBatch, name: str) -> npt.NDArray[np.bool_]:
    """The values of a boolean column; a null is false, as is a missing column."""
    if name not in batch.schema.names:
        return np.zeros(batch.num_rows, np.bool_)
    flags: npt.NDArray[np.bool_] = batch.column(name).fill_null(False).to_numpy(zero_copy_only=False)
    return flags


# ---- types


def _refuse_strange_types(schema: pa.Schema) -> None:
    for field in schema:
        if not _fits(field):
            raise BadRequest(
                f"column '{field.name}' has type {field.type!s:.200}: body is binary or string, routing_key and "
                f"exchange are string, mandatory is boolean, headers is {ACCEPTED}, properties a struct of "
                f"{', '.join(PROPERTIES)}; send no dictionaries and no views"
            )


def _fits(field: pa.Field) -> bool:
    kind = field.type
    if field.name == "body":
        return is_text(kind) or is_binary(kind)
    if field.name == "headers":
        return are_headers(kind)
    if field.name == "mandatory":
        return bool(pa.types.is_boolean(kind))
    if field.name == "properties":
        return pa.types.is_struct(kind) and are_different(kind) and all(_is_property(inner) for inner in kind)
    return is_text(kind)


def _is_property(field: pa.Field) -> bool:
    if field.name not in PROPERTIES:
        raise BadRequest(f"properties.{field.name} is unknown: choose from {', '.join(PROPERTIES)}")
    if field.name in ("delivery_mode", "priority"):
        return bool(pa.types.is_integer(field.type))
    if field.name == "timestamp":
        return bool(pa.types.is_timestamp(field.type))
    return is_text(field.type) or bool(pa.types.is_null(field.type))


def _plain(column: pa.Array) -> pa.Array:
    """The same values with 32-bit offsets; a body of text as its bytes."""
    kind = column.type
    if is_text(kind):
        return column.cast(pa.string())
    return column.cast(pa.binary()) if is_binary(kind) else column
