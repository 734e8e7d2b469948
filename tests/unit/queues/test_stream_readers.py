"""Readers of a stream: where they begin, what they are given, and how they share the broker."""

from __future__ import annotations

from datetime import UTC, datetime
from errno import EIO

import pytest

from leveret.delivery.selector import compile_selector
from leveret.errors import AccessRefused
from leveret.queues import stream_readers, stream_recent
from leveret.queues.stream import StreamQueue
from tests.support.spies import SpyConsumer, message
from tests.support.stream_house import StreamHouse, numbered, offsets, valued


@pytest.fixture
def house() -> StreamHouse:
    return StreamHouse()


def filled(house: StreamHouse, number: int = 10, **arguments: object) -> StreamQueue:
    """Each message in a run of its own."""
    stream = house.stream(**arguments)
    for body in numbered(number):
        house.put(stream, message(body, persistent=True))
    house.rest()
    return stream


def read(house: StreamHouse, stream: StreamQueue, credit: int = 1000, **arguments: object) -> SpyConsumer:
    reader = house.reader(stream, credit, **arguments)
    house.rest()
    return reader


# ---- where they begin


def test_a_reader_begins_where_it_asks_to(house: StreamHouse) -> None:
    stream = filled(house)
    assert offsets(read(house, stream, offset="first")) == list(range(10))
    assert offsets(read(house, stream, offset="last")) == [9]
    assert offsets(read(house, stream, offset="next")) == []
    assert offsets(read(house, stream)) == []
    assert offsets(read(house, stream, offset=0)) == list(range(10))
    assert offsets(read(house, stream, offset=7)) == [7, 8, 9]


def test_each_goes_on_with_what_comes(house: StreamHouse) -> None:
    stream = filled(house, 3)
    readers = [read(house, stream, offset=start) for start in ("first", "last", "next")]
    house.publish_all(stream, b"new")
    assert [offsets(reader) for reader in readers] == [[0, 1, 2, 3], [2, 3], [3]]


def test_an_empty_stream_can_be_read_from_anywhere(house: StreamHouse) -> None:
    stream = house.stream()
    readers = [read(house, stream, offset=start) for start in ("first", "last", "next", 0, "1h")]
    house.publish_all(stream, b"a", b"b")
    assert [reader.bodies for reader in readers] == [[b"a", b"b"]] * 5


def test_an_offset_that_is_still_to_come_is_waited_for(house: StreamHouse) -> None:
    stream = filled(house, 3)
    reader = read(house, stream, offset=5)
    for body in (b"3", b"4", b"5", b"6"):
        house.publish_all(stream, body)
    assert offsets(reader) == [5, 6]


def test_a_reader_begins_at_a_time(house: StreamHouse) -> None:
    stream = house.stream()
    house.pass_time(1000)
    moments = []
    for body in numbered(5):
        moments.append(house.clock.wall())
        house.publish_all(stream, body)
        house.pass_time(10)

    def at(moment: float) -> list[int]:
        return offsets(read(house, stream, offset=datetime.fromtimestamp(moment, UTC)))

    assert at(moments[2]) == [2, 3, 4]
    assert at(moments[2] + 0.5) == [3, 4]
    assert at(0) == [0, 1, 2, 3, 4]
    assert at(moments[4] + 5) == []
    assert offsets(read(house, stream, offset="25s")) == [3, 4]
    assert offsets(read(house, stream, offset="1h")) == [0, 1, 2, 3, 4]


def test_a_time_is_looked_up_in_the_worker(house: StreamHouse) -> None:
    stream = filled(house, 3)
    reader = house.reader(stream, offset="1h")
    house.turn()
    assert len(house.store.jobs) == 1, "and nothing is read before it is known"
    stream.remove_consumer(reader)
    house.rest()
    assert reader.bodies == [], "it has gone meanwhile"


# ---- what they get


def test_readers_are_independent(house: StreamHouse) -> None:
    stream = house.stream()
    fast, slow = house.reader(stream, 100), house.reader(stream, 2)
    house.publish_all(stream, *numbered(10))
    assert (len(fast.given), len(slow.given)) == (10, 2)
    slow.ack(b"0")
    house.rest()
    assert offsets(slow) == [1, 2]
    assert len(fast.given) == 10
    stream.remove_consumer(fast)
    house.publish_all(stream, b"more")
    slow.ack(b"1")
    slow.ack(b"2")
    house.rest()
    assert offsets(slow) == [3, 4]
    assert len(fast.given) == 10


def test_prefetch_bounds_what_a_reader_holds(house: StreamHouse) -> None:
    stream = filled(house, 20)
    reader = read(house, stream, 3, offset="first")
    seen = []
    while reader.given:
        assert len(reader.given) <= 3
        assert stream.unacked == len(reader.given)
        body = reader.given[-1].body  # out of order
        seen.append(body)
        reader.ack(body)
        house.rest()
    assert sorted(seen, key=int) == numbered(20)


def test_refused_messages_give_room_and_stay(house: StreamHouse) -> None:
    stream = filled(house, 4)
    reader = read(house, stream, 2, offset="first")
    reader.requeue(b"0")
    reader.drop(b"1")
    house.rest()
    assert offsets(reader) == [2, 3]
    assert stream.ready == 4
    assert (stream.counters.acked, stream.unacked) == (1, 2)


def test_one_reader_does_not_keep_the_others_waiting(house: StreamHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_readers, "BURST", 4)
    stream = house.stream()
    house.publish_all(stream, *numbered(10))
    reader = house.reader(stream, offset="first")
    house.context.dirty.clear()
    stream.drain()
    house.store.read()
    stream.drain()
    assert len(reader.given) == 4
    assert stream.dirty, "and it asks for another turn"
    house.rest()
    assert offsets(reader) == list(range(10))


def test_a_consumer_may_take_less_than_it_is_offered(house: StreamHouse) -> None:
    stream = filled(house)
    reader = house.reader(stream, offset="first")
    reader.greed = 3
    house.rest()
    assert offsets(reader) == list(range(10))


def test_who_pulls_one_gets_one(house: StreamHouse) -> None:
    stream = filled(house)
    reader = SpyConsumer("one", stream, 100, arguments={"x-stream-offset": 4})
    reader.one_shot = True
    stream.add_consumer(reader)
    house.rest()
    assert offsets(reader) == [4]
    assert reader.cancelled == 1
    assert len(stream.consumers) == 0


def test_large_messages_are_offered_a_few_at_a_time(house: StreamHouse) -> None:
    stream = house.stream()
    house.publish_all(stream, *[b"%d" % n + bytes(200 << 10) for n in range(6)])
    reader = house.reader(stream, offset="first")
    house.rest()
    assert len(reader.given) == 6
    assert reader.takes >= 3


def test_an_exclusive_reader_is_alone(house: StreamHouse) -> None:
    stream = house.stream()
    stream.add_consumer(SpyConsumer("a", stream, 10, exclusive=True))
    with pytest.raises(AccessRefused, match="exclusive use"):
        stream.add_consumer(SpyConsumer("b", stream, 10))


def test_what_retention_took_is_left_out(house: StreamHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_recent, "MOST_BYTES", 3000)
    stream = house.stream(stream_max_segment_size_bytes=4096, max_length_bytes=12_000)
    reader = read(house, stream, 5, offset="first")
    for number in range(60):
        house.publish_all(stream, b"%02d" % number + bytes(1000))
    assert stream.first_offset > 10
    assert offsets(reader) == [0, 1, 2, 3, 4]
    for given in list(reader.given):
        reader.ack(given.body)
    house.rest()
    assert offsets(reader)[0] == stream.first_offset
    assert offsets(read(house, stream, offset=2))[0] == stream.first_offset
    assert stream.ready == 60 - stream.first_offset


# ---- filters and selectors


def test_filters_choose_by_the_value_in_the_headers(house: StreamHouse) -> None:
    stream = house.stream()
    values = ["eu", "us", None, "eu", 5, "asia", None, "us"]
    house.put(stream, *[valued(b"%d" % number, value) for number, value in enumerate(values)])
    house.rest()

    def chosen(**arguments: object) -> list[int]:
        return offsets(read(house, stream, offset="first", **arguments))

    assert chosen(filter="eu") == [0, 3]
    assert chosen(filter=["eu", "us"]) == [0, 1, 3, 7]
    assert chosen(filter="nobody") == []
    assert chosen(filter="eu", match_unfiltered=True) == [0, 2, 3, 4, 6], "what has no text to filter by has no value"
    assert chosen(match_unfiltered=True) == list(range(8)), "without a filter it changes nothing"


def test_filters_hold_for_what_comes_too(house: StreamHouse) -> None:
    stream = house.stream()
    reader = house.reader(stream, 2, filter="eu")
    for number in range(20):
        house.put(stream, valued(b"%d" % number, "eu" if number % 3 == 0 else "us"))
    house.rest()
    seen = []
    while reader.given:
        seen += offsets(reader)
        for given in list(reader.given):
            reader.ack(given.body)
        house.rest()
    assert seen == list(range(0, 20, 3))


def test_a_name_of_a_value_in_the_body_is_none(house: StreamHouse) -> None:
    stream = house.stream()
    house.put(stream, valued(b"x-stream-filter-value\x00eu"))
    house.rest()
    assert read(house, stream, offset="first", filter="eu").bodies == []


def test_selectors_choose_and_go_with_filters(house: StreamHouse) -> None:
    stream = house.stream()
    house.put(stream, *[valued(b"%d" % number, "eu" if number < 6 else None, n=number) for number in range(10)])
    house.rest()

    def chosen(selector: str, **arguments: object) -> list[int]:
        reader = SpyConsumer("spy", stream, 100, arguments={"x-stream-offset": "first", **arguments})
        reader.selector = compile_selector(selector)
        stream.add_consumer(reader)
        house.rest()
        return offsets(reader)

    assert chosen("n > 3") == [4, 5, 6, 7, 8, 9]
    assert chosen("n > 3", **{"x-stream-filter": "eu"}) == [4, 5]
    assert chosen("n > 3", **{"x-stream-filter": "us", "x-stream-match-unfiltered": True}) == [6, 7, 8, 9]


def test_a_choosy_reader_does_not_look_at_everything_at_once(
    house: StreamHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_readers, "LOOKS", 10)
    stream = house.stream()
    house.put(stream, *[valued(b"%d" % number, "eu" if number == 95 else "us") for number in range(100)])
    house.rest()
    reader = house.reader(stream, offset="first", filter="eu")
    turns = 0
    house.context.dirty.clear()
    stream.drain()
    house.store.read()
    while not reader.given:
        assert stream.dirty, "it asks for another turn"
        stream.drain()
        turns += 1
    assert turns >= 9
    assert offsets(reader) == [95]
    house.rest()


# ---- memory and the disk


def test_who_reads_at_the_end_needs_no_disk(house: StreamHouse) -> None:
    stream = house.stream()
    reader = house.reader(stream)
    house.disk.fault = lambda kind, path: OSError(EIO, "Input/output error") if kind == "read" else None
    for number in range(50):
        house.publish_all(stream, b"%d" % number)
    assert offsets(reader) == list(range(50))


def test_nothing_is_read_for_a_consumer_without_room(house: StreamHouse) -> None:
    stream = filled(house, 100)
    before = house.gauge.used
    for _ in range(5):
        reader = house.reader(stream, 0, offset="first")
        assert reader.room() == 0
    house.rest()
    assert house.gauge.used == before
    assert not house.store.jobs


def test_a_slow_reader_holds_only_what_was_read_for_it_once(
    house: StreamHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_recent, "MOST_BYTES", 10_000)
    stream = house.stream()
    slow = house.reader(stream, 1, tag="slow")
    for number in range(300):
        house.publish_all(stream, b"%d" % number + bytes(1000))
    assert len(slow.given) == 1
    assert house.gauge.used < 30_000
    fast = house.reader(stream, 1000, tag="fast", offset="first")
    house.rest()
    assert len(fast.given) == 300
    for given in list(fast.given):
        fast.ack(given.body)
    stream.remove_consumer(fast)
    house.rest()
    assert house.gauge.used < 30_000


def test_read_ahead_is_counted_and_given_back(house: StreamHouse) -> None:
    stream = house.stream()
    house.publish_all(stream, *[b"%d" % number + bytes(1000) for number in range(40)])
    reader = house.reader(stream, 1, offset="first")
    house.rest()
    assert house.gauge.used > 30_000, "what was read for it"
    stream.remove_consumer(reader)
    stream.requeue(reader.given[0].lane, 1, [reader.given[0].message], 0, tried=False)
    stream.touch()
    house.rest()
    assert house.gauge.used == 0


def test_a_stream_that_cannot_be_read_now_is_read_later(house: StreamHouse) -> None:
    stream = filled(house, 5)
    house.disk.fault = lambda kind, path: OSError(24, "Too many open files") if kind == "read" else None
    reader = read(house, stream, offset="first")
    assert reader.bodies == []
    house.disk.fault = lambda kind, path: None
    house.rest()
    assert reader.bodies == [], "not before a while has passed"
    house.pass_time(1.5)
    assert offsets(reader) == [0, 1, 2, 3, 4]


def test_damaged_messages_are_passed_over(house: StreamHouse) -> None:
    stream = house.stream()
    for body in (b"aa", b"bb", b"cc"):
        house.publish_all(stream, body)
    (name,) = [name for name in house.disk.names("streams/1") if name.endswith(".seg")]
    path = f"streams/1/{name}"
    house.disk.put(path, house.disk.content(path).replace(b"bb", b"b!"))
    assert read(house, stream, offset="first").bodies == [b"aa", b"cc"]
    house.disk.put(path, house.disk.content(path).replace(b"cc", b"c!"))
    reader = read(house, stream, offset=1)
    assert reader.bodies == []
    house.publish_all(stream, b"dd")
    assert offsets(reader) == [3]


def test_a_stream_that_died_while_it_was_read_gives_nothing(house: StreamHouse) -> None:
    stream = filled(house, 5)
    reader = house.reader(stream, offset="first")
    house.turn()
    assert house.store.jobs
    stream.die()
    house.rest()
    assert reader.bodies == []


def test_next_and_last_are_about_what_is_confirmed(house: StreamHouse) -> None:
    stream = filled(house, 3)
    house.put(stream, message(b"confirmed", persistent=True))
    house.write_journal()
    assert stream.next_offset == 3, "it is still on its way to the files"
    last, following = house.reader(stream, offset="last"), house.reader(stream, offset="next")
    house.rest()
    assert (last.bodies, following.bodies) == ([b"confirmed"], [])
