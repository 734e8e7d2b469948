"""The bytes of the journal: what is written is read as it was, and nothing else is believed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.message import NEVER, PERSISTENT, TRANSIENT, Address, Message, Traits
from leveret.store.log import Placement
from leveret.store.records import (
    COPY_BELOW,
    END_OF_GROUP,
    HEAD_SIZE,
    LARGEST_PLACE,
    MARK,
    PUBLISH,
    RETURN,
    SEGMENT_HEAD,
    SETTLE,
    STOP,
    Damage,
    Entry,
    copied_body,
    entries_body,
    place_in_group,
    publish_body,
    read_entries,
    read_publish,
    read_record,
    read_segment_head,
    record_size,
    sealed,
    segment_head,
)
from tests.support.ledger import is_same

AHEAD = 1_000.0
OFFSETS = st.integers(0, (1 << 32) - 1)
SEGMENTS = st.integers(1, (1 << 32) - 1)
BIG = st.integers(0, (1 << 64) - 1)

priorities = st.integers(0, 255)
deadlines = st.one_of(st.just(NEVER), st.integers(0, 1 << 40).map(float))
traits = st.one_of(
    st.just(PERSISTENT),
    st.just(TRANSIENT),
    st.builds(Traits, persistent=st.booleans(), deadline=deadlines, priority=priorities),
)
short = st.text(max_size=60)
placements = st.builds(
    Placement, BIG, st.integers(0, 255), BIG, st.integers(1, (1 << 32) - 1), highest=st.integers(0, 255)
)


@st.composite
def runs(draw: st.DrawFn) -> list[Message]:
    """Messages of one address."""
    address = Address(draw(short), draw(short), 1, 131072)
    contents = draw(st.lists(st.tuples(st.binary(max_size=200), traits), min_size=1, max_size=8))
    return [(content, address, each) for content, each in contents]


def plain(*contents: bytes, address: Address | None = None) -> list[Message]:
    return [(content, address or Address("ex", "key", 1, 131072), PERSISTENT) for content in contents]


def record_of(kind: int, parts: list[bytes], segment: int = 3, offset: int = 64, flags: int = END_OF_GROUP) -> bytes:
    return b"".join(sealed(kind, flags, 0, 7, parts, segment, offset))


# ---- segment heads


@given(SEGMENTS)
def test_segment_head_tells_its_segment(segment: int) -> None:
    head = segment_head(segment)
    assert len(head) == SEGMENT_HEAD.size
    assert read_segment_head(head) == segment


@given(SEGMENTS, st.integers(0, SEGMENT_HEAD.size - 1), st.integers(1, 255))
def test_altered_segment_head_is_not_believed(segment: int, at: int, change: int) -> None:
    head = bytearray(segment_head(segment))
    head[at] ^= change
    with pytest.raises(Damage):
        read_segment_head(bytes(head))


@given(st.binary(max_size=SEGMENT_HEAD.size - 1))
def test_short_segment_head_is_not_believed(data: bytes) -> None:
    with pytest.raises(Damage):
        read_segment_head(data)


# ---- publishes


@given(runs(), st.lists(placements, max_size=6), st.floats(0, 1e12), SEGMENTS, OFFSETS)
@pytest.mark.feature("S4-17")
def test_published_run_is_read_as_it_was(
    run: list[Message], places: list[Placement], time: float, segment: int, offset: int
) -> None:
    """The record carries its length; contents, address, traits and places come back."""
    data = record_of(PUBLISH, publish_body(run, places, time, AHEAD), segment, offset)
    record = read_record(data, 0, segment, offset)
    assert (record.kind, record.place, record.ends_group, record.number) == (PUBLISH, 0, True, 7)
    assert record.end == len(data) == record_size(data, 0)
    published = read_publish(data, record)
    assert (published.time, published.places) == (time, places)
    found = list(published.messages(data, range(len(run)), AHEAD))
    assert len(found) == len(run)
    assert all(is_same(one, other) for one, other in zip(found, run, strict=True))


@given(runs(), st.lists(st.integers(0, 5), min_size=1), st.data())
@pytest.mark.feature("S4-17")
def test_messages_of_many_addresses_share_a_record_and_its_copy(
    run: list[Message], choices: list[int], data: st.DataObject
) -> None:
    """Each message keeps its own exchange and key."""
    addresses = [Address(f"exchange {n}", f"key {n}" * n, 1, 4096) for n in range(6)]
    run = [(content, addresses[choices[n % len(choices)]], traits) for n, (content, _, traits) in enumerate(run)]
    original = record_of(PUBLISH, publish_body(run, [Placement(1, 0, 1, len(run))], 5.0, AHEAD, one_address=False))
    published = read_publish(original, read_record(original, 0, 3, 64))
    found = list(published.messages(original, range(len(run)), AHEAD))
    assert all(is_same(one, other) for one, other in zip(found, run, strict=True))
    members = sorted(data.draw(st.sets(st.integers(0, len(run) - 1), min_size=1)))
    copy = record_of(PUBLISH, copied_body(published, original, members, [Placement(1, 0, 1, len(members))]), 8, 4096)
    again = read_publish(copy, read_record(copy, 0, 8, 4096))
    kept = list(again.messages(copy, range(len(members)), AHEAD))
    assert all(is_same(one, run[n]) for one, n in zip(kept, members, strict=True))


def test_an_address_that_is_not_there_is_damage() -> None:
    address = Address("", "q", 1, 4096)
    run = [(b"a", address, PERSISTENT), (b"b", Address("", "r", 1, 4096), PERSISTENT)]
    body = publish_body(run, [], 0.0, 0.0, one_address=False)[0]
    spoilt = body.replace(b"\x00\x00\x01\x00", b"\x00\x00\x02\x00")
    assert spoilt != body
    data = record_of(PUBLISH, [spoilt])
    with pytest.raises(Damage, match="address"):
        read_publish(data, read_record(data, 0, 3, 64))


@pytest.mark.parametrize("number", [1, 3, 4, 50])
def test_large_contents_are_not_copied_together_and_read_the_same(number: int) -> None:
    run = plain(*(bytes([n]) * (COPY_BELOW + 1 + n) for n in range(number)))
    buffers = sealed(PUBLISH, END_OF_GROUP, 0, 1, publish_body(run, [], 0.0, 0.0), 1, 32)
    assert len(buffers) == 1 + number
    data = b"".join(buffers)
    published = read_publish(data, read_record(data, 0, 1, 32))
    assert [message[0] for message in published.messages(data, range(number), 0.0)] == [message[0] for message in run]


def test_messages_belong_to_the_lane_of_their_priority() -> None:
    address = Address("", "q", 1, 4096)
    run = [(bytes(n + 1), address, Traits(persistent=True, priority=n)) for n in (0, 1, 5, 9)]
    places = [Placement(1, 0, 1, 1, 2), Placement(1, 2, 1, 2, 2), Placement(2, 0, 1, 4, 0)]
    data = record_of(PUBLISH, publish_body(run, places, 0.0, 0.0))
    published = read_publish(data, read_record(data, 0, 3, 64))
    assert [list(published.members(place)) for place in places] == [[0], [2, 3], [0, 1, 2, 3]]
    assert [published.size(place) for place in places] == [1, 6 + 10, 1 + 2 + 6 + 10]


def test_plain_messages_belong_to_every_place() -> None:
    data = record_of(PUBLISH, publish_body(plain(b"a", b"bc"), [Placement(1, 0, 9, 2)], 0.0, 0.0))
    published = read_publish(data, read_record(data, 0, 3, 64))
    assert list(published.members(published.places[0])) == [0, 1]
    assert published.size(published.places[0]) == 3


@given(runs(), st.data())
def test_copy_has_the_chosen_messages_and_its_own_places(run: list[Message], data: st.DataObject) -> None:
    original = record_of(PUBLISH, publish_body(run, [Placement(1, 0, 1, len(run))], 5.0, AHEAD))
    published = read_publish(original, read_record(original, 0, 3, 64))
    members = data.draw(st.lists(st.integers(0, len(run) - 1), min_size=1, unique=True).map(sorted))
    places = [Placement(1, 0, 1 + members[0], len(members))]
    copy = record_of(PUBLISH, copied_body(published, original, members, places), 8, 4096)
    again = read_publish(copy, read_record(copy, 0, 8, 4096))
    assert (again.time, again.places) == (5.0, places)
    found = list(again.messages(copy, range(len(members)), AHEAD))
    assert all(is_same(one, run[n]) for one, n in zip(found, members, strict=True))


# ---- settles, returns, stops

entries = st.builds(Entry, BIG, st.integers(0, 255), BIG, st.integers(0, (1 << 32) - 1), st.integers(0, (1 << 32) - 1))


@given(st.lists(entries, max_size=20), st.sampled_from([SETTLE, RETURN]))
def test_entries_are_read_as_they_were(written: list[Entry], kind: int) -> None:
    data = record_of(kind, [entries_body(written)])
    record = read_record(data, 0, 3, 64)
    assert record.kind == kind
    assert read_entries(data, record) == written


def test_entries_that_do_not_fill_their_record_are_not_believed() -> None:
    data = record_of(SETTLE, [entries_body([Entry(1, 0, 1, 1, 1)]) + b"x"])
    with pytest.raises(Damage):
        read_entries(data, read_record(data, 0, 3, 64))


def test_a_stop_is_a_record_without_a_body() -> None:
    data = record_of(STOP, [b""])
    assert len(data) == HEAD_SIZE
    assert read_record(data, 0, 3, 64).kind == STOP


# ---- what is not believed


@given(st.binary(max_size=80), st.data())
def test_a_record_with_any_byte_altered_is_not_believed(body: bytes, data: st.DataObject) -> None:
    record = bytearray(record_of(SETTLE, [body]))
    record[data.draw(st.integers(0, len(record) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(Damage):
        read_record(bytes(record), 0, 3, 64)


@given(st.binary(max_size=80), st.data())
def test_a_record_that_is_cut_is_not_believed(body: bytes, data: st.DataObject) -> None:
    record = record_of(SETTLE, [body])
    with pytest.raises(Damage):
        read_record(record[: data.draw(st.integers(0, len(record) - 1))], 0, 3, 64)


@given(SEGMENTS, OFFSETS, SEGMENTS, OFFSETS)
def test_a_record_in_another_place_is_not_believed(segment: int, offset: int, other: int, elsewhere: int) -> None:
    record = record_of(SETTLE, [b"body"], segment, offset)
    if (segment, offset) == (other, elsewhere):
        assert read_record(record, 0, other, elsewhere)
    else:
        with pytest.raises(Damage):
            read_record(record, 0, other, elsewhere)


@given(st.binary(max_size=200))
def test_a_sound_record_of_rubbish_is_refused_as_damage_if_at_all(body: bytes) -> None:
    """A bug may have written it: no other error may come of reading it."""
    data = record_of(PUBLISH, [body])
    record = read_record(data, 0, 3, 64)
    for read in (read_publish, read_entries):
        try:
            read(data, record)  # type: ignore[operator]
        except Damage:
            pass


@pytest.mark.parametrize("extra", [1, 2, 3, 5])
def test_lengths_that_are_cut_off_are_damage(extra: int) -> None:
    body = publish_body(plain(b"", b"", b""), [], 0.0, 0.0)[0]
    data = record_of(PUBLISH, [body[:-extra]])
    with pytest.raises(Damage):
        read_publish(data, read_record(data, 0, 3, 64))


def test_a_mark_begins_every_record() -> None:
    assert record_of(STOP, [b""]).startswith(MARK)


# ---- groups


def test_places_in_a_group_start_with_the_only_zero_and_go_round() -> None:
    places = [place_in_group(n) for n in range(3 * LARGEST_PLACE)]
    assert places[:3] == [0, 1, 2]
    assert max(places) == LARGEST_PLACE
    assert places.count(0) == 1
    assert places[LARGEST_PLACE : LARGEST_PLACE + 3] == [LARGEST_PLACE, 1, 2]


def test_only_the_flag_ends_a_group() -> None:
    data = record_of(STOP, [b""], flags=0)
    assert not read_record(data, 0, 3, 64).ends_group
