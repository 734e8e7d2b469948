"""Rows that come in become contents that every consumer can read, and wrong ones are refused by their name."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from leveret.http.errors import BadRequest, ContentTooLarge, HttpError
from leveret.message import PERSISTENT, Message
from leveret.pipeline.arrow_contents import PIECE_BYTES, Contents
from leveret.pipeline.arrow_frames import Framing
from leveret.wire.content import body_of, make_content, properties_of
from leveret.wire.properties import Properties
from tests.support.http_api import arrow_stream

MIB = 1 << 20
TEXTS = pa.map_(pa.string(), pa.string())
PERSISTENT_PROPERTIES = Properties(delivery_mode=2)


def runs(
    columns: dict[str, Any], *, exchange: str = "ex", key: str = "key", most: int = 1 << 20
) -> list[list[Message]]:
    schema, *batches = list(Framing().feed(arrow_stream(pa.record_batch(columns))))
    contents = Contents(schema, exchange, key, most)
    return [run.messages for batch in batches for piece in contents.slices(batch) for run in contents.runs(piece)]


def only_run(columns: dict[str, Any], **options: Any) -> list[Message]:
    (run,) = runs(columns, **options)
    return run


def test_plain_rows_are_persistent_messages_of_one_address() -> None:
    run = only_run({"body": pa.array([b"a", b"", b"ccc"])})
    assert [message[0] for message in run] == [
        make_content(PERSISTENT_PROPERTIES, body) for body in (b"a", b"", b"ccc")
    ]
    assert {(address.exchange, address.key) for _, address, _ in run} == {("ex", "key")}
    assert len({id(address) for _, address, _ in run}) == 1
    assert all(traits is PERSISTENT for _, _, traits in run)


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.string(), pa.large_string()])
def test_bodies_of_every_kind(kind: pa.DataType) -> None:
    values = ["é", "x" * 300] if "string" in str(kind) else ["é".encode(), b"x" * 300]
    assert [body_of(content) for content, _, _ in only_run({"body": pa.array(values, kind)})] == [
        "é".encode(),
        b"x" * 300,
    ]


def test_a_body_that_needs_several_frames() -> None:
    body = bytes(range(256)) * 2000
    (content, _, _), small = only_run({"body": pa.array([body, b"s"])})
    assert content == make_content(PERSISTENT_PROPERTIES, body)
    assert body_of(small[0]) == b"s"


def test_runs_end_where_the_address_changes_and_order_is_kept() -> None:
    found = runs(
        {
            "body": pa.array([b"1", b"2", b"3", b"4", b"5"]),
            "routing_key": pa.array(["a", "a", "b", None, "a"]),
            "exchange": pa.array(["x", None, "x", "x", "x"]),
        }
    )
    shown = [[(m[1].exchange, m[1].key, body_of(m[0])) for m in run] for run in found]
    assert shown == [
        [("x", "a", b"1")],
        [("ex", "a", b"2")],
        [("x", "b", b"3")],
        [("x", "key", b"4")],
        [("x", "a", b"5")],
    ]
    assert len(runs({"body": pa.array([b"1", b"2"]), "routing_key": pa.array(["a", "a"])})) == 1


def test_more_rows_than_one_step_takes() -> None:
    number = 25_000
    columns = {
        "body": pa.array([b"%d" % place for place in range(number)]),
        "headers": pa.array([[("n", str(place))] for place in range(number)], TEXTS),
    }
    found = runs(columns)
    assert [len(run) for run in found] == [1_000] * 25
    messages = [message for run in found for message in run]
    assert [body_of(content) for content, _, _ in messages] == [b"%d" % place for place in range(number)]
    assert properties_of(messages[24_999][0]).headers == {"n": "24999"}


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary(MIB)])
def test_no_more_bytes_than_one_step_takes(kind: pa.DataType) -> None:
    bodies = [bytes([place]) * MIB for place in range(15)]
    keys = [str(place) for place in range(15)]
    schema, batch = Framing().feed(arrow_stream(pa.record_batch({"body": pa.array(bodies, kind), "routing_key": keys})))
    contents = Contents(schema, "ex", "key", MIB)
    pieces = contents.slices(batch)
    assert max(piece.nbytes for piece in pieces) <= PIECE_BYTES
    messages = [message for piece in pieces for run in contents.runs(piece) for message in run.messages]
    assert [body_of(content) for content, _, _ in messages] == bodies
    assert [address.key for _, address, _ in messages] == keys


def test_a_row_is_no_larger_than_its_body_headers_and_properties_may_be() -> None:
    headers = pa.array([[("n", "v" * 2 * MIB)]], TEXTS)
    with pytest.raises(ContentTooLarge, match="headers and properties have"):
        runs({"body": pa.array([b"a"]), "headers": headers})


def test_headers_and_properties_are_those_of_the_row() -> None:
    sent = datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
    properties = [
        {"content_type": "text/plain", "priority": 4, "timestamp": sent, "message_id": "m1", "app_id": "a"},
        {"delivery_mode": 1, "expiration": "500", "reply_to": "r", "type": "t"},
        None,
        {},
    ]
    kind = pa.struct(
        [
            ("message_id", pa.string()),  # in an order of its own
            ("content_type", pa.string()),
            ("priority", pa.int64()),
            ("timestamp", pa.timestamp("ms", "Europe/Berlin")),
            ("app_id", pa.string()),
            ("delivery_mode", pa.int8()),
            ("expiration", pa.large_string()),
            ("reply_to", pa.string()),
            ("type", pa.string()),
        ]
    )
    headers = [[("a", "1"), ("b", None)], None, [], [("ä", "ö")]]
    run = only_run(
        {
            "body": pa.array([b"0", b"1", b"2", b"3"]),
            "properties": pa.array(properties, kind),
            "headers": pa.array(headers, TEXTS),
        }
    )
    assert [properties_of(content) for content, _, _ in run] == [
        Properties(
            content_type="text/plain",
            headers={"a": "1"},
            delivery_mode=2,
            priority=4,
            message_id="m1",
            timestamp=sent,
            app_id="a",
        ),
        Properties(delivery_mode=1, expiration="500", reply_to="r", type="t"),
        PERSISTENT_PROPERTIES,
        Properties(headers={"ä": "ö"}, delivery_mode=2),
    ]
    assert [(traits.persistent, traits.priority) for _, _, traits in run] == [
        (True, 4),
        (False, 0),
        (True, 0),
        (True, 0),
    ]
    assert [body_of(content) for content, _, _ in run] == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"routing_key": pa.array(["a"])}, "column 'body' is missing"),
        ({"body": pa.array([b"a"]), "colour": pa.array(["a"])}, "column 'colour' cannot be published"),
        ({"body": pa.array([1])}, "column 'body' has type int64"),
        ({"body": pa.array(["a"]).dictionary_encode()}, "send no dictionaries"),
        ({"body": pa.array(["a"], pa.string_view())}, "column 'body' has type string_view"),
        ({"body": pa.array([b"a"], pa.binary_view())}, "no views"),
        ({"body": pa.array([b"a"]), "routing_key": pa.array(["a"], pa.string_view())}, "no views"),
        ({"body": pa.array([b"a", None])}, "a null in column 'body'"),
        ({"body": pa.array([b"a"]), "routing_key": pa.array(["k" * 256])}, "routing_key 'kkk"),
        ({"body": pa.array([b"a"]), "headers": pa.array(["b"])}, "column 'headers' has type string"),
        ({"body": pa.array([b"a"]), "headers": pa.array([[("n" * 256, "v")]], TEXTS)}, "name of a header"),
        ({"body": pa.array([b"a"]), "headers": pa.array([[("n", "v" * 70_000)]], TEXTS)}, "headers of 70"),
        ({"body": pa.array([b"a"]), "properties": pa.array([{"colour": "red"}])}, "properties.colour is unknown"),
        ({"body": pa.array([b"a"]), "properties": pa.array([{"priority": 256}])}, "properties.priority '256'"),
        ({"body": pa.array([b"a"]), "properties": pa.array([{"priority": -1}])}, "properties.priority '-1'"),
        ({"body": pa.array([b"a"]), "properties": pa.array([{"priority": "1"}])}, "column 'properties' has type"),
        ({"body": pa.array([b"a"]), "properties": pa.array([{"delivery_mode": 3}])}, "delivery_mode 3 is unknown"),
        ({"body": pa.array([b"a"]), "properties": pa.array([{"type": "t" * 256}])}, "properties.type 'ttt"),
    ],
)
def test_what_cannot_be_published_is_named(columns: dict[str, Any], told: str) -> None:
    with pytest.raises(BadRequest) as refused:
        runs(columns)
    assert told in refused.value.reason


def test_a_message_that_is_too_large_is_refused() -> None:
    with pytest.raises(
        ContentTooLarge, match="message size 101 is larger than configured max size 100: raise max_message_size"
    ):
        runs({"body": pa.array([b"x" * 101])}, most=100)
    assert only_run({"body": pa.array([b"x" * 100])}, most=100)


def test_offsets_that_point_anywhere_are_refused() -> None:
    """The bytes of a batch with two bodies, with the end of the first one beyond all bytes."""
    data = arrow_stream(pa.record_batch({"body": pa.array([b"abc", b"def"])}))
    offsets = b"".join(number.to_bytes(4, "little") for number in (0, 3, 6))
    assert data.count(offsets) == 1
    evil = data.replace(offsets, b"".join(number.to_bytes(4, "little") for number in (0, 1 << 20, 6)))
    schema, batch = list(Framing().feed(evil))
    with pytest.raises(BadRequest, match="damaged"):
        Contents(schema, "", "", 1 << 20).slices(batch)


def test_any_damaged_byte_is_an_error_of_the_client_or_harmless() -> None:
    """No exception but a Problem, wherever a byte is wrong."""
    data = arrow_stream(
        pa.record_batch({"body": pa.array(["abc", "de"]), "headers": pa.array([[("a", "b")], []], TEXTS)})
    )
    refused = 0
    for place in range(len(data)):
        for bits in (0x55, 0xFF, 0x80):
            broken = bytearray(data)
            broken[place] ^= bits
            refused += is_refused(bytes(broken))
    assert refused > 150


def is_refused(data: bytes) -> bool:
    try:
        messages = list(Framing().feed(data))
        contents = Contents(messages[0], "", "k", 1 << 20) if messages else None
        for batch in messages[1:]:
            assert contents is not None
            for piece in contents.slices(batch):
                contents.runs(piece)
    except HttpError:
        return True
    return not messages
