from __future__ import annotations

import pytest

from leveret.errors import FrameError
from leveret.wire.content import body_of, body_size, make_content, properties_of, refit, with_properties
from leveret.wire.properties import Properties
from tests.support.frame_reader import FrameReader

PERSISTENT = Properties(delivery_mode=2, headers={"a": 1})


def frames_of(content: bytes) -> list[tuple[int, int, bytes]]:
    return FrameReader(0).feed(content)


@pytest.mark.parametrize("size", [0, 1, 4088, 4089, 20_000])
def test_content_gives_back_what_it_was_made_of(size: int) -> None:
    content = make_content(PERSISTENT, b"x" * size, channel=5, frame_max=4096)
    assert properties_of(content) == PERSISTENT
    assert body_of(content) == b"x" * size
    assert body_size(content) == size
    assert {channel for _, channel, _ in frames_of(content)} == {5}


@pytest.mark.parametrize("size", [0, 1, 4088, 20_000])
def test_refit_changes_the_channel_of_every_frame_and_nothing_else(size: int) -> None:
    content = make_content(PERSISTENT, b"x" * size, channel=1, frame_max=4096)
    refitted = refit(content, 0x1234, 4096)
    assert [(kind, 0x1234, payload) for kind, _, payload in frames_of(content)] == frames_of(refitted)


def test_refit_to_the_same_channel_is_the_same_object() -> None:
    content = make_content(PERSISTENT, b"x", channel=1)
    assert refit(content, 1, 131072) is content


@pytest.mark.parametrize("publisher_frame_max", [131072, 10_000])
def test_frames_too_large_for_the_consumer_are_split_anew(publisher_frame_max: int) -> None:
    body = bytes(range(256)) * 80
    refitted = refit(make_content(PERSISTENT, body, 1, publisher_frame_max), 2, 4096)
    assert max(len(payload) for _, _, payload in frames_of(refitted)) == 4088
    assert {channel for _, channel, _ in frames_of(refitted)} == {2}
    assert (properties_of(refitted), body_of(refitted)) == (PERSISTENT, body)


def test_a_single_body_frame_of_exactly_frame_max_is_not_split() -> None:
    content = make_content(PERSISTENT, b"x" * 4088, 1, 4096)
    assert len(frames_of(refit(content, 2, 4096))) == 2
    assert len(frames_of(refit(content, 2, 4095))) == 3


def test_an_unlimited_consumer_gets_frames_as_they_came() -> None:
    content = make_content(PERSISTENT, b"x" * 20_000, 1, 4096)
    assert len(frames_of(refit(content, 2, 0))) == len(frames_of(content)) == 6
    one = make_content(PERSISTENT, b"x" * 20_000, 1, 0)
    assert len(frames_of(refit(one, 2, 0))) == 2


def test_refit_leaves_the_stored_bytes_alone() -> None:
    content = make_content(PERSISTENT, b"x" * 9000, 1, 4096)
    before = bytes(bytearray(content))
    refit(content, 9, 4096)
    refit(content, 9, 5000)
    assert content == before


def test_new_properties_keep_body_frames_and_channel() -> None:
    content = make_content(PERSISTENT, b"x" * 9000, 7, 4096)
    changed = with_properties(content, Properties(type="new"))
    assert frames_of(changed)[1:] == frames_of(content)[1:]
    assert frames_of(changed)[0][:2] == (2, 7)
    assert (properties_of(changed), body_size(changed)) == (Properties(type="new"), 9000)


def test_broken_properties_are_found_when_they_are_read() -> None:
    content = make_content(Properties(), b"x")
    broken = content[:19] + b"\x00\x01" + content[21:]
    with pytest.raises(FrameError):
        properties_of(broken)
