"""Readers of a stream: where they begin, what they are given, and how they share the broker."""

from __future__ import annotations

from datetime import UTC, datetime
from errno import EIO

import pytest

from leveret.delivery.selector import compile_selector
from leveret.errors import AccessRefused
from leveret.queues import stream_readers
from leveret.queues.stream import StreamQueue
from tests.support.spies import SpyConsumer, message
from tests.support.stream_harness import StreamHarness, numbered, offsets, valued


@pytest.fixture
def harness() -> StreamHarness:
    return StreamHarness()


def filled(harness: StreamHarness, number: int = 10, **arguments: object) -> StreamQueue:
    """Each message in a run of its own."""
    stream = harness.stream(**arguments)
    for body in numbered(number):
        harness.put(stream, message(body, persistent=True))
    harness.rest()
    return stream


def read(harness: StreamHarness, stream: StreamQueue, credit: int = 1000, **arguments: object) -> SpyConsumer:
    reader = harness.reader(stream, credit, **arguments)
    harness.rest()
    return reader


# ---- where they begin


def test_a_reader_begins_where_it_asks_to(harness: StreamHarness) -> None:
    stream = filled(harness)
    assert offsets(read(harness, stream, offset="first")) == list(range(10))
    assert offsets(read(harness, stream, offset="last")) == [9]
    assert offsets(read(harness, stream, offset="next")) == []
    assert offsets(read(harness, stream)) == []
    assert offsets(read(harness, stream, offset=0)) == list(range(10))
    assert offsets(read(harness, stream, offset=7)) == [7, 8, 9]


def test_each_goes_on_with_what_comes(harness: StreamHarness) -> None:
    stream = filled(harness, 3)
    readers = [read(harness, stream, offset=start) for start in ("first", "last", "next")]
    harness.publish_all(stream, b"new")
    assert [offsets(reader) for reader in readers] == [[0, 1, 2, 3], [2, 3], [3]]


def test_an_empty_stream_can_be_read_from_anywhere(harness: StreamHarness) -> None:
    stream = harness.stream()
    readers = [read(harness, stream, offset=start) for start in ("first", "last", "next", 0, "1h")]
    harness.publish_all(stream, b"a", b"b")
    assert [reader.bodies for reader in readers] == [[b"a", b"b"]] * 5


def test_an_offset_that_is_still_to_come_is_waited_for(harness: StreamHarness) -> None:
    stream = filled(harness, 3)
    reader = read(harness, stream, offset=5)
    for body in (b"3", b"4", b"5", b"6"):
        harness.publish_all(stream, body)
    assert offsets(reader) == [5, 6]


def test_a_reader_begins_at_a_time(harness: StreamHarness) -> None:
    stream = harness.stream()
    harness.pass_time(1000)
    moments = []
    for body in numbered(5):
        moments.append(harness.clock.wall())
        harness.publish_all(stream, body)
        harness.pass_time(10)

    def at(moment: float) -> list[int]:
        return offsets(read(harness, stream, offset=datetime.fromtimestamp(moment, UTC)))

    assert at(moments[2]) == [2, 3, 4]
    assert at(moments[2] + 0.5) == [3, 4]
    assert at(0) == [0, 1, 2, 3, 4]
    assert at(moments[4] + 5) == []
    assert offsets(read(harness, stream, offset="25s")) == [3, 4]
    assert offsets(read(harness, stream, offset="1h")) == [0, 1, 2, 3, 4]


def test_a_time_is_looked_up_in_the_worker(harness: StreamHarness) -> None:
    stream = filled(harness, 3)
    reader = harness.reader(stream, offset="1h")
    harness.turn()
    assert len(harness.store.jobs) == 1, "and nothing is read before it is known"
    stream.remove_consumer(reader)
    harness.rest()
    assert reader.bodies == [], "it has gone meanwhile"


# ---- what they get


def test_readers_are_independent(harness: StreamHarness) -> None:
    stream = harness.stream()
    fast, slow = harness.reader(stream, 100), harness.reader(stream, 2)
    harness.publish_all(stream, *numbered(10))
    assert (len(fast.given), len(slow.given)) == (10, 2)
    slow.ack(b"0")
    harness.rest()
    assert offsets(slow) == [1, 2]
    assert len(fast.given) == 10
    stream.remove_consumer(fast)
    harness.publish_all(stream, b"more")
    slow.ack(b"1")
    slow.ack(b"2")
    harness.rest()
    assert offsets(slow) == [3, 4]
    assert len(fast.given) == 10


def test_prefetch_bounds_what_a_reader_holds(harness: StreamHarness) -> None:
    stream = filled(harness, 20)
    reader = read(harness, stream, 3, offset="first")
    seen = []
    while reader.given:
        assert len(reader.given) <= 3
        assert stream.unacked == len(reader.given)
        body = reader.given[-1].body  # out of order
        seen.append(body)
        reader.ack(body)
        harness.rest()
    assert sorted(seen, key=int) == numbered(20)


def test_refused_messages_give_room_and_stay(harness: StreamHarness) -> None:
    stream = filled(harness, 4)
    reader = read(harness, stream, 2, offset="first")
    reader.requeue(b"0")
    reader.drop(b"1")
    harness.rest()
    assert offsets(reader) == [2, 3]
    assert stream.ready == 4
    assert (stream.counters.acked, stream.unacked) == (1, 2)


def test_one_reader_does_not_keep_the_others_waiting(harness: StreamHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_readers, "BURST", 4)
    stream = harness.stream()
    harness.publish_all(stream, *numbered(10))
    reader = harness.reader(stream, offset="first")
    harness.context.dirty.clear()
    stream.drain()
    harness.store.read()
    stream.drain()
    assert len(reader.given) == 4
    assert stream.dirty, "and it asks for another turn"
    harness.rest()
    assert offsets(reader) == list(range(10))


def test_a_consumer_may_take_less_than_it_is_offered(harness: StreamHarness) -> None:
    stream = filled(harness)
    reader = harness.reader(stream, offset="first")
    reader.greed = 3
    harness.rest()
    assert offsets(reader) == list(range(10))


def test_who_pulls_one_gets_one(harness: StreamHarness) -> None:
    stream = filled(harness)
    reader = SpyConsumer("one", stream, 100, arguments={"x-stream-offset": 4})
    reader.one_shot = True
    stream.add_consumer(reader)
    harness.rest()
    assert offsets(reader) == [4]
    assert reader.cancelled == 1
    assert len(stream.consumers) == 0


def test_large_messages_are_offered_a_few_at_a_time(harness: StreamHarness) -> None:
    stream = harness.stream()
    harness.publish_all(stream, *[b"%d" % n + bytes(200 << 10) for n in range(6)])
    reader = harness.reader(stream, offset="first")
    harness.rest()
    assert len(reader.given) == 6
    assert reader.takes >= 3


def test_an_exclusive_reader_is_alone(harness: StreamHarness) -> None:
    stream = harness.stream()
    stream.add_consumer(SpyConsumer("a", stream, 10, exclusive=True))
    with pytest.raises(AccessRefused, match="exclusive use"):
        stream.add_consumer(SpyConsumer("b", stream, 10))


def test_what_retention_took_is_left_out(harness: StreamHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_readers, "MOST_BYTES", 3000)
    stream = harness.stream(stream_max_segment_size_bytes=4096, max_length_bytes=12_000)
    reader = read(harness, stream, 5, offset="first")
    for number in range(60):
        harness.publish_all(stream, b"%02d" % number + bytes(1000))
    assert stream.first_offset > 10
    assert offsets(reader) == [0, 1, 2, 3, 4]
    for given in list(reader.given):
        reader.ack(given.body)
    harness.rest()
    assert offsets(reader)[0] == stream.first_offset
    assert offsets(read(harness, stream, offset=2))[0] == stream.first_offset
    assert stream.ready == 60 - stream.first_offset


# ---- filters and selectors


def test_filters_choose_by_the_value_in_the_headers(harness: StreamHarness) -> None:
    stream = harness.stream()
    values = ["eu", "us", None, "eu", 5, "asia", None, "us"]
    harness.put(stream, *[valued(b"%d" % number, value) for number, value in enumerate(values)])
    harness.rest()

    def chosen(**arguments: object) -> list[int]:
        return offsets(read(harness, stream, offset="first", **arguments))

    assert chosen(filter="eu") == [0, 3]
    assert chosen(filter=["eu", "us"]) == [0, 1, 3, 7]
    assert chosen(filter="nobody") == []
    assert chosen(filter="eu", match_unfiltered=True) == [0, 2, 3, 4, 6], "what has no text to filter by has no value"
    assert chosen(match_unfiltered=True) == list(range(8)), "without a filter it changes nothing"


def test_filters_hold_for_what_comes_too(harness: StreamHarness) -> None:
    stream = harness.stream()
    reader = harness.reader(stream, 2, filter="eu")
    for number in range(20):
        harness.put(stream, valued(b"%d" % number, "eu" if number % 3 == 0 else "us"))
    harness.rest()
    seen = []
    while reader.given:
        seen += offsets(reader)
        for given in list(reader.given):
            reader.ack(given.body)
        harness.rest()
    assert seen == list(range(0, 20, 3))


def test_a_name_of_a_value_in_the_body_is_none(harness: StreamHarness) -> None:
    stream = harness.stream()
    harness.put(stream, valued(b"x-stream-filter-value\x00eu"))
    harness.rest()
    assert read(harness, stream, offset="first", filter="eu").bodies == []


def test_selectors_choose_and_go_with_filters(harness: StreamHarness) -> None:
    stream = harness.stream()
    harness.put(stream, *[valued(b"%d" % number, "eu" if number < 6 else None, n=number) for number in range(10)])
    harness.rest()

    def chosen(selector: str, **arguments: object) -> list[int]:
        reader = SpyConsumer("spy", stream, 100, arguments={"x-stream-offset": "first", **arguments})
        reader.selector = compile_selector(selector)
        stream.add_consumer(reader)
        harness.rest()
        return offsets(reader)

    assert chosen("n > 3") == [4, 5, 6, 7, 8, 9]
    assert chosen("n > 3", **{"x-stream-filter": "eu"}) == [4, 5]
    assert chosen("n > 3", **{"x-stream-filter": "us", "x-stream-match-unfiltered": True}) == [6, 7, 8, 9]


def test_a_choosy_reader_does_not_look_at_everything_at_once(
    harness: StreamHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_readers, "LOOKS", 10)
    stream = harness.stream()
    harness.put(stream, *[valued(b"%d" % number, "eu" if number == 95 else "us") for number in range(100)])
    harness.rest()
    reader = harness.reader(stream, offset="first", filter="eu")
    turns = 0
    harness.context.dirty.clear()
    stream.drain()
    harness.store.read()
    while not reader.given:
        assert stream.dirty, "it asks for another turn"
        stream.drain()
        turns += 1
    assert turns >= 9
    assert offsets(reader) == [95]
    harness.rest()


# ---- memory and the disk


def test_who_reads_at_the_end_needs_no_disk(harness: StreamHarness) -> None:
    stream = harness.stream()
    reader = harness.reader(stream)
    harness.disk.fault = lambda kind, path: OSError(EIO, "Input/output error") if kind == "read" else None
    for number in range(50):
        harness.publish_all(stream, b"%d" % number)
    assert offsets(reader) == list(range(50))


def test_nothing_is_read_for_a_consumer_without_room(harness: StreamHarness) -> None:
    stream = filled(harness, 100)
    before = harness.gauge.used
    for _ in range(5):
        reader = harness.reader(stream, 0, offset="first")
        assert reader.room() == 0
    harness.rest()
    assert harness.gauge.used == before
    assert not harness.store.jobs


def test_a_slow_reader_holds_only_what_was_read_for_it_once(
    harness: StreamHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_readers, "MOST_BYTES", 10_000)
    stream = harness.stream()
    slow = harness.reader(stream, 1, tag="slow")
    for number in range(300):
        harness.publish_all(stream, b"%d" % number + bytes(1000))
    assert len(slow.given) == 1
    assert harness.gauge.used < 30_000
    fast = harness.reader(stream, 1000, tag="fast", offset="first")
    harness.rest()
    assert len(fast.given) == 300
    for given in list(fast.given):
        fast.ack(given.body)
    stream.remove_consumer(fast)
    harness.rest()
    assert harness.gauge.used < 30_000


def test_read_ahead_is_counted_and_given_back(harness: StreamHarness) -> None:
    stream = harness.stream()
    harness.publish_all(stream, *[b"%d" % number + bytes(1000) for number in range(40)])
    reader = harness.reader(stream, 1, offset="first")
    harness.rest()
    assert harness.gauge.used > 30_000, "what was read for it"
    stream.remove_consumer(reader)
    stream.requeue(reader.given[0].lane, 1, [reader.given[0].message], 0, tried=False)
    stream.touch()
    harness.rest()
    assert harness.gauge.used == 0


def test_a_stream_that_cannot_be_read_now_is_read_later(harness: StreamHarness) -> None:
    stream = filled(harness, 5)
    harness.disk.fault = lambda kind, path: OSError(24, "Too many open files") if kind == "read" else None
    reader = read(harness, stream, offset="first")
    assert reader.bodies == []
    harness.disk.fault = lambda kind, path: None
    harness.rest()
    assert reader.bodies == [], "not before a while has passed"
    harness.pass_time(1.5)
    assert offsets(reader) == [0, 1, 2, 3, 4]


def test_damaged_messages_are_passed_over(harness: StreamHarness) -> None:
    stream = harness.stream()
    for body in (b"aa", b"bb", b"cc"):
        harness.publish_all(stream, body)
    (name,) = [name for name in harness.disk.names("streams/1") if name.endswith(".seg")]
    path = f"streams/1/{name}"
    harness.disk.put(path, harness.disk.content(path).replace(b"bb", b"b!"))
    assert read(harness, stream, offset="first").bodies == [b"aa", b"cc"]
    harness.disk.put(path, harness.disk.content(path).replace(b"cc", b"c!"))
    reader = read(harness, stream, offset=1)
    assert reader.bodies == []
    harness.publish_all(stream, b"dd")
    assert offsets(reader) == [3]


def test_a_stream_that_died_while_it_was_read_gives_nothing(harness: StreamHarness) -> None:
    stream = filled(harness, 5)
    reader = harness.reader(stream, offset="first")
    harness.turn()
    assert harness.store.jobs
    stream.die()
    harness.rest()
    assert reader.bodies == []


def test_next_and_last_are_about_what_is_confirmed(harness: StreamHarness) -> None:
    stream = filled(harness, 3)
    harness.put(stream, message(b"confirmed", persistent=True))
    harness.write_journal()
    assert stream.next_offset == 3, "it is still on its way to the files"
    last, following = harness.reader(stream, offset="last"), harness.reader(stream, offset="next")
    harness.rest()
    assert (last.bodies, following.bodies) == ([b"confirmed"], [])
