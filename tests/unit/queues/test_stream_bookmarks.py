"""Named readers: what they have acked is kept, and they go on there."""

from __future__ import annotations

import pytest

from leveret.errors import AccessRefused
from leveret.queues.stream import StreamQueue
from tests.support.spies import SpyConsumer, message
from tests.support.stream_house import StreamHouse, numbered, offsets, valued


@pytest.fixture
def house() -> StreamHouse:
    return StreamHouse()


def filled(house: StreamHouse, number: int = 10) -> StreamQueue:
    stream = house.stream()
    house.put(stream, *[message(body, persistent=True) for body in numbered(number)])
    house.rest()
    return stream


def named(house: StreamHouse, stream: StreamQueue, credit: int = 1000, **arguments: object) -> SpyConsumer:
    reader = house.reader(stream, credit, consumer="c", **{"offset": "first", **arguments})
    house.rest()
    return reader


def test_a_named_reader_goes_on_where_it_acked(house: StreamHouse) -> None:
    stream = filled(house)
    reader = named(house, stream)
    for body in numbered(4):
        reader.ack(body)
    stream.remove_consumer(reader)
    assert house.offsets.get("s", "c") == 4
    assert offsets(named(house, stream)) == [4, 5, 6, 7, 8, 9], "whatever it asks for"


def test_acks_are_kept_together_after_a_moment(house: StreamHouse) -> None:
    stream = filled(house)
    reader = named(house, stream)
    assert house.offsets.get("s", "c") == 0, "it has its place from the beginning"
    for body in numbered(4):
        reader.ack(body)
    assert house.offsets.get("s", "c") == 0
    house.pass_time(1.0)
    assert house.offsets.get("s", "c") == 4
    house.pass_time(10.0)
    assert house.offsets.get("s", "c") == 4


def test_only_what_is_acked_without_a_gap_counts(house: StreamHouse) -> None:
    stream = filled(house)
    reader = named(house, stream)
    for body in (b"1", b"2", b"5"):
        reader.ack(body)
    house.pass_time(1.0)
    assert house.offsets.get("s", "c") == 0
    reader.ack(b"0")
    house.pass_time(1.0)
    assert house.offsets.get("s", "c") == 3
    for body in (b"4", b"3"):
        reader.ack(body)
    house.pass_time(1.0)
    assert house.offsets.get("s", "c") == 6


def test_what_is_refused_for_good_counts_as_read(house: StreamHouse) -> None:
    stream = filled(house, 3)
    reader = named(house, stream)
    reader.drop(b"0")
    reader.ack(b"1")
    stream.remove_consumer(reader)
    assert house.offsets.get("s", "c") == 2


def test_what_is_requeued_is_given_again_when_the_reader_begins_anew(house: StreamHouse) -> None:
    stream = filled(house, 6)
    reader = named(house, stream, 2)
    reader.ack(b"0")
    reader.requeue(b"1")
    house.rest()
    assert offsets(reader) == [2, 3], "not before: nothing comes back"
    for body in (b"2", b"3"):
        reader.ack(body)
    stream.remove_consumer(reader)
    assert house.offsets.get("s", "c") == 1
    assert offsets(named(house, stream)) == [1, 2, 3, 4, 5]


def test_what_a_client_gives_back_as_it_leaves_was_not_read(house: StreamHouse) -> None:
    """As pika does with what it has received and not handed on."""
    stream = filled(house, 6)
    reader = named(house, stream)
    reader.ack(b"0")
    stream.remove_consumer(reader)
    for body in numbered(5, 1):
        reader.requeue(body)
    assert house.offsets.get("s", "c") == 1
    assert stream.readers.bookmarks.find_gone(1) is None


def test_what_went_back_untried_does_not(house: StreamHouse) -> None:
    stream = filled(house, 3)
    reader = named(house, stream)
    reader.ack(b"0")
    for given in reader.given:
        stream.requeue(given.lane, given.sequence, [given.message], 0, tried=False)
    stream.remove_consumer(reader)
    assert house.offsets.get("s", "c") == 1
    assert stream.unacked == 0


def test_who_acks_all_is_at_the_end_of_what_it_was_given(house: StreamHouse) -> None:
    stream = filled(house, 3)
    reader = named(house, stream)
    for body in numbered(3):
        reader.ack(body)
    stream.remove_consumer(reader)
    house.publish_all(stream, b"new")
    assert offsets(named(house, stream)) == [3]


def test_a_reader_that_never_acked_keeps_the_place_where_it_began(house: StreamHouse) -> None:
    stream = filled(house, 3)
    reader = named(house, stream, offset="next")
    stream.remove_consumer(reader)
    house.publish_all(stream, b"meanwhile")
    assert named(house, stream, offset="next").bodies == [b"meanwhile"]


def test_acks_after_it_has_left_count(house: StreamHouse) -> None:
    stream = filled(house, 4)
    reader = named(house, stream)
    stream.remove_consumer(reader)
    assert house.offsets.get("s", "c") == 0
    reader.ack(b"0")
    reader.ack(b"1")
    house.pass_time(1.0)
    assert house.offsets.get("s", "c") == 2
    reader.ack(b"3")
    reader.ack(b"2")
    assert house.offsets.get("s", "c") == 4, "the last one is kept at once"


def test_unless_another_has_taken_the_name(house: StreamHouse) -> None:
    stream = filled(house, 6)
    first = named(house, stream)
    first.ack(b"0")
    stream.remove_consumer(first)
    second = named(house, stream)
    for body in numbered(3, 1):
        second.ack(body)
    first.ack(b"1")
    house.pass_time(1.0)
    assert house.offsets.get("s", "c") == 4
    stream.remove_consumer(second)
    first.ack(b"2")
    assert house.offsets.get("s", "c") == 4


def test_a_name_is_for_one_at_a_time(house: StreamHouse) -> None:
    stream = filled(house)
    reader = named(house, stream)
    with pytest.raises(AccessRefused, match="consumer 'c' of stream 's' in vhost '/' in exclusive use"):
        named(house, stream)
    assert len(stream.consumers) == 1
    house.reader(stream, consumer="other")
    stream.remove_consumer(reader)
    named(house, stream)


def test_names_belong_to_their_stream(house: StreamHouse) -> None:
    one, other = filled(house), house.stream("other")
    named(house, one)
    house.publish_all(other, b"m")
    assert named(house, other).bodies == [b"m"]
    one.die()
    assert house.offsets.get("s", "c") is None
    assert house.offsets.get("other", "c") == 0


def test_a_filtered_reader_passes_over_what_it_does_not_want(house: StreamHouse) -> None:
    stream = house.stream()
    house.put(stream, *[valued(b"%d" % number, "eu" if number % 4 == 1 else "us") for number in range(12)])
    house.rest()
    reader = named(house, stream, filter="eu")
    assert offsets(reader) == [1, 5, 9]
    reader.ack(b"5")
    house.pass_time(1.0)
    assert house.offsets.get("s", "c") == 1
    reader.ack(b"1")
    house.pass_time(1.0)
    assert house.offsets.get("s", "c") == 9
    reader.ack(b"9")
    house.pass_time(1.0)
    assert house.offsets.get("s", "c") == 12


def test_a_place_behind_the_end_is_the_end(house: StreamHouse) -> None:
    """A power cut can take messages whose durability was asked to be less."""
    stream = filled(house, 3)
    house.offsets.put("s", "c", 1000, False)
    reader = named(house, stream)
    house.publish_all(stream, b"new")
    assert reader.bodies == [b"new"]


def test_a_store_that_is_read_only_costs_the_place_and_nothing_else(house: StreamHouse) -> None:
    stream = filled(house, 3)
    reader = named(house, stream)
    house.is_read_only = True
    reader.ack(b"0")
    house.pass_time(1.0)
    stream.remove_consumer(reader)
    assert len(stream.consumers) == 0
    assert house.offsets.get("s", "c") == 0


def test_without_a_name_nothing_is_kept(house: StreamHouse) -> None:
    stream = filled(house, 3)
    reader = house.reader(stream, offset="first")
    house.rest()
    reader.ack(b"0")
    stream.remove_consumer(reader)
    house.pass_time(1.0)
    assert house.offsets.list() == []


# ---- pinned


def test_retention_waits_for_a_pinned_reader(house: StreamHouse) -> None:
    stream = house.stream(stream_max_segment_size_bytes=4096, max_length_bytes=8000)
    reader = house.reader(stream, 5, offset="first", consumer="c", pinned=True)
    for number in range(40):
        house.publish_all(stream, b"%02d" % number + bytes(1000))
    assert stream.first_offset == 0
    for _ in range(5):
        for given in list(reader.given):
            reader.ack(given.body)
        house.rest()
    house.pass_time(1.0)
    at = house.offsets.get("s", "c")
    assert at == 25
    house.publish_all(stream, b"more")
    assert 20 <= stream.first_offset <= 25
    stream.remove_consumer(reader)
    for number in range(40):
        house.publish_all(stream, b"%02d" % number + bytes(1000))
    assert stream.first_offset <= 25, "also while it is away"
    house.offsets.drop("s", "c")
    house.publish_all(stream, b"more")
    assert stream.first_offset > 60


def test_a_reader_that_is_not_pinned_any_more_holds_up_nothing(house: StreamHouse) -> None:
    stream = house.stream(stream_max_segment_size_bytes=4096, max_length_bytes=8000)
    stream.remove_consumer(house.reader(stream, consumer="c", pinned=True))
    for number in range(20):
        house.publish_all(stream, b"%02d" % number + bytes(1000))
    assert stream.first_offset == 0
    house.reader(stream, 1, consumer="c")
    house.publish_all(stream, b"more")
    assert stream.first_offset > 10


def test_the_lowest_of_the_pinned_counts(house: StreamHouse) -> None:
    stream = filled(house)
    house.offsets.put("s", "low", 3, True)
    house.offsets.put("s", "high", 8, True)
    house.offsets.put("s", "free", 1, False)
    assert stream.readers.bookmarks.pinned_at() == 3
