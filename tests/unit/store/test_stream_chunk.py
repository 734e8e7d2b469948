"""The bytes of a stream's chunks, and their columns."""

from __future__ import annotations

from array import array
from random import Random

import pytest

from leveret.message import PERSISTENT
from leveret.store.records import Damage
from leveret.store.stream_chunk import (
    HEAD_SIZE,
    MOST_BYTES,
    MOST_MESSAGES,
    SEGMENT_HEAD,
    StreamChunk,
    StreamRun,
    drafts,
    read_chunk,
    read_head,
    read_segment_head,
    segment_head,
)
from tests.support.streams import START, STREAM, random_runs, run, seen_in, seen_in_chunk

AT = 4711  # where chunks begin in these tests


def chunk_bytes(runs: list[StreamRun], reached: int = 0) -> list[bytes]:
    return [b"".join(draft.sealed(STREAM, 0, AT, 40)) for draft in drafts(runs, reached)]


def parsed(data: bytes, *, stream: int = STREAM, segment: int = 0, at: int = AT) -> StreamChunk:
    head = read_head(data, 0, stream, segment, at)
    return read_chunk(data, head, stream, segment, at)


def chunks_of(runs: list[StreamRun], reached: int = 0) -> list[StreamChunk]:
    return [parsed(data) for data in chunk_bytes(runs, reached)]


def test_messages_come_back_as_they_went() -> None:
    runs = random_runs(Random(1), 100, 50)
    (chunk,) = chunks_of(runs)
    assert seen_in(chunk.runs({})) == seen_in(runs)
    assert seen_in_chunk(chunk) == seen_in(runs)
    assert (chunk.first, chunk.next) == (100, seen_in(runs)[-1].offset + 1)


def test_messages_of_one_address_share_it() -> None:
    (chunk,) = chunks_of([run(0, b"a", key="k"), run(1, b"b", key="l"), run(2, b"c", b"d", key="k", time=START + 1)])
    known = {}
    messages = [message for each in chunk.runs(known) for message in each.messages]
    assert messages[0][1] is messages[2][1] is messages[3][1] is known["ex", "k"]
    assert messages[1][1] is known["ex", "l"]
    assert all(message[2] is PERSISTENT for message in messages)
    assert chunk.runs(known)[0].messages[0][1] is known["ex", "k"]


def test_neighbours_of_one_address_and_time_are_one_run() -> None:
    (chunk,) = chunks_of([run(0, b"a"), run(1, b"b", b"c"), run(3, b"d", time=START + 1), run(4, b"e", key="other")])
    assert list(chunk.counts) == [3, 1, 1]
    assert list(chunk.times) == [START, START + 1, START]


def test_messages_of_several_addresses_may_come_in_one_run() -> None:
    several = run(0, b"a", b"b"), run(2, b"c", key="k"), run(3, b"d", b"e")
    mixed = StreamRun(0, START, [message for each in several for message in each.messages])
    (chunk,) = chunks_of([mixed])
    assert seen_in_chunk(chunk) == seen_in(chunk.runs({})) == seen_in(several)
    assert list(chunk.counts) == [2, 1, 2]
    assert len(chunk.addresses) == 2


def test_what_lies_below_is_left_out() -> None:
    """After a crash the journal hands again what the files may have: wholly, in part, or not at all."""
    runs = [run(0, b"a", b"b"), run(2, b"c", b"d", b"e"), run(5, b"f")]
    for reached in range(7):
        found = [seen for chunk in chunks_of(runs, reached) for seen in seen_in_chunk(chunk)]
        assert found == seen_in(runs)[reached:]


def test_a_chunk_ends_where_offsets_are_missing() -> None:
    chunks = chunks_of([run(0, b"a"), run(1, b"b"), run(5, b"c")])
    assert [(chunk.first, chunk.number) for chunk in chunks] == [(0, 2), (5, 1)]


def test_a_chunk_has_so_many_messages_and_no_more() -> None:
    runs = [run(0, *[b"x"] * (MOST_MESSAGES - 1)), run(MOST_MESSAGES - 1, b"y", b"z")]
    chunks = chunks_of(runs)
    assert [chunk.number for chunk in chunks] == [MOST_MESSAGES - 1, 2]
    (one,) = chunks_of([run(0, *[b"x"] * MOST_MESSAGES)])
    assert one.number == MOST_MESSAGES
    many = run(3, *[b"%d" % n for n in range(2 * MOST_MESSAGES + 1)])
    assert [chunk.number for chunk in chunks_of([many])] == [MOST_MESSAGES, MOST_MESSAGES, 1]
    assert [seen for chunk in chunks_of([many]) for seen in seen_in_chunk(chunk)] == seen_in([many])


def test_a_chunk_has_so_many_bytes_unless_it_is_one_message() -> None:
    third = bytes(MOST_BYTES // 3)
    runs = [run(0, third, third), run(2, third, third, key="k"), run(4, bytes(MOST_BYTES + 1)), run(5, b"")]
    chunks = chunks_of(runs)
    assert [chunk.number for chunk in chunks] == [3, 1, 1, 1]
    assert [seen for chunk in chunks for seen in seen_in_chunk(chunk)] == seen_in(runs)


@pytest.mark.parametrize("seed", range(3))
def test_a_part_of_a_chunk_is_the_same_messages(seed: int) -> None:
    runs = random_runs(Random(seed), 10, 8)
    truth = seen_in(runs)
    (chunk,) = chunks_of(runs)
    for start in range(5, chunk.next):
        for stop in range(max(start, 10) + 1, chunk.next + 3):
            part = chunk.within(start, stop)
            wanted = [seen for seen in truth if start <= seen.offset < stop]
            assert seen_in_chunk(part) == seen_in(part.runs({})) == wanted
            assert part.first == wanted[0].offset


def test_a_part_by_bytes_has_at_least_one_message() -> None:
    (chunk,) = chunks_of([run(10, bytes(100), b"", bytes(50), bytes(50))])
    wanted = {0: 11, 99: 11, 100: 12, 149: 12, 150: 13, 199: 13, 200: 14, 1000: 14}
    assert {size: chunk.through(size) for size in wanted} == wanted
    assert chunk.within(12, 14).through(50) == 13
    assert chunk.size == 200


def test_the_first_message_since_a_time_is_by_its_run() -> None:
    times = [5, 9, 7, 9, 12]  # the clock went back once
    (chunk,) = chunks_of([run(2 * n, b"a", b"b", time=time) for n, time in enumerate(times)])
    wanted = {0: 0, 5: 0, 6: 2, 9: 2, 10: 8, 12: 8, 13: None}
    assert {time: chunk.first_since(time) for time in wanted} == wanted


def test_columns_can_be_read_as_they_lie() -> None:
    (chunk,) = chunks_of([run(0, b"abc", b"", b"de"), run(3, b"f", key="k")])
    assert [column.typecode for column in (chunk.starts, chunk.lengths, chunk.counts)] == ["Q", "I", "I"]
    assert [column.typecode for column in (chunk.times, chunk.indexes)] == ["q", "I"]
    assert chunk.lengths == array("I", [3, 0, 2, 1])
    assert chunk.addresses == [("ex", "key"), ("ex", "k")]


def test_every_altered_byte_is_seen() -> None:
    (data,) = chunk_bytes([run(3, b"one", b"two"), run(5, b"three", key="k")])
    for at in range(len(data)):
        with pytest.raises(Damage):
            parsed(data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :])
        with pytest.raises(Damage):
            parsed(data[:at])
    assert parsed(data + b"more").number == 3


def test_a_sound_chunk_in_another_place_is_not_believed() -> None:
    (data,) = chunk_bytes([run(3, b"one")])
    parsed(data)
    for elsewhere in ({"stream": 8}, {"segment": 3}, {"at": AT + 1}):
        with pytest.raises(Damage):
            parsed(data, **elsewhere)


def test_a_chunk_of_parts_that_do_not_fit_is_not_believed() -> None:
    """The checksums are right: a bug wrote it."""
    (draft,) = drafts([run(3, b"one", b"two")], 0)
    draft._columns[1][0] = 3  # messages of a run
    with pytest.raises(Damage, match="do not fit together"):
        parsed(b"".join(draft.sealed(STREAM, 0, AT, 40)))


def test_a_segment_says_whose_it_is() -> None:
    data = segment_head(STREAM, 99)
    assert len(data) == SEGMENT_HEAD.size
    read_segment_head(data, STREAM, 99)
    for stream, segment in ((8, 99), (STREAM, 98)):
        with pytest.raises(Damage, match="another segment"):
            read_segment_head(data, stream, segment)
    for at in range(len(data)):
        with pytest.raises(Damage):
            read_segment_head(data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :], STREAM, 99)
    with pytest.raises(Damage, match="shorter"):
        read_segment_head(data[:-1], STREAM, 99)


def test_the_head_is_as_long_as_the_page_says() -> None:
    assert HEAD_SIZE == 64
