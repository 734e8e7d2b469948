"""What a published message is known by when it comes back."""

from __future__ import annotations

import pytest

from leveret.client.confirms import Likeness, likeness_of, place_of
from leveret.client.messages import Returned
from leveret.client.publish_frames import route_frame
from leveret.wire.frames import content_frames
from leveret.wire.properties import Properties, encode_properties

HEAD = encode_properties(Properties(message_id="id", headers={"a": [1, "x"]}))


def published(body: bytes, *, exchange: str = "shop", key: str = "gr\u00fcn", head: bytes = HEAD) -> Likeness:
    frames = route_frame(7, (exchange, key, True)) + content_frames(7, head, body, 4096)
    return likeness_of(frames, body)


def place(line: list[Likeness], body: bytes, *, key: str = "gr\u00fcn", head: bytes = HEAD) -> int | None:
    message = Returned(312, "NO_ROUTE", "shop", key, head, body)
    return place_of(message, list(enumerate(line)), lambda _: True)


@pytest.mark.parametrize("body", [b"", b"x", bytes(10_000)], ids=["empty", "short", "in several frames"])
def test_a_message_is_known_by_address_properties_and_body(body: bytes) -> None:
    strange = [
        published(body, exchange="other"),
        published(body, key="other"),
        published(body, head=b"\0\0"),
        published(body + b"?"),
        published(body),
    ]
    assert place(strange, body) == 4


def test_neither_a_message_with_another_body_nor_one_with_another_key_is_like_it() -> None:
    assert place([published(b"x"), published(b"y", key="k")], b"y") is None


def test_the_oldest_with_the_body_is_taken_if_the_broker_changed_the_properties() -> None:
    assert place([published(b"x"), published(b"y"), published(b"y")], b"y", head=b"\0\0") == 1


def test_an_exchange_and_a_key_do_not_run_into_each_other() -> None:
    assert published(b"", exchange="ab", key="c") != published(b"", exchange="a", key="bc")


def test_a_body_that_is_changed_later_is_known_as_it_was() -> None:
    body = bytearray(b"before")
    frames = route_frame(7, ("shop", "k", True)) + content_frames(7, HEAD, bytes(body), 4096)
    likeness = likeness_of(frames, body)
    body[:] = b"behind"
    assert likeness[2] == b"before"
