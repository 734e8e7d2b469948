"""Columns of messages: what the frames of each say, for all of them at once."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.message import PERSISTENT, Address, Message
from leveret.pipeline.arrow_batches import Rows, batch_of
from leveret.pipeline.arrow_properties import text_of_value
from leveret.pipeline.arrow_schema import COLUMNS, PROPERTIES, chosen_columns
from leveret.wire.content import make_content
from leveret.wire.fields import NUMBERS, FarTime, decode_value
from leveret.wire.frames import content_frames
from leveret.wire.properties import Properties

ADDRESS = Address("ex", "key", 1, 131072)
WHEN = datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)


def rows_of(contents: list[bytes], columns: tuple[str, ...] = COLUMNS) -> list[dict[str, Any]]:
    messages: list[Message] = [(content, ADDRESS, PERSISTENT) for content in contents]
    number = len(messages)
    batch = batch_of(Rows("q", 3, range(number), [False] * number, None, messages), columns)
    batch.validate(full=True)
    found: list[dict[str, Any]] = batch.to_pylist()
    return found


def test_no_rows_make_an_empty_batch() -> None:
    assert rows_of([]) == []


def test_bodies_in_one_frame_in_many_and_in_none() -> None:
    bodies = [b"a", b"", bytes(range(256)) * 40, b"z"]
    one_frame = [make_content(Properties(), body) for body in bodies]
    many = [make_content(Properties(), body, frame_max=100) for body in bodies]
    for contents in (one_frame[::3], one_frame, many, one_frame + many):
        expected = [bodies[0], bodies[3]] if len(contents) == 2 else bodies * (len(contents) // 4)
        assert [row["body"] for row in rows_of(contents, ("body",))] == expected


def test_what_the_queue_knows() -> None:
    other = Address("ä", "ö.ü", 1, 131072)
    content = make_content(Properties(), b"x")
    messages: list[Message] = [(content, ADDRESS, PERSISTENT), (content, other, PERSISTENT)] * 2
    rows = Rows("q", 9, [4, 8, 15, 16], [True, False, False, True], [1, None, 3, 4_000_000], messages)
    found = batch_of(rows, COLUMNS[1:8]).to_pylist()
    assert [tuple(row.values())[:5] for row in found] == [
        ("key", "ex", "q", 9, 4),
        ("ö.ü", "ä", "q", 9, 8),
        ("key", "ex", "q", 9, 15),
        ("ö.ü", "ä", "q", 9, 16),
    ]
    assert [row["redelivered"] for row in found] == [True, False, False, True]
    assert [row["timestamp"] and row["timestamp"].timestamp() for row in found] == [0.000001, None, 0.000003, 4.0]


SHORT = st.text(max_size=20).filter(lambda text: len(text.encode()) < 256)
VALUES = st.one_of(
    st.text(max_size=30),
    st.integers(-(1 << 40), 1 << 40),
    st.booleans(),
    st.none(),
    st.lists(st.integers(0, 9), max_size=2),
)
PROPERTY_SETS = st.builds(
    Properties,
    content_type=st.none() | SHORT,
    content_encoding=st.none() | SHORT,
    headers=st.none() | st.dictionaries(SHORT, VALUES, max_size=4) | st.dictionaries(SHORT, st.text(max_size=9)),
    delivery_mode=st.none() | st.integers(1, 2),
    priority=st.none() | st.integers(0, 255),
    correlation_id=st.none() | SHORT,
    reply_to=st.none() | SHORT,
    expiration=st.none() | SHORT,
    message_id=st.none() | SHORT,
    timestamp=st.none() | st.just(WHEN),
    type=st.none() | SHORT,
    user_id=st.none() | SHORT,
    app_id=st.none() | SHORT,
    cluster_id=st.none() | SHORT,
)


@given(st.lists(st.tuples(PROPERTY_SETS, st.binary(max_size=30)), max_size=8))
def test_every_combination_of_properties(sent: list[tuple[Properties, bytes]]) -> None:
    found = rows_of([make_content(properties, body) for properties, body in sent])
    assert [row["body"] for row in found] == [body for _, body in sent]
    for row, (properties, _) in zip(found, sent, strict=True):
        assert row["properties"] == {name: getattr(properties, name) for name in PROPERTIES}
        assert dict(row["headers"]) == {
            name: text_of_value(value) for name, value in (properties.headers or {}).items()
        }


@pytest.mark.parametrize("letter", "bBsuIilLt")
def test_whole_numbers_and_truths_of_every_width(letter: str) -> None:
    width = 1 if letter == "t" else NUMBERS[ord(letter)].size
    lowest, highest, other = b"\x80" + bytes(width - 1), b"\xff" * width, bytes(width - 1) + b"\x07"
    for raw in (lowest, highest, other, bytes(width)):
        table = b"\x01a" + b"S\x00\x00\x00\x01x" + b"\x01n" + letter.encode() + raw
        content = content_frames(1, b"\x20\x00" + len(table).to_bytes(4, "big") + table, b"", 0)
        value, _ = decode_value(letter.encode() + raw, 0, width + 1)
        assert rows_of([content, content])[1]["headers"] == [("a", "x"), ("n", text_of_value(value))]


def test_times_beyond_the_calendar_are_no_times() -> None:
    far = make_content(Properties(timestamp=FarTime(1 << 60), app_id="a"), b"")
    near = make_content(Properties(timestamp=WHEN), b"")
    assert [row["properties"]["timestamp"] for row in rows_of([far, near, far])] == [None, WHEN, None]
    assert rows_of([far])[0]["properties"]["app_id"] == "a"


def test_text_that_is_no_utf8_is_shown_and_harms_no_other() -> None:
    good = make_content(Properties(app_id="fine", headers={"n": "v"}), b"")
    short = content_frames(1, b"\x00\x08\x03a\xffb", b"", 0)
    table = b"\x01n" + b"S" + (3).to_bytes(4, "big") + b"a\xffb"
    headers = content_frames(1, b"\x20\x00" + len(table).to_bytes(4, "big") + table, b"", 0)
    found = rows_of([good, short, headers])
    assert [row["properties"]["app_id"] for row in found] == ["fine", "a\\xffb", None]
    assert [row["headers"] for row in found] == [[("n", "v")], [], [("n", "a\\xffb")]]


@pytest.mark.parametrize(
    "properties",
    [
        b"",  # no room for the flags
        b"\x80\x00",  # a content type that is not there
        b"\x80\x00\xff",  # or goes far beyond
        b"\x20\x00\xff\xff\xff\xff",
        b"\x20\x00\x00\x00\x00\x05\x01nS\x00\x00",  # a table that ends in a value
        b"\x00\x01\x00\x00",  # a second word of flags
        b"\x10\x00\x02tail",
    ],
)
def test_nonsense_for_properties_is_none_and_harms_no_other(properties: bytes) -> None:
    good = make_content(Properties(app_id="fine", headers={"n": "v"}), b"body")
    found = rows_of([good, content_frames(1, properties, b"x", 0), good])
    for row in (found[0], found[2]):
        assert (row["body"], row["headers"], row["properties"]["app_id"]) == (b"body", [("n", "v")], "fine")
    assert found[1]["body"] == b"x"
    assert found[1]["headers"] == []
    assert set(found[1]["properties"].values()) == {None}
    assert rows_of([content_frames(1, properties, b"x", 0)])[0]["headers"] == []


def test_many_headers_and_odd_ones_keep_their_order() -> None:
    many = {f"h{place}": str(place) for place in range(100)}
    odd = {"a": "1", "b": 2, "c": "3"}
    contents = [make_content(Properties(headers=headers), b"") for headers in (odd, many, {}, odd, {"z": "z"})]
    found = [row["headers"] for row in rows_of(contents, ("headers",))]
    assert found == [
        [("a", "1"), ("b", "2"), ("c", "3")],
        list(many.items()),
        [],
        [("a", "1"), ("b", "2"), ("c", "3")],
        [("z", "z")],
    ]


def test_columns_are_chosen_in_the_order_of_the_schema() -> None:
    assert chosen_columns("offset, body") == ("body", "offset")
    assert chosen_columns(None) == COLUMNS
