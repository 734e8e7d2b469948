"""A message that was made for one broker is sent to another, which takes smaller frames."""

from __future__ import annotations

import pytest

from leveret.client.publish_frames import refitted, route_frame
from leveret.wire.frames import ENVELOPE, content_frames
from leveret.wire.properties import Properties, encode_properties

HEAD = encode_properties(Properties(message_id="id"))


@pytest.mark.parametrize("size", [0, 1, 4087, 4088, 4089, 100_000, 131_064])
def test_the_frames_are_those_that_the_other_broker_would_have_got(size: int) -> None:
    body = bytes(range(251)) * (size // 251 + 1)
    begin = route_frame(3, ("exchange", "key", True))
    made = begin + content_frames(3, HEAD, body[:size], 131_072)
    assert refitted(made, 4096) == begin + content_frames(3, HEAD, body[:size], 4096)


def test_what_fits_stays_as_it_is() -> None:
    made = route_frame(3, ("", "q", False)) + content_frames(3, HEAD, b"x" * 9_000, 4096)
    assert refitted(made, 4096) == made
    assert refitted(made, 0) is made


def test_bodies_of_several_frames_are_split_within_each() -> None:
    made, body, start = refitted(content_frames(3, HEAD, bytes(300_000), 131_072), 4096), 0, 0
    while start < len(made):
        kind, channel, size = ENVELOPE.unpack_from(made, start)
        assert channel == 3
        assert size <= 4088
        assert made[start + 7 + size] == 0xCE
        body += size if kind == 3 else 0
        start += size + 8
    assert body == 300_000
