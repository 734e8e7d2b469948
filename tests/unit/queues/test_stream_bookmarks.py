"""Named readers: what they have acked is kept, and they go on there."""

from __future__ import annotations

import pytest

from leveret.errors import AccessRefused
from leveret.queues.stream import StreamQueue
from tests.support.spies import SpyConsumer, message
from tests.support.stream_harness import StreamHarness, numbered, offsets, valued


@pytest.fixture
def harness() -> StreamHarness:
    return StreamHarness()


def filled(harness: StreamHarness, number: int = 10) -> StreamQueue:
    stream = harness.stream()
    harness.put(stream, *[message(body, persistent=True) for body in numbered(number)])
    harness.rest()
    return stream


def named(harness: StreamHarness, stream: StreamQueue, credit: int = 1000, **arguments: object) -> SpyConsumer:
    reader = harness.reader(stream, credit, consumer="c", **{"offset": "first", **arguments})
    harness.rest()
    return reader


def test_a_named_reader_goes_on_where_it_acked(harness: StreamHarness) -> None:
    stream = filled(harness)
    reader = named(harness, stream)
    for body in numbered(4):
        reader.ack(body)
    stream.remove_consumer(reader)
    assert harness.offsets.get("s", "c") == 4
    assert offsets(named(harness, stream)) == [4, 5, 6, 7, 8, 9], "whatever it asks for"


def test_acks_are_kept_together_after_a_moment(harness: StreamHarness) -> None:
    stream = filled(harness)
    reader = named(harness, stream)
    assert harness.offsets.get("s", "c") == 0, "it has its place from the beginning"
    for body in numbered(4):
        reader.ack(body)
    assert harness.offsets.get("s", "c") == 0
    harness.pass_time(1.0)
    assert harness.offsets.get("s", "c") == 4
    harness.pass_time(10.0)
    assert harness.offsets.get("s", "c") == 4


def test_only_what_is_acked_without_a_gap_counts(harness: StreamHarness) -> None:
    stream = filled(harness)
    reader = named(harness, stream)
    for body in (b"1", b"2", b"5"):
        reader.ack(body)
    harness.pass_time(1.0)
    assert harness.offsets.get("s", "c") == 0
    reader.ack(b"0")
    harness.pass_time(1.0)
    assert harness.offsets.get("s", "c") == 3
    for body in (b"4", b"3"):
        reader.ack(body)
    harness.pass_time(1.0)
    assert harness.offsets.get("s", "c") == 6


def test_what_is_refused_for_good_counts_as_read(harness: StreamHarness) -> None:
    stream = filled(harness, 3)
    reader = named(harness, stream)
    reader.drop(b"0")
    reader.ack(b"1")
    stream.remove_consumer(reader)
    assert harness.offsets.get("s", "c") == 2


def test_what_is_requeued_is_given_again_when_the_reader_begins_anew(harness: StreamHarness) -> None:
    stream = filled(harness, 6)
    reader = named(harness, stream, 2)
    reader.ack(b"0")
    reader.requeue(b"1")
    harness.rest()
    assert offsets(reader) == [2, 3], "not before: nothing comes back"
    for body in (b"2", b"3"):
        reader.ack(body)
    stream.remove_consumer(reader)
    assert harness.offsets.get("s", "c") == 1
    assert offsets(named(harness, stream)) == [1, 2, 3, 4, 5]


def test_what_a_client_gives_back_as_it_leaves_was_not_read(harness: StreamHarness) -> None:
    """As pika does with what it has received and not handed on."""
    stream = filled(harness, 6)
    reader = named(harness, stream)
    reader.ack(b"0")
    stream.remove_consumer(reader)
    for body in numbered(5, 1):
        reader.requeue(body)
    assert harness.offsets.get("s", "c") == 1
    assert stream.readers.bookmarks.find_gone(1) is None


def test_what_went_back_untried_does_not(harness: StreamHarness) -> None:
    stream = filled(harness, 3)
    reader = named(harness, stream)
    reader.ack(b"0")
    for given in reader.given:
        stream.requeue(given.lane, given.sequence, [given.message], 0, tried=False)
    stream.remove_consumer(reader)
    assert harness.offsets.get("s", "c") == 1
    assert stream.unacked == 0


def test_who_acks_all_is_at_the_end_of_what_it_was_given(harness: StreamHarness) -> None:
    stream = filled(harness, 3)
    reader = named(harness, stream)
    for body in numbered(3):
        reader.ack(body)
    stream.remove_consumer(reader)
    harness.publish_all(stream, b"new")
    assert offsets(named(harness, stream)) == [3]


def test_a_reader_that_never_acked_keeps_the_place_where_it_began(harness: StreamHarness) -> None:
    stream = filled(harness, 3)
    reader = named(harness, stream, offset="next")
    stream.remove_consumer(reader)
    harness.publish_all(stream, b"meanwhile")
    assert named(harness, stream, offset="next").bodies == [b"meanwhile"]


def test_acks_after_it_has_left_count(harness: StreamHarness) -> None:
    stream = filled(harness, 4)
    reader = named(harness, stream)
    stream.remove_consumer(reader)
    assert harness.offsets.get("s", "c") == 0
    reader.ack(b"0")
    reader.ack(b"1")
    harness.pass_time(1.0)
    assert harness.offsets.get("s", "c") == 2
    reader.ack(b"3")
    reader.ack(b"2")
    assert harness.offsets.get("s", "c") == 4, "the last one is kept at once"


def test_unless_another_has_taken_the_name(harness: StreamHarness) -> None:
    stream = filled(harness, 6)
    first = named(harness, stream)
    first.ack(b"0")
    stream.remove_consumer(first)
    second = named(harness, stream)
    for body in numbered(3, 1):
        second.ack(body)
    first.ack(b"1")
    harness.pass_time(1.0)
    assert harness.offsets.get("s", "c") == 4
    stream.remove_consumer(second)
    first.ack(b"2")
    assert harness.offsets.get("s", "c") == 4


def test_a_name_is_for_one_at_a_time(harness: StreamHarness) -> None:
    stream = filled(harness)
    reader = named(harness, stream)
    with pytest.raises(AccessRefused, match="consumer 'c' of stream 's' in vhost '/' in exclusive use"):
        named(harness, stream)
    assert len(stream.consumers) == 1
    harness.reader(stream, consumer="other")
    stream.remove_consumer(reader)
    named(harness, stream)


def test_names_belong_to_their_stream(harness: StreamHarness) -> None:
    one, other = filled(harness), harness.stream("other")
    named(harness, one)
    harness.publish_all(other, b"m")
    assert named(harness, other).bodies == [b"m"]
    one.die()
    assert harness.offsets.get("s", "c") is None
    assert harness.offsets.get("other", "c") == 0


def test_a_filtered_reader_passes_over_what_it_does_not_want(harness: StreamHarness) -> None:
    stream = harness.stream()
    harness.put(stream, *[valued(b"%d" % number, "eu" if number % 4 == 1 else "us") for number in range(12)])
    harness.rest()
    reader = named(harness, stream, filter="eu")
    assert offsets(reader) == [1, 5, 9]
    reader.ack(b"5")
    harness.pass_time(1.0)
    assert harness.offsets.get("s", "c") == 1
    reader.ack(b"1")
    harness.pass_time(1.0)
    assert harness.offsets.get("s", "c") == 9
    reader.ack(b"9")
    harness.pass_time(1.0)
    assert harness.offsets.get("s", "c") == 12


def test_a_place_behind_the_end_is_the_end(harness: StreamHarness) -> None:
    """A power cut can take messages whose durability was asked to be less."""
    stream = filled(harness, 3)
    harness.offsets.put("s", "c", 1000, False)
    reader = named(harness, stream)
    harness.publish_all(stream, b"new")
    assert reader.bodies == [b"new"]


def test_a_store_that_is_read_only_costs_the_place_and_nothing_else(harness: StreamHarness) -> None:
    stream = filled(harness, 3)
    reader = named(harness, stream)
    harness.is_read_only = True
    reader.ack(b"0")
    harness.pass_time(1.0)
    stream.remove_consumer(reader)
    assert len(stream.consumers) == 0
    assert harness.offsets.get("s", "c") == 0


def test_without_a_name_nothing_is_kept(harness: StreamHarness) -> None:
    stream = filled(harness, 3)
    reader = harness.reader(stream, offset="first")
    harness.rest()
    reader.ack(b"0")
    stream.remove_consumer(reader)
    harness.pass_time(1.0)
    assert harness.offsets.list() == []


# ---- pinned


def test_retention_waits_for_a_pinned_reader(harness: StreamHarness) -> None:
    stream = harness.stream(stream_max_segment_size_bytes=4096, max_length_bytes=8000)
    reader = harness.reader(stream, 5, offset="first", consumer="c", pinned=True)
    for number in range(40):
        harness.publish_all(stream, b"%02d" % number + bytes(1000))
    assert stream.first_offset == 0
    for _ in range(5):
        for given in list(reader.given):
            reader.ack(given.body)
        harness.rest()
    harness.pass_time(1.0)
    at = harness.offsets.get("s", "c")
    assert at == 25
    harness.publish_all(stream, b"more")
    assert 20 <= stream.first_offset <= 25
    stream.remove_consumer(reader)
    for number in range(40):
        harness.publish_all(stream, b"%02d" % number + bytes(1000))
    assert stream.first_offset <= 25, "also while it is away"
    harness.offsets.drop("s", "c")
    harness.publish_all(stream, b"more")
    assert stream.first_offset > 60


def test_a_reader_that_is_not_pinned_any_more_holds_up_nothing(harness: StreamHarness) -> None:
    stream = harness.stream(stream_max_segment_size_bytes=4096, max_length_bytes=8000)
    stream.remove_consumer(harness.reader(stream, consumer="c", pinned=True))
    for number in range(20):
        harness.publish_all(stream, b"%02d" % number + bytes(1000))
    assert stream.first_offset == 0
    harness.reader(stream, 1, consumer="c")
    harness.publish_all(stream, b"more")
    assert stream.first_offset > 10


def test_the_lowest_of_the_pinned_counts(harness: StreamHarness) -> None:
    stream = filled(harness)
    harness.offsets.put("s", "low", 3, True)
    harness.offsets.put("s", "high", 8, True)
    harness.offsets.put("s", "free", 1, False)
    assert stream.readers.bookmarks.pinned_at() == 3
