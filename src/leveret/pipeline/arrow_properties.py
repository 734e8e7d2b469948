"""Properties and headers of many messages at once.

All rows are read in step, property by property in wire order: a property that is present advances its row by its
length. So each property of all rows is a list of positions, whatever other properties the rows have. Headers are read
the same way, the first header of all rows, then the second, as long as they are strings, whole numbers or booleans.
Rows with other headers are decoded one by one; decoded tables are cached by their bytes.

Properties have not been validated yet: no position beyond the slab is read, and a row whose properties do not end where
its frame ends has none.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from leveret.errors import FrameError
from leveret.pipeline.arrow_columns import (
    HEADERS,
    PROPERTIES_TYPE,
    PROPERTY_TYPES,
    TIME,
    Places,
    Slab,
    cut,
    numbers,
    spread,
    texts,
)
from leveret.wire.content import PAYLOAD, PROPERTIES_AT, SIZE_AT
from leveret.wire.fields import LAST_SECOND, NUMBERS, decode_table
from leveret.wire.properties import LAYOUT, UNKNOWN_FLAGS

MOST_IN_STEP = 64  # headers of one message that are read in step with other rows
LONG_STRING = ord("S")
TRUTH = ord("t")
# pyarrow and Python format these numbers in the same way.
WHOLE_NUMBERS = {
    letter: np.dtype(f"{'i' if number.format.islower() else 'u'}{number.size}")
    for letter, number in NUMBERS.items()
    if number.format[-1] in "bBhHiIlLqQ"
}
WIDTHS = np.zeros(256, np.int64)
WIDTHS[[TRUTH, *WHOLE_NUMBERS]] = [1, *(number.itemsize for number in WHOLE_NUMBERS.values())]
FIXED = {"delivery_mode": 1, "priority": 1, "timestamp": 8}


class Span(NamedTuple):
    """One property: the rows that have it, and the start and length of its value."""

    rows: Places
    starts: Places
    lengths: Places


def spans_of(slab: Slab) -> dict[str, Span]:
    ends = slab.starts + PAYLOAD + slab.u32[slab.starts + SIZE_AT]
    flags = slab.u16[slab.starts + PROPERTIES_AT]
    at = slab.starts + PROPERTIES_AT + 2
    found: dict[str, Span] = {}
    for flag, name, _, _ in LAYOUT:
        rows = np.flatnonzero(flags & flag)
        if len(rows) == 0:
            continue
        here = at[rows]
        starts, lengths = _value(slab, name, here)
        found[name] = Span(rows, starts, lengths)
        at[rows] = starts + lengths
    sound = (at == ends) & (flags & UNKNOWN_FLAGS == 0)
    if not sound.all():
        found = {name: _only(span, sound) for name, span in found.items()}
    return found


def _value(slab: Slab, name: str, at: Places) -> tuple[Places, Places]:
    if name in FIXED:
        return at, np.full(len(at), FIXED[name], np.int64)
    if name == "headers":
        return at + 4, slab.u32[_within(slab, at, 4)].astype(np.int64)
    return at + 1, slab.u8[_within(slab, at, 1)].astype(np.int64)


def _within(slab: Slab, at: Places, width: int) -> Places:
    return np.minimum(at, len(slab.data) - width)


def _only(span: Span, sound: np.ndarray) -> Span:
    keep = sound[span.rows]
    return Span(span.rows[keep], span.starts[keep], span.lengths[keep])


# ---- properties


def properties_column(slab: Slab, spans: Mapping[str, Span], without: Collection[str] = ()) -> pa.Array:
    fields = [field for field in PROPERTIES_TYPE if field.name not in without]
    columns = [_property(slab, field.name, spans.get(field.name)) for field in fields]
    return pa.StructArray.from_arrays(columns, fields=fields)


def _property(slab: Slab, name: str, span: Span | None) -> pa.Array:
    if span is None or len(span.rows) == 0:
        return pa.nulls(len(slab), PROPERTY_TYPES.get(name, pa.string()))
    rows = span.rows
    if name == "timestamp":
        seconds = slab.u64[span.starts]
        near = seconds <= LAST_SECOND  # later ones are beyond the range of dates
        rows = rows[near]
        values = numbers(seconds[near].astype(np.int64) * 1_000_000, TIME)
    elif name in FIXED:
        values = pa.array(slab.u8[span.starts].astype(np.int32))
    else:
        values = texts(cut(slab, span.starts, span.starts + span.lengths))
    return spread(values, rows, len(slab))


# ---- headers


class Entries(NamedTuple):
    """Names and values of headers, each with its row."""

    rows: Places
    names: pa.Array
    values: pa.Array


class Step(NamedTuple):
    """One header of each of some rows: the rows of the span, its kind, and the positions of name and value."""

    which: Places
    kinds: Places
    names: Places
    name_stops: Places
    values: Places
    value_stops: Places


def headers_column(slab: Slab, spans: Mapping[str, Span]) -> pa.Array:
    """Rows without headers have an empty map."""
    span = spans.get("headers")
    if span is None:
        offsets = np.zeros(len(slab) + 1, np.int32)
        return _map(offsets, pa.array([], pa.string()), pa.array([], pa.string()))
    quick, slow = _walked(slab, span)
    entries = quick if not len(slow.rows) else _joined(quick, _decoded(slab, slow))
    offsets = np.zeros(len(slab) + 1, np.int32)
    np.cumsum(np.bincount(entries.rows, minlength=len(slab)), out=offsets[1:])
    return _map(offsets, entries.names, entries.values)


def _map(offsets: np.ndarray, names: pa.Array, values: pa.Array) -> pa.Array:
    return pa.MapArray.from_arrays(pa.array(offsets), names, values).cast(HEADERS)


def _walked(slab: Slab, span: Span) -> tuple[Entries, Span]:
    """The headers of all rows whose headers can be read in step, and the span of the other rows."""
    at, stops = span.starts.copy(), span.starts + span.lengths
    slow = np.zeros(len(at), np.bool_)
    active = np.flatnonzero(at < stops)
    steps = [Step(*[active[:0]] * 6)]
    while len(active):
        here = at[active]
        behind_names = here + 1 + slab.u8[here]
        kinds = slab.u8[_within(slab, behind_names, 1)]
        is_text, widths = kinds == LONG_STRING, WIDTHS[kinds]
        values = behind_names + np.where(is_text, 5, 1)
        next_ones = values + np.where(is_text, slab.u32[_within(slab, behind_names + 1, 4)], widths)
        good = (is_text | (widths > 0)) & (next_ones <= stops[active])
        if len(steps) > MOST_IN_STEP:
            good[:] = False
        slow[active[~good]] = True
        step = Step(active[good], kinds[good], here[good] + 1, behind_names[good], values[good], next_ones[good])
        steps.append(step)
        at[step.which] = step.value_stops
        active = step.which[step.value_stops < stops[step.which]]
    every = Step(*(np.concatenate(parts) for parts in zip(*steps, strict=True)))
    order = np.argsort(every.names)  # positions sort by row, and within a row by the order of its headers
    order = order[~slow[every.which[order]]]
    entries = Entries(
        span.rows[every.which[order]],
        texts(cut(slab, every.names[order], every.name_stops[order])),
        _value_texts(slab, every.kinds[order], every.values[order], every.value_stops[order]),
    )
    return entries, Span(span.rows[slow], span.starts[slow], span.lengths[slow])


def _value_texts(slab: Slab, kinds: Places, starts: Places, stops: Places) -> pa.Array:
    """Converts all values of a kind at once, then restores their order."""
    present = np.unique(kinds).tolist()
    if present in ([], [LONG_STRING]):
        return texts(cut(slab, starts, stops))
    places = [np.flatnonzero(kinds == kind) for kind in present]
    parts = [
        texts(cut(slab, starts[rows], stops[rows])) if kind == LONG_STRING else _number_texts(slab, kind, starts[rows])
        for kind, rows in zip(present, places, strict=True)
    ]
    order = np.empty(len(kinds), np.int64)
    order[np.concatenate(places)] = np.arange(len(kinds))
    return pa.concat_arrays(parts).take(pa.array(order))


def _number_texts(slab: Slab, kind: int, starts: Places) -> pa.Array:
    if kind == TRUTH:
        return pa.array(slab.u8[starts] != 0).cast(pa.string())
    number = WHOLE_NUMBERS[kind]
    views: dict[int, np.ndarray] = {1: slab.u8, 2: slab.u16, 4: slab.u32, 8: slab.u64}
    values = views[number.itemsize][starts].astype(f"u{number.itemsize}").view(number)
    return pa.array(values).cast(pa.string())


def _decoded(slab: Slab, span: Span) -> Entries:
    """The headers of rows that are decoded one by one."""
    known: dict[bytes, dict[str, str | None]] = {}
    rows: list[int] = []
    names: list[str] = []
    values: list[str | None] = []
    spots = zip(span.rows.tolist(), span.starts.tolist(), span.lengths.tolist(), strict=True)
    for row, start, length in spots:
        raw = slab.data[start - 4 : start + length]
        table = known.get(raw)
        if table is None:
            table = known[raw] = _table_texts(raw)
        rows += [row] * len(table)
        names += table.keys()
        values += table.values()
    return Entries(np.array(rows, np.int64), pa.array(names, pa.string()), pa.array(values, pa.string()))


def _joined(quick: Entries, slow: Entries) -> Entries:
    rows = np.concatenate((quick.rows, slow.rows))
    order = np.argsort(rows, kind="stable")
    places = pa.array(order)
    names = pa.concat_arrays([quick.names, slow.names]).take(places)
    return Entries(rows[order], names, pa.concat_arrays([quick.values, slow.values]).take(places))


def _table_texts(raw: bytes) -> dict[str, str | None]:
    try:
        table, _ = decode_table(raw, 0, len(raw))
    except FrameError:
        return {}
    return {name: text_of_value(value) for name, value in table.items()}


def text_of_value(value: object) -> str | None:
    """A header's value as text; tables and arrays as JSON."""
    if value is None or isinstance(value, str):
        return value
    plain = _plain(value)
    return plain if isinstance(plain, str) else json.dumps(plain, default=_plain, ensure_ascii=False)


def _plain(value: object) -> object:
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "backslashreplace")
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value) if isinstance(value, Decimal) else value
