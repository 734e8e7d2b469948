from __future__ import annotations

import pytest

from leveret.errors import FrameError, Unsupported
from leveret.wire.constants import END_BYTE, FRAME_END, FRAME_HEARTBEAT, HEARTBEAT_FRAME
from leveret.wire.frames import content_frames, decode_header, decode_method, frame, method_frame
from leveret.wire.methods import BasicAck, ChannelOpen
from tests.support.frame_reader import FrameReader


def test_a_frame_is_kind_channel_size_payload_and_end() -> None:
    assert frame(1, 258, b"ab") == b"\x01\x01\x02\x00\x00\x00\x02ab\xce"


def test_the_heartbeat_is_an_empty_frame_on_channel_zero() -> None:
    assert frame(FRAME_HEARTBEAT, 0, b"") == HEARTBEAT_FRAME
    assert bytes([FRAME_END]) == END_BYTE


def test_a_method_frame_holds_ids_and_arguments() -> None:
    assert method_frame(1, ChannelOpen()) == b"\x01\x00\x01\x00\x00\x00\x05\x00\x14\x00\x0a\x00\xce"


def test_a_method_comes_back_from_its_payload() -> None:
    ack = BasicAck(delivery_tag=7, multiple=True)
    assert decode_method(ack.encode()) == ack


@pytest.mark.parametrize("payload", [b"", b"\x00\x0a\x00"])
def test_a_payload_without_a_method_is_a_frame_error(payload: bytes) -> None:
    with pytest.raises(FrameError):
        decode_method(payload)


@pytest.mark.parametrize(("payload", "ids"), [(b"\x00\x63\x00\x01", (99, 1)), (b"\x00\x3c\x00\x63", (60, 99))])
def test_an_unknown_method_is_not_implemented_and_named(payload: bytes, ids: tuple[int, int]) -> None:
    with pytest.raises(Unsupported, match=f"{ids[1]} of class {ids[0]}") as caught:
        decode_method(payload)
    assert caught.value.method == ids


def test_an_empty_body_has_no_body_frame() -> None:
    content = content_frames(1, b"\x00\x00", b"", 4096)
    assert content == frame(2, 1, b"\x00\x3c\x00\x00" + bytes(8) + b"\x00\x00")


@pytest.mark.parametrize(
    ("size", "frame_max", "sizes"),
    [
        (10, 0, [10]),
        (4088, 4096, [4088]),
        (4089, 4096, [4088, 1]),
        (8176, 4096, [4088, 4088]),
        (3, 8, [1, 1, 1]),  # absurd, but it ends
    ],
)
def test_a_body_is_split_so_that_whole_frames_fit(size: int, frame_max: int, sizes: list[int]) -> None:
    content = content_frames(3, b"\x00\x00", b"x" * size, frame_max)
    header, *bodies = FrameReader(0).feed(content)
    assert header[:2] == (2, 3)
    assert decode_header(header[2]) == (60, size)
    assert [len(payload) for _, _, payload in bodies] == sizes
    assert all(body[:2] == (3, 3) for body in bodies)


def test_a_short_content_header_is_a_frame_error() -> None:
    with pytest.raises(FrameError):
        decode_header(b"\x00\x3c" + bytes(9))
