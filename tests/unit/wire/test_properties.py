from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime

import pytest

from leveret.errors import FrameError
from leveret.wire import properties as p
from leveret.wire.properties import Properties, decode_properties, encode_properties

FULL = Properties(
    content_type="text/plain",
    content_encoding="gzip",
    headers={"a": 1},
    delivery_mode=2,
    priority=9,
    correlation_id="c",
    reply_to="r",
    expiration="60000",
    message_id="m",
    timestamp=datetime(2024, 1, 1, tzinfo=UTC),
    type="t",
    user_id="guest",
    app_id="app",
    cluster_id="cluster",
)


def test_no_properties_are_two_zero_bytes() -> None:
    assert encode_properties(Properties()) == b"\x00\x00"
    assert decode_properties(b"\x00\x00", 0, 2) == Properties()


def test_all_fourteen_come_back() -> None:
    wire = encode_properties(FULL)
    assert wire[:2] == b"\xff\xfc"
    assert decode_properties(b"??" + wire, 2, len(wire) + 2) == FULL


@pytest.mark.parametrize("name", [field.name for field in fields(Properties)])
def test_each_property_sets_its_own_flag(name: str) -> None:
    wire = encode_properties(Properties(**{name: getattr(FULL, name)}))
    assert int.from_bytes(wire[:2], "big") == getattr(p, f"FLAG_{name.upper()}")


def test_empty_and_zero_are_present_and_not_absent() -> None:
    empty = Properties(content_type="", headers={}, delivery_mode=0, priority=0)
    wire = encode_properties(empty)
    assert decode_properties(wire, 0, len(wire)) == empty


@pytest.mark.parametrize("flags", [b"\x00\x01", b"\x00\x02"])
def test_a_flag_nobody_knows_is_a_frame_error(flags: bytes) -> None:
    with pytest.raises(FrameError, match="flags"):
        decode_properties(flags + b"\x00\x00", 0, 4)


@pytest.mark.parametrize("wire", [b"", b"\x00", b"\x10\x00", b"\x80\x00\x05ab", b"\x00\x00\x00"])
def test_too_few_and_too_many_bytes_are_frame_errors(wire: bytes) -> None:
    with pytest.raises(FrameError):
        decode_properties(wire, 0, len(wire))


def test_a_timestamp_beyond_year_9999_is_passed_on_as_it_came() -> None:
    wire = b"\x00\x40" + (1_700_000_000_000).to_bytes(8, "big")
    properties = decode_properties(wire, 0, len(wire))
    assert properties.timestamp == 1_700_000_000_000
    assert encode_properties(properties) == wire


def test_a_priority_that_is_no_octet_is_a_frame_error() -> None:
    with pytest.raises(FrameError):
        encode_properties(Properties(priority=256))
