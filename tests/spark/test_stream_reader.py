"""Streaming reads of stream queues: where they begin, how far a batch goes, what happens when messages are gone."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows
from pyspark.sql.types import StructType

from leveret.spark import SCHEMA
from leveret.spark.errors import BrokerRefused, DataLoss, OptionError
from tests.support.spark_broker import SparkBroker
from tests.support.spark_readers import bodies, rows, stream_reader

ALL = ReadAllAvailable()


def test_earliest_begins_with_the_first_message(broker: SparkBroker) -> None:
    stream = broker.stream("earliest", "abc")
    reader = stream_reader(broker, queue=stream, startingOffsets="earliest")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert (start, end) == ({stream: 0}, {stream: 3})
    assert bodies(reader, start, end) == [b"a", b"b", b"c"]
    assert reader.latestOffset(end, ALL) == end
    assert reader.partitions(end, end) == []


def test_latest_is_in_the_checkpoint_before_anything_is_read(broker: SparkBroker) -> None:
    stream = broker.stream("latest", "abc")
    reader = stream_reader(broker, queue=stream)
    start = reader.initialOffset()
    placed = reader.latestOffset(start, ALL)
    broker.publish(stream, "de")
    assert (start, placed) == ({}, {stream: 3})
    assert bodies(reader, start, placed) == []
    # A query that was killed before its first batch ended plans the same batch again, whatever has arrived since.
    again = stream_reader(broker, queue=stream)
    assert again.initialOffset() == {}
    assert bodies(again, placed, again.latestOffset(placed, ALL)) == [b"d", b"e"]


def test_json_names_a_start_for_each_queue(broker: SparkBroker) -> None:
    stem = broker.name("json")
    one, two = broker.stream(f"{stem}-a", "abc"), broker.stream(f"{stem}-b", "xyz")
    options = {"subscribePattern": f"{stem}-.*", "startingOffsets": f'{{"{one}": 2, "{two}": -2}}'}
    reader = stream_reader(broker, **options)
    start = reader.initialOffset()
    assert start == {one: 2, two: 0}
    assert bodies(reader, start, reader.latestOffset(start, ALL)) == [b"c", b"x", b"y", b"z"]


@pytest.mark.parametrize(
    ("offsets", "text"),
    [
        ('{"other": 1}', "startingOffsets names 'other', which the query does not read"),
        ('{"%s": 9}', "offset 9 of queue '%s' does not exist yet, the next is 3"),
    ],
)
def test_a_start_that_does_not_exist_is_refused(broker: SparkBroker, offsets: str, text: str) -> None:
    stream = broker.stream("nowhere", "abc")
    reader = stream_reader(broker, queue=stream, startingOffsets=offsets.replace("%s", stream))
    with pytest.raises(OptionError, match=text.replace("%s", stream)):
        reader.initialOffset()


def test_a_timestamp_begins_with_the_first_message_that_is_not_older(broker: SparkBroker) -> None:
    stream = broker.stream("moment", "ab")
    broker.publish(stream, "c")
    arrived = rows_of(broker, stream)[2]["timestamp"]
    moment = int(arrived.timestamp() * 1000) + 1
    while time.time() * 1000 <= moment:
        pass
    broker.publish(stream, "d")
    reader = stream_reader(broker, queue=stream, startingTimestamp=str(moment))
    assert reader.latestOffset(reader.initialOffset(), ALL) == {stream: 3}


def test_each_queue_has_a_time_of_its_own(broker: SparkBroker) -> None:
    stem = broker.name("times")
    old, new = broker.stream(f"{stem}-a", "ab"), broker.stream(f"{stem}-b", "cd")
    moments = {old: 0, new: "2100-01-01T00:00:00Z"}
    options = {"subscribePattern": f"{stem}-.*"}
    for name in ("startingTimestamp", "startingOffsetsByTimestamp"):
        reader = stream_reader(broker, **options, **{name: json.dumps(moments)})
        assert reader.latestOffset(reader.initialOffset(), ALL) == {old: 0, new: 2}
    reader = stream_reader(broker, **options, startingTimestamp=json.dumps({old: 0}))
    with pytest.raises(OptionError, match=f"option startingTimestamp has no time for queue '{new}'; add it"):
        reader.latestOffset(reader.initialOffset(), ALL)
    reader = stream_reader(broker, queue=old, startingTimestamp=json.dumps(moments))
    with pytest.raises(OptionError, match=f"names '{new}', which the query does not read"):
        reader.latestOffset(reader.initialOffset(), ALL)


def rows_of(broker: SparkBroker, stream: str, **options: str) -> list[dict[str, Any]]:
    reader = stream_reader(broker, queue=stream, startingOffsets="earliest", **options)
    start = reader.initialOffset()
    return rows(reader, reader.partitions(start, reader.latestOffset(start, ALL)))


def test_a_batch_takes_so_many_messages_in_proportion(broker: SparkBroker) -> None:
    stem = broker.name("limit")
    long, short = broker.stream(f"{stem}-long", ["m"] * 30), broker.stream(f"{stem}-short", ["m"] * 10)
    options = {"subscribePattern": f"{stem}-.*", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "8"}
    reader = stream_reader(broker, **options)
    start = reader.initialOffset()
    assert reader.getDefaultReadLimit() == ReadMaxRows(8)
    assert reader.latestOffset(start, ReadMaxRows(8)) == {long: 6, short: 2}
    assert reader.latestOffset(start, ALL) == {long: 30, short: 10}
    assert reader.reportLatestOffset() == {long: 30, short: 10}


def test_a_batch_takes_so_many_bytes(broker: SparkBroker) -> None:
    stream = broker.stream("bytes", ["x" * 1000] * 20)
    reader = stream_reader(broker, queue=stream, startingOffsets="earliest", maxBytesPerTrigger="5000")
    assert reader.getDefaultReadLimit() == ReadMaxBytes(5000)
    end = reader.latestOffset(reader.initialOffset(), ReadMaxBytes(5000))
    assert 2 <= end[stream] <= 5
    both = {"maxBytesPerTrigger": "5000", "maxOffsetsPerTrigger": "1"}
    reader = stream_reader(broker, queue=stream, startingOffsets="earliest", **both)
    assert reader.latestOffset(reader.initialOffset(), ReadMaxRows(1)) == {stream: 1}


def test_min_partitions_cuts_ranges(broker: SparkBroker) -> None:
    stream = broker.stream("cut", [str(n) for n in range(10)])
    reader = stream_reader(broker, queue=stream, startingOffsets="earliest", minPartitions="4")
    parts = reader.partitions({stream: 0}, {stream: 10})
    assert [(part.start, part.stop) for part in parts] == [(0, 2), (2, 5), (5, 7), (7, 10)]
    assert [row["offset"] for row in rows(reader, parts)] == list(range(10))


def test_available_now_ends_with_what_was_there(broker: SparkBroker) -> None:
    stream = broker.stream("now", "abc")
    reader = stream_reader(broker, queue=stream, startingOffsets="earliest", maxOffsetsPerTrigger="2")
    reader.prepareForTriggerAvailableNow()
    broker.publish(stream, "de")
    start, limit = reader.initialOffset(), reader.getDefaultReadLimit()
    first = reader.latestOffset(start, limit)
    second = reader.latestOffset(first, limit)
    assert (first, second) == ({stream: 2}, {stream: 3})
    assert reader.latestOffset(second, limit) == second


def test_headers_come_when_they_are_asked_for(broker: SparkBroker) -> None:
    stream = broker.stream("headers")
    broker.publish(stream, "a", headers={"colour": "red", "size": 3})
    assert [row["headers"] for row in rows_of(broker, stream)] == [None]
    [row] = rows_of(broker, stream, includeHeaders="true")
    assert dict(row["headers"]) == {"colour": "red", "size": "3"}


def test_only_chosen_columns_are_fetched(broker: SparkBroker) -> None:
    stream = broker.stream("chosen", "ab")
    chosen = StructType([SCHEMA["queue"], SCHEMA["body"]])
    reader = stream_reader(broker, chosen, queue=stream)
    found = rows(reader, reader.partitions({stream: 0}, {stream: 2}))
    assert found == [{"queue": stream, "body": b"a"}, {"queue": stream, "body": b"b"}]


def test_only_matching_routing_keys_are_fetched(broker: SparkBroker) -> None:
    stream, exchange = broker.stream("keys"), broker.name("keys")
    broker.channel.exchange_declare(exchange, "topic", durable=True)
    broker.channel.queue_bind(stream, exchange, "#")
    broker.publish("eu.paid", ["1"], exchange)
    broker.publish("us.paid", ["2"], exchange)
    broker.publish("eu.sent.late", ["3"], exchange)
    assert [row["body"] for row in rows_of(broker, stream, routingKeyPattern="eu.#")] == [b"1", b"3"]


def test_a_consumer_name_keeps_the_offset_in_the_broker(broker: SparkBroker) -> None:
    stream = broker.stream("named", "abc")
    name = broker.name("reader")
    options = {"queue": stream, "startingOffsets": "earliest", "consumerName": name}
    reader = stream_reader(broker, **options, pinned="true")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    assert stored(broker, stream) == [{"consumer": name, "queue": stream, "offset": 0, "pinned": True}]
    reader.latestOffset(end, ALL)  # Spark asks for more only when everything before is finished
    assert stored(broker, stream) == [{"consumer": name, "queue": stream, "offset": 3, "pinned": True}]
    broker.publish(stream, "d")
    reader.commit({stream: 4})
    assert stored(broker, stream)[0]["offset"] == 4


def stored(broker: SparkBroker, stream: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = broker.ask("GET", "%2F/consumers", queue=stream)["consumers"]
    return found


def test_a_shard_that_appears_is_read_from_its_first_message(broker: SparkBroker) -> None:
    stem = broker.name("grow")
    old = broker.stream(f"{stem}-a", "a")
    reader = stream_reader(broker, subscribePattern=f"{stem}-.*", startingOffsets="earliest")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    new = broker.stream(f"{stem}-b", "xy")
    placed = reader.latestOffset(end, ALL)
    assert placed == {old: 1, new: 0}
    assert bodies(reader, end, placed) == []
    following = reader.latestOffset(placed, ALL)
    assert bodies(reader, placed, following) == [b"x", b"y"]
    assert {row["partition"] for row in rows(reader, reader.partitions(placed, following))} == {1}


def test_a_batch_waits_for_enough_messages(broker: SparkBroker) -> None:
    stream = broker.stream("few", "a")
    options = {"queue": stream, "startingOffsets": "earliest", "minOffsetsPerTrigger": "3"}
    reader = stream_reader(broker, **options)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    assert end == {stream: 1}, "the first batch does not wait"
    broker.publish(stream, "bc")
    assert reader.latestOffset(end, ALL) == end
    broker.publish(stream, "d")
    assert reader.latestOffset(end, ALL) == {stream: 4}
    now = stream_reader(broker, **options)
    now.prepareForTriggerAvailableNow()
    assert now.latestOffset({stream: 3}, ALL) == {stream: 4}, "AvailableNow does not wait"


def test_a_queue_that_vanishes_is_loss(broker: SparkBroker) -> None:
    stem = broker.name("vanish")
    kept, gone = broker.stream(f"{stem}-a", "a"), broker.stream(f"{stem}-b", "b")
    start = {kept: 0, gone: 1}
    broker.channel.queue_delete(gone)
    careful = stream_reader(broker, subscribePattern=f"{stem}-.*")
    with pytest.raises(DataLoss, match=f"queue '{gone}' was deleted, it was read up to offset 1; .*failOnDataLoss"):
        careful.latestOffset(start, ALL)
    careless = stream_reader(broker, subscribePattern=f"{stem}-.*", failOnDataLoss="false")
    assert careless.latestOffset(start, ALL) == {kept: 1, gone: 1}


def test_a_queue_that_was_declared_again_is_loss(broker: SparkBroker) -> None:
    stream = broker.stream("again", "abc")
    broker.declare_again(stream)
    broker.publish(stream, "x")
    with pytest.raises(DataLoss, match=f"queue '{stream}' ends at offset 1, but 3 was reached before"):
        stream_reader(broker, queue=stream).latestOffset({stream: 3}, ALL)
    careless = stream_reader(broker, queue=stream, failOnDataLoss="false")
    placed = careless.latestOffset({stream: 3}, ALL)
    assert placed == {stream: 0}
    assert bodies(careless, {stream: 3}, placed) == []
    assert bodies(careless, placed, careless.latestOffset(placed, ALL)) == [b"x"]


def trimmed_stream(broker: SparkBroker) -> tuple[str, int]:
    """A stream whose first messages were removed by retention, and its first offset."""
    small = {"x_max_length_bytes": 20_000, "x_stream_max_segment_size_bytes": 5_000}
    stream = broker.stream("trimmed", ["x" * 1000] * 60, **small)
    [source] = broker.ask("GET", "%2F/sources", queue=stream)["sources"]
    assert source["first"] > 0
    return stream, source["first"]


def test_offsets_that_retention_removed_are_loss(broker: SparkBroker) -> None:
    stream, first = trimmed_stream(broker)
    careful = stream_reader(broker, queue=stream)
    with pytest.raises(DataLoss, match=f"queue '{stream}': offsets 0 to {first - 1} were removed by retention"):
        careful.latestOffset({stream: 0}, ALL)
    with pytest.raises(DataLoss, match=f"queue '{stream}': offset 0 was removed .* the first is now {first}"):
        bodies(careful, {stream: 0}, {stream: 60})
    careless = stream_reader(broker, queue=stream, failOnDataLoss="false")
    end = careless.latestOffset({stream: 0}, ReadMaxRows(2))
    assert end == {stream: first + 2}
    assert len(bodies(careless, {stream: 0}, end)) == 2


def test_a_super_stream_is_read_shard_by_shard(broker: SparkBroker) -> None:
    exchange = broker.name("super")
    broker.channel.exchange_declare(exchange, "direct", durable=True)
    shards = [broker.stream(f"{exchange}-{n}", [str(n)]) for n in range(2)]
    for order, shard in enumerate(shards):
        arguments = {"x-stream-partition-order": 1 - order}
        broker.channel.queue_bind(shard, exchange, str(order), arguments=arguments)
    reader = stream_reader(broker, superStream=exchange, startingOffsets="earliest")
    start = reader.initialOffset()
    found = rows(reader, reader.partitions(start, reader.latestOffset(start, ALL)))
    assert {(row["body"], row["partition"]) for row in found} == {(b"0", 1), (b"1", 0)}


def test_what_is_not_there_is_refused_before_anything_runs(broker: SparkBroker) -> None:
    with pytest.raises(BrokerRefused, match="no queue 'absent' in vhost '/'"):
        stream_reader(broker, queue="absent")
    with pytest.raises(BrokerRefused, match=r"matches 'absent-.*'"):
        stream_reader(broker, subscribePattern="absent-.*")
    with pytest.raises(BrokerRefused, match="vhost"):
        stream_reader(broker, queue="q", vhost="absent")


def test_options_of_batches_are_refused(broker: SparkBroker) -> None:
    with pytest.raises(OptionError, match="endingOffsets is for batch reads"):
        stream_reader(broker, queue="q", endingOffsets="latest")
