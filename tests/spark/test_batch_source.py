"""Batch reads: any queue as it is now, without consuming it."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from leveret.spark.errors import DataLoss, OptionError
from tests.support.spark_broker import SparkBroker
from tests.support.spark_readers import batch_reader, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def bodies(broker: SparkBroker, **options: str) -> list[bytes]:
    reader = batch_reader(broker, **options)
    return [row["body"] for row in rows(reader, reader.partitions())]


def test_a_stream_is_read_whole_in_order_with_every_column(spark: SparkSession, broker: SparkBroker) -> None:
    before = time.time()
    stream = broker.stream("whole", [f"m{n}" for n in range(5)])
    published = time.time()
    found = spark.read.format("leveret").options(endpoint=broker.endpoint, queue=stream).load().collect()
    assert [bytes(row.body) for row in found] == [b"m0", b"m1", b"m2", b"m3", b"m4"]
    assert [row.offset for row in found] == [0, 1, 2, 3, 4]
    assert {(row.routing_key, row.exchange, row.queue, row.partition) for row in found} == {(stream, "", stream, 0)}
    assert found[0].headers is None
    assert found[0].properties.delivery_mode == 2
    assert not found[0].redelivered
    assert before - 1 < found[0].timestamp.timestamp() < published + 1


def test_a_classic_queue_is_read_and_stays_as_it_is(broker: SparkBroker) -> None:
    queue = broker.queue("browse", "abc")
    assert bodies(broker, queue=queue, minPartitions="2") == [b"a", b"b", b"c"]
    assert broker.bodies(queue) == [b"a", b"b", b"c"]


def test_an_empty_queue_gives_no_rows(spark: SparkSession, broker: SparkBroker) -> None:
    queue = broker.queue("empty")
    assert spark.read.format("leveret").options(endpoint=broker.endpoint, queue=queue).load().count() == 0


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [
        ("earliest", "latest", b"abcde"),
        ('{"%s": 2}', "latest", b"cde"),
        ("earliest", '{"%s": 2}', b"ab"),
        ('{"%s": 1}', '{"%s": 3}', b"bc"),
        ('{"%s": -2}', '{"%s": -1}', b"abcde"),
        ("latest", "latest", b""),
    ],
)
def test_offsets_say_what_is_read(broker: SparkBroker, start: str, end: str, found: bytes) -> None:
    stream = broker.stream("range", "abcde")
    options = {"startingOffsets": start.replace("%s", stream), "endingOffsets": end.replace("%s", stream)}
    assert b"".join(bodies(broker, queue=stream, **options)) == found


def moment_after(row: dict[str, Any]) -> int:
    """A millisecond that is later than the arrival of this message, and past."""
    moment = int(row["timestamp"].timestamp() * 1000) + 1
    while time.time() * 1000 <= moment:
        pass
    return moment


def test_moments_say_what_is_read(broker: SparkBroker) -> None:
    stream = broker.stream("time", "ab")
    reader = batch_reader(broker, queue=stream)
    moment = moment_after(rows(reader, reader.partitions())[1])
    broker.publish(stream, "cd")
    assert bodies(broker, queue=stream, startingTimestamp=str(moment)) == [b"c", b"d"]
    assert bodies(broker, queue=stream, endingTimestamp=str(moment)) == [b"a", b"b"]


def test_each_queue_has_a_moment_of_its_own(spark: SparkSession, broker: SparkBroker) -> None:
    stem = broker.name("moments")
    first, second = broker.stream(f"{stem}-a", "ab"), broker.stream(f"{stem}-b", "cd")
    reader = batch_reader(broker, subscribePattern=f"{stem}-.*")
    moment = moment_after(rows(reader, reader.partitions())[-1])
    broker.publish(first, "e")
    broker.publish(second, "f")
    options = {
        "startingTimestamp": {first: moment, second: 0},
        "endingTimestamp": {first: "2090-01-01", second: moment},
    }
    texts = {name: json.dumps(value) for name, value in options.items()}
    read = spark.read.format("leveret").options(endpoint=broker.endpoint, subscribePattern=f"{stem}-.*", **texts)
    found = read.load().collect()
    assert sorted((row.queue, bytes(row.body)) for row in found) == [(first, b"e"), (second, b"c"), (second, b"d")]


def test_moments_need_a_stream(broker: SparkBroker) -> None:
    queue = broker.queue("timeless", "a")
    with pytest.raises(OptionError, match=r"startingTimestamp needs stream queues, .* filter by the column timestamp"):
        bodies(broker, queue=queue, startingTimestamp="5")


def test_ranges_are_cut_into_partitions(broker: SparkBroker) -> None:
    stem = broker.name("parts")
    for stream in (broker.stream(f"{stem}-a", ["x"] * 9), broker.stream(f"{stem}-b", ["y"] * 3)):
        assert stream
    whole = batch_reader(broker, subscribePattern=f"{stem}-.*").partitions()
    assert len(whole) == 2
    reader = batch_reader(broker, subscribePattern=f"{stem}-.*", minPartitions="4")
    parts = reader.partitions()
    assert [part.stop - part.start for part in parts] == [3, 3, 3, 3]
    found = rows(reader, parts)
    assert [(row["partition"], row["offset"]) for row in found] == [(0, n) for n in range(9)] + [
        (1, n) for n in range(3)
    ]


def test_offsets_that_are_gone_are_loss_unless_allowed(broker: SparkBroker) -> None:
    small = {"x_max_length_bytes": 20_000, "x_stream_max_segment_size_bytes": 5_000}
    stream = broker.stream("gone", ["x" * 1000] * 60, **small)
    with pytest.raises(DataLoss, match=f"option startingOffsets: offset 0 of queue '{stream}' was deleted"):
        bodies(broker, queue=stream, startingOffsets=f'{{"{stream}": 0}}')
    careless = bodies(broker, queue=stream, startingOffsets=f'{{"{stream}": 0}}', failOnDataLoss="false")
    assert 0 < len(careless) < 60
    assert careless == bodies(broker, queue=stream)


def test_a_large_queue_arrives_whole_and_in_order(broker: SparkBroker) -> None:
    stream = broker.stream("large", [f"{n:06}" + "x" * (1 << 20) for n in range(30)])
    assert [int(body[:6]) for body in bodies(broker, queue=stream)] == list(range(30))


def test_options_of_streams_are_refused(broker: SparkBroker) -> None:
    with pytest.raises(OptionError, match="maxOffsetsPerTrigger is for streaming reads"):
        batch_reader(broker, queue="q", maxOffsetsPerTrigger="5")


def test_a_wrong_option_fails_at_load(spark: SparkSession, broker: SparkBroker) -> None:
    reader = spark.read.format("leveret").options(endpoint=broker.endpoint, queue="q", startingOfsets="earliest")
    with pytest.raises(Exception, match=r"option startingofsets is unknown; did you mean startingOffsets\?"):
        reader.load()


def test_chosen_columns_are_read_through_spark(spark: SparkSession, broker: SparkBroker) -> None:
    stream = broker.stream("columns", "ab")
    reader = spark.read.format("leveret").schema("offset bigint, body binary")
    found = reader.options(endpoint=broker.endpoint, queue=stream).load()
    assert [(row.offset, bytes(row.body)) for row in found.collect()] == [(0, b"a"), (1, b"b")]
