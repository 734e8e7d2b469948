"""Columns with one value: left out by the broker and made again by the source, whatever the messages are."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.http.errors import BadRequest
from leveret.message import PERSISTENT, Address, Message
from leveret.pipeline.arrow_batches import Rows, StreamEncoder, batch_of
from leveret.pipeline.arrow_schema import COLUMNS, END_OF_STREAM, columns_of
from leveret.spark.broker_client import ArrowSource
from leveret.spark.schema import SCHEMA
from leveret.spark.shape import Shape
from leveret.wire.content import make_content
from leveret.wire.properties import Properties

SMALL = columns_of({"omit_constants": "true"})
SHAPE = Shape(SCHEMA, headers=True)
few = st.sampled_from([None, "", "a", "text/plain", "text/plain; charset=utf-8", "x" * 70])
some_properties = st.builds(
    Properties,
    content_type=few,
    delivery_mode=st.sampled_from([None, 1, 2]),
    priority=st.sampled_from([None, 0, 4]),
    message_id=few,
    timestamp=st.sampled_from([None, datetime(2031, 5, 1, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC)]),
    app_id=few,
    headers=st.sampled_from([None, {}, {"n": 1}]),
)
some_rows = st.tuples(some_properties, st.sampled_from(["k", "key.two"]), st.sampled_from(["", "x"]), st.booleans())


def rows_of(given: list[tuple[Properties, str, str, bool]]) -> Rows:
    messages: list[Message] = [
        (make_content(properties, b"body"), Address(exchange, key, 1, 131_072), PERSISTENT)
        for properties, key, exchange, _ in given
    ]
    return Rows("q", 3, range(len(given)), [again for *_, again in given], None, messages)


def shaped(batches: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    convert = SHAPE.of("q", 3)
    return [row for batch in batches for row in convert(batch).to_pylist()]


@given(st.lists(some_rows, min_size=1, max_size=8))
def test_the_source_makes_the_same_rows_from_fewer_columns(rows: list[tuple[Properties, str, str, bool]]) -> None:
    whole, small = batch_of(rows_of(rows), COLUMNS), batch_of(rows_of(rows), SMALL)
    assert shaped([small]) == shaped([whole])


def test_what_all_rows_have_is_in_the_metadata() -> None:
    same = Properties(delivery_mode=2, content_type="application/json")
    batch = batch_of(rows_of([(same, "k", "x", False), (replace(same, message_id="1"), "k", "x", False)]), SMALL)
    assert batch.schema.names == ["body", "offset", "timestamp", "properties"]
    assert [field.name for field in batch.schema.field("properties").type] == ["message_id"]
    constants = json.loads(batch.schema.metadata[b"constants"])
    assert (constants["routing_key"], constants["exchange"], constants["redelivered"]) == ("k", "x", False)
    found = constants["properties"]
    assert (found["delivery_mode"], found["content_type"], found["priority"]) == (2, "application/json", None)


def test_a_batch_of_constants_alone_keeps_its_rows() -> None:
    columns = columns_of({"columns": "exchange", "omit_constants": "true"})
    assert batch_of(rows_of([(Properties(), "k", "x", False)] * 3), columns).num_rows == 3


def test_a_stream_ends_where_the_constants_change() -> None:
    encoder = StreamEncoder(SMALL)
    batches = [batch_of(rows_of([(Properties(), key, "x", False)]), SMALL) for key in ("a", "a", "b")]
    data = b"".join([*encoder.encoded(batches[:2]), *encoder.encoded(batches[2:]), END_OF_STREAM])
    source = ArrowSource(io.BytesIO(data))  # type: ignore[arg-type]
    read = []
    while not source.is_at_end():
        read.append(pa.ipc.open_stream(pa.PythonFile(source, mode="r")).read_all().to_batches())
    assert [len(each) for each in read] == [2, 1]
    assert [row["routing_key"] for each in read for row in shaped(each)] == ["a", "a", "b"]


def test_the_parameter_is_true_or_false() -> None:
    with pytest.raises(BadRequest, match="'omit_constants' must be true or false"):
        columns_of({"omit_constants": "yes"})
    assert not columns_of({}).omit_constants
