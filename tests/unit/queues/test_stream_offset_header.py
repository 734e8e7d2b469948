"""Offsets in the headers of what a reader gets, made from the frames as the publisher sent them."""

from __future__ import annotations

from collections import deque

import pytest

from leveret.message import PERSISTENT, Message
from leveret.queues import stream_offset_header
from leveret.queues.stream_offset_header import OffsetHeaders, with_offset
from leveret.wire.content import body_of, make_content, properties_of
from leveret.wire.content_edit import long, spliced
from leveret.wire.properties import Properties
from tests.support.spies import ADDRESS

SHAPES = [
    Properties(),
    Properties(delivery_mode=2),
    Properties(content_type="text/plain", content_encoding="gzip", delivery_mode=2, message_id="m-1"),
    Properties(headers={}),
    Properties(headers={"a": 1, "b": "x" * 300, "nested": {"c": [1, 2]}}, app_id="app"),
    Properties(content_type="t", headers={"x-stream-filter-value": "eu"}, correlation_id="x-stream-offset"),
]


def mark(messages: list[Message], offset: int, most_bytes: int = 1 << 20) -> list[Message]:
    into: deque[Message] = deque()
    OffsetHeaders().append(messages, offset, into, most_bytes)
    return list(into)


def message(properties: Properties, body: bytes, channel: int = 1) -> Message:
    return (make_content(properties, body, channel), ADDRESS, PERSISTENT)


@pytest.mark.parametrize("properties", SHAPES)
@pytest.mark.parametrize("body", [b"", b"body", b"x" * 300_000])
def test_only_the_offset_is_added(properties: Properties, body: bytes) -> None:
    content, address, traits = message(properties, body, 7)
    ((made, *rest),) = mark([(content, address, traits)], (1 << 62) + 5)
    assert made == spliced(content, {"x-stream-offset": long((1 << 62) + 5)})
    assert rest == [address, traits]
    assert body_of(made) == body


def test_offsets_follow_each_other_through_frames_of_all_kinds() -> None:
    run = [message(properties, b"%d" % number) for number, properties in enumerate(SHAPES * 3)]
    made = mark(run, 40)
    assert [body_of(content) for content, _, _ in made] == [body_of(content) for content, _, _ in run]
    told = [(properties_of(content).headers or {})["x-stream-offset"] for content, _, _ in made]
    assert told == list(range(40, 40 + len(run)))


def test_bodies_that_look_like_frames_do_not_fool_it() -> None:
    plain = message(Properties(), b"abc")
    fooling = message(Properties(), plain[0])
    made = mark([plain, fooling, plain], 0)
    assert [body_of(content) for content, _, _ in made] == [b"abc", plain[0], b"abc"]


def test_the_offset_of_another_stream_is_replaced() -> None:
    once = with_offset(message(Properties(headers={"a": 1}), b"m"), 5)
    (twice,) = mark([once], 6)
    assert properties_of(twice[0]).headers == {"a": 1, "x-stream-offset": 6}
    assert body_of(twice[0]) == b"m"


def test_it_stops_when_there_are_enough_bytes() -> None:
    run = [message(Properties(), b"x" * 1000) for _ in range(10)]
    assert len(mark(run, 0, 2500)) == 3
    assert len(mark(run, 0, 1)) == 1, "but takes at least one"


def test_what_cannot_be_read_goes_out_as_it_is() -> None:
    content = make_content(Properties(headers={"a": "b"}), b"m")
    broken = content.replace(b"\x00\x00\x00\x08\x01aS", b"\x00\x00\x01\x08\x01aS")
    assert broken != content, "the table says that it is longer than the frame"
    assert mark([(broken, ADDRESS, PERSISTENT)], 3) == [(broken, ADDRESS, PERSISTENT)]
    lying = bytearray(make_content(Properties(), b"m"))
    lying[19:21] = b"\x80\x00"  # says that there is a content type
    assert mark([(bytes(lying), ADDRESS, PERSISTENT)], 3) == [(bytes(lying), ADDRESS, PERSISTENT)]


def test_frames_are_made_once_and_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    usual = stream_offset_header.opened
    monkeypatch.setattr(stream_offset_header, "opened", lambda head, room: made.append(head) or usual(head, room))
    headers, into = OffsetHeaders(), deque[Message]()
    same = [message(Properties(delivery_mode=2), b"%03d" % number) for number in range(100)]
    for start in (0, 100):
        headers.append(same, start, into, 1 << 20)
    assert len(made) == 1
    for number in range(1000):
        headers.append([message(Properties(message_id=str(number)), b"m")], number, into, 1 << 20)
    assert len(headers._known) <= stream_offset_header.MOST_KNOWN
