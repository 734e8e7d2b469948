from __future__ import annotations

import pytest

from leveret.errors import FrameError
from leveret.wire.constants import HEARTBEAT_FRAME, PROTOCOL_HEADER
from leveret.wire.frames import frame
from tests.support.frame_reader import FrameReader

TWO = frame(1, 1, b"abc") + frame(3, 2, b"")


def test_whole_frames_come_out_in_order() -> None:
    assert FrameReader().feed(TWO + HEARTBEAT_FRAME) == [(1, 1, b"abc"), (3, 2, b""), (8, 0, b"")]


def test_one_byte_at_a_time_gives_the_same_frames() -> None:
    reader = FrameReader()
    assert [out for n in range(len(TWO)) for out in reader.feed(TWO[n : n + 1])] == [(1, 1, b"abc"), (3, 2, b"")]


def test_a_partial_frame_waits_for_its_end_byte() -> None:
    reader = FrameReader()
    assert reader.feed(TWO[:-1]) == [(1, 1, b"abc")]
    assert reader.feed(b"") == []
    assert reader.feed(TWO[-1:]) == [(3, 2, b"")]


def test_a_frame_too_large_is_refused_before_its_rest_arrives() -> None:
    reader = FrameReader(limit=4096)
    with pytest.raises(FrameError, match="4097"):
        reader.feed(frame(3, 1, b"x" * 4097)[:7])


def test_a_payload_of_exactly_the_limit_passes() -> None:
    assert FrameReader(limit=4096).feed(frame(3, 1, b"x" * 4096)) == [(3, 1, b"x" * 4096)]


def test_the_limit_can_change_and_zero_is_none() -> None:
    reader = FrameReader(limit=8)
    reader.limit = 0
    assert len(reader.feed(frame(3, 1, b"x" * 200_000))) == 1


def test_an_unknown_frame_type_is_a_frame_error() -> None:
    with pytest.raises(FrameError, match="type 4"):
        FrameReader().feed(frame(4, 0, b""))


def test_a_protocol_header_where_a_frame_should_be_is_a_frame_error() -> None:
    with pytest.raises(FrameError, match="type 65"):
        FrameReader().feed(PROTOCOL_HEADER)


def test_a_wrong_end_byte_is_a_frame_error() -> None:
    with pytest.raises(FrameError, match="0xcd"):
        FrameReader().feed(TWO[:10] + b"\xcd")


def test_a_broken_reader_stays_broken() -> None:
    reader = FrameReader()
    with pytest.raises(FrameError):
        reader.feed(b"\xff" * 7)
    with pytest.raises(FrameError, match="type 255"):
        reader.feed(TWO)


def test_payloads_are_bytes_of_their_own() -> None:
    [(_, _, payload)] = FrameReader().feed(frame(3, 1, b"abc"))
    assert type(payload) is bytes


def test_a_large_frame_byte_by_byte_costs_no_copy_per_byte() -> None:
    # 512 KiB in single bytes: if each byte cost a copy of what is pending, this would move 128 GiB and not end.
    reader = FrameReader(limit=0)
    data = frame(3, 1, bytes(512 << 10))
    frames = [out for n in range(len(data)) for out in reader.feed(data[n : n + 1])]
    assert len(frames) == 1
