"""Changing single headers of a stored content, byte for byte."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.errors import FrameError
from leveret.wire.content import body_of, body_size, make_content, properties_of
from leveret.wire.content_edit import appended, long, spliced
from leveret.wire.fields import encode_long, encode_short, encode_value
from leveret.wire.frames import content_frames
from leveret.wire.properties import FLAG_EXPIRATION, FLAG_HEADERS, Properties

FULL = Properties(
    content_type="text/plain",
    content_encoding="utf-8",
    headers={"a": 1, "b": "two"},
    delivery_mode=2,
    priority=7,
    correlation_id="c",
    reply_to="r",
    expiration="60000",
    message_id="m",
    timestamp=datetime(2026, 1, 2, tzinfo=UTC),
    type="t",
    user_id="u",
    app_id="p",
    cluster_id="k",
)
names = st.text(min_size=1, max_size=20)
values = st.one_of(st.booleans(), st.integers(-(2**31), 2**31 - 1), st.text(max_size=20), st.none())
tables = st.dictionaries(names, values, max_size=5)


def raw_headers(fields: bytes, body: bytes = b"body") -> bytes:
    """A content whose headers are these raw fields."""
    return content_frames(1, FLAG_HEADERS.to_bytes(2, "big") + encode_long(fields), body, 4096)


@given(st.one_of(st.none(), tables), tables, st.sets(names, max_size=3), st.binary(max_size=40))
def test_headers_are_set_and_removed_and_all_else_stays(
    there: dict[str, object] | None, new: dict[str, object], without: set[str], body: bytes
) -> None:
    content = make_content(Properties(message_id="m", headers=there, priority=3), body)  # type: ignore[arg-type]
    found = spliced(content, {name: encode_value(value) for name, value in new.items()}, without=without)
    expected = {name: value for name, value in (there or {}).items() if name not in without} | new
    properties = properties_of(found)
    assert (properties.headers or {}) == expected
    assert (properties.message_id, properties.priority, properties.expiration) == ("m", 3, None)
    assert body_of(found) == body
    assert body_size(found) == len(body)


def test_every_property_stays_but_the_one_that_is_dropped() -> None:
    found = properties_of(spliced(make_content(FULL, b"x"), {"c": long(3)}, drops=(FLAG_EXPIRATION,)))
    assert found.expiration is None
    found.expiration, found.headers = FULL.expiration, FULL.headers
    assert found == FULL


def test_the_types_of_other_fields_stay_as_they_came() -> None:
    """A small number of 64 bits, and a short one of 16: encoding anew would make both 32 bits wide."""
    fields = encode_short("wide") + long(1) + encode_short("small") + b"s\x00\x07"
    content = raw_headers(fields)
    found = spliced(content, {"new": long(2)})
    assert found == raw_headers(fields + encode_short("new") + long(2))
    head = content[: -len(b"body") - 8]
    assert appended(head, encode_short("new") + long(2)) + content[len(head) :] == found


@given(st.one_of(st.none(), tables), st.binary(max_size=10))
def test_appending_is_splicing_where_the_name_is_new(there: dict[str, object] | None, body: bytes) -> None:
    headers = {name: value for name, value in (there or {}).items() if name != "x-new"} or None
    full = Properties(content_type="text", headers=headers, message_id="m")  # type: ignore[arg-type]
    for properties in (full, Properties(headers=headers)):  # type: ignore[arg-type]
        content = make_content(properties, body)
        head = content[: int.from_bytes(content[3:7], "big") + 8]
        made = appended(head, encode_short("x-new") + long(5)) + content[len(head) :]
        assert made == spliced(content, {"x-new": long(5)})


def test_headers_that_cannot_be_read_are_refused() -> None:
    content = raw_headers(encode_short("a") + b"S\x00\x00\x00\x99b")
    with pytest.raises(FrameError):
        spliced(content, {"b": long(1)})
    with pytest.raises(FrameError):
        appended(content[: -len(b"body") - 8], encode_short("b") + long(1))
