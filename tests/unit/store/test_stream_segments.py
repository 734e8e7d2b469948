"""Where in a segment an offset or a time is found."""

from __future__ import annotations

import pytest

from leveret.store.records import Damage
from leveret.store.stream_chunk import SEGMENT_HEAD
from leveret.store.stream_segments import STRETCH, PositionIndex, StreamSegment, index_bytes, read_index
from tests.support.streams import STREAM

CHUNK = STRETCH // 4
NUMBER = 10  # messages in it


def chunks(times: list[int]) -> PositionIndex:
    """An index of chunks that came at these times."""
    index = PositionIndex()
    for n, time in enumerate(times):
        index.add(SEGMENT_HEAD.size + n * CHUNK, 100 + n * NUMBER, time)
    return index


def position(chunk: int) -> int:
    return SEGMENT_HEAD.size + chunk * CHUNK


def test_there_is_one_entry_for_every_stretch() -> None:
    index = chunks([*range(40)])
    assert len(index) == 10
    assert PositionIndex().latest < -(1 << 62)
    assert index.latest == 39


def test_an_offset_leads_to_the_stretch_that_has_it() -> None:
    index = chunks([*range(40)])
    wanted = {0: 0, 100: 0, 139: 0, 140: 4, 179: 4, 180: 8, 499: 36, 9999: 36}
    assert {offset: index.position_of(offset) for offset in wanted} == {
        offset: position(chunk) for offset, chunk in wanted.items()
    }
    assert PositionIndex().position_of(5) == SEGMENT_HEAD.size


def test_a_time_leads_to_the_first_stretch_that_reaches_it() -> None:
    """Also when the clock went back."""
    times = [5, 6, 7, 9, 8, 8, 3, 3, 9, 10, 10, 4, 20, 1, 1, 1]
    index = chunks(times)
    for time in range(22):
        first = next((n for n, came in enumerate(times) if came >= time), None)
        found = index.position_since(time)
        assert found == (None if first is None else position(first // 4 * 4))


def test_an_index_comes_back_as_it_went() -> None:
    segment, other = StreamSegment(STREAM, 100), StreamSegment(STREAM, 100)
    segment.index, segment.next, segment.size = chunks([*range(40)]), 500, 7777
    data = index_bytes(segment)
    other.size = 7777
    read_index(data, other)
    assert other.next == 500
    assert other.index.packed() == segment.index.packed()
    assert other.index.latest == 39


@pytest.mark.parametrize(("stream", "first", "size"), [(8, 100, 50), (STREAM, 101, 50), (STREAM, 100, 51)])
def test_an_index_of_another_segment_is_not_believed(stream: int, first: int, size: int) -> None:
    segment, other = StreamSegment(STREAM, 100), StreamSegment(stream, first)
    segment.size, other.size = 50, size
    with pytest.raises(Damage):
        read_index(index_bytes(segment), other)
