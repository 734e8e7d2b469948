"""Streaming reads of classic queues: each batch is a lease, the same however often it is planned."""

from __future__ import annotations

import os
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from leveret.spark.errors import BrokerRefused, DataLoss, OptionError
from tests.support.spark_broker import SparkBroker
from tests.support.spark_readers import bodies, rows, stream_reader

ALL = ReadAllAvailable()


def lease_reader(broker: SparkBroker, queue: str, consumer: str = "spark", **options: str) -> Any:
    return stream_reader(broker, queue=queue, consumerName=consumer, **options)


def offset(queue: str, lease: int, consumer: str = "spark") -> dict[str, Any]:
    return {"consumer": consumer, "lease": lease, "queue": queue, "vhost": "/"}


def test_a_batch_is_a_lease_and_a_finished_one_leaves_the_queue(broker: SparkBroker) -> None:
    queue = broker.queue("lease", "abc")
    reader = lease_reader(broker, queue)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert (start, end) == (offset(queue, 0), offset(queue, 1))
    assert sorted(bodies(reader, start, end)) == [b"a", b"b", b"c"]
    assert len(broker.ask("GET", "%2F/leases", queue=queue)["leases"]) == 1
    reader.commit(end)
    assert broker.ask("GET", "%2F/leases", queue=queue)["leases"] == []
    assert broker.bodies(queue) == []


def test_a_batch_that_is_planned_again_is_the_same(broker: SparkBroker) -> None:
    queue = broker.queue("replan", "abc")
    first = lease_reader(broker, queue)
    start = first.initialOffset()
    end = first.latestOffset(start, ReadMaxRows(2))
    broker.publish(queue, "d")
    first.stop()
    again = lease_reader(broker, queue)  # the driver was killed
    assert again.latestOffset(again.initialOffset(), ALL) == end
    assert sorted(bodies(again, start, end)) == [b"a", b"b"]


def test_asking_for_more_commits_what_is_finished(broker: SparkBroker) -> None:
    queue = broker.queue("finish", "a")
    reader = lease_reader(broker, queue)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    assert reader.latestOffset(end, ALL) == end
    [consumer] = broker.ask("GET", "%2F/leases", queue=queue)["consumers"]
    assert (consumer["consumer"], consumer["committed"]) == ("spark", 1)


def test_a_new_query_under_the_name_goes_on_behind_what_was_committed(broker: SparkBroker) -> None:
    queue = broker.queue("anew", "ab")
    old = lease_reader(broker, queue)
    done = old.latestOffset(old.initialOffset(), ReadMaxRows(1))
    old.commit(done)
    old.stop()
    new = lease_reader(broker, queue)
    start = new.initialOffset()
    assert start == done
    assert bodies(new, start, new.latestOffset(start, ALL)) == [b"b"]


def test_messages_per_batch_and_slices_are_limited(broker: SparkBroker) -> None:
    queue = broker.queue("limits", [f"{n:02}" for n in range(10)])
    reader = lease_reader(broker, queue, maxOffsetsPerTrigger="6", minPartitions="3")
    assert reader.getDefaultReadLimit() == ReadMaxRows(6)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(6))
    parts = reader.partitions(start, end)
    assert [(part.lease, part.index, part.count) for part in parts] == [(1, 0, 3), (1, 1, 3), (1, 2, 3)]
    assert [row["body"] for row in rows(reader, parts)] == [f"{n:02}".encode() for n in range(6)]


def test_bytes_per_batch_are_limited(broker: SparkBroker) -> None:
    queue = broker.queue("size", ["x" * 1000] * 10)
    reader = lease_reader(broker, queue, maxBytesPerTrigger="3500")
    start = reader.initialOffset()
    assert 1 <= len(bodies(reader, start, reader.latestOffset(start, ALL))) <= 4


def test_available_now_ends_with_what_was_there_and_takes_open_leases_too(broker: SparkBroker) -> None:
    queue = broker.queue("now", "abcde")
    killed = lease_reader(broker, queue)
    killed.latestOffset(killed.initialOffset(), ReadMaxRows(2))
    killed.stop()
    reader = lease_reader(broker, queue)
    reader.prepareForTriggerAvailableNow()
    broker.publish(queue, "xyz")
    start, ends = reader.initialOffset(), []
    while not ends or ends[-1] != (ends[-2] if len(ends) > 1 else start):
        ends.append(reader.latestOffset(ends[-1] if ends else start, ReadMaxRows(2)))
    assert [end["lease"] for end in ends] == [1, 2, 3, 3]
    assert broker.bodies(queue) == [b"x", b"y", b"z"]


def test_available_now_takes_an_open_lease_when_nothing_is_ready(broker: SparkBroker) -> None:
    queue = broker.queue("open", "ab")
    killed = lease_reader(broker, queue)
    end = killed.latestOffset(killed.initialOffset(), ALL)
    killed.stop()
    reader = lease_reader(broker, queue)
    reader.prepareForTriggerAvailableNow()
    assert reader.latestOffset(reader.initialOffset(), ALL) == end
    assert reader.latestOffset(end, ALL) == end


def test_a_checkpoint_of_another_consumer_is_refused(broker: SparkBroker) -> None:
    queue = broker.queue("mine", "a")
    reader = lease_reader(broker, queue, "mine")
    with pytest.raises(OptionError, match=r"the checkpoint belongs to consumer 'theirs', not 'mine'; .*checkpoint"):
        reader.latestOffset(offset(queue, 3, "theirs"), ALL)


def test_a_checkpoint_whose_leases_were_released_is_refused(broker: SparkBroker) -> None:
    queue = broker.queue("released", "a")
    reader = lease_reader(broker, queue)
    end = reader.latestOffset(reader.initialOffset(), ALL)
    reader.stop()
    broker.ask("DELETE", "%2F/leases", queue=queue, consumer="spark")
    with pytest.raises(DataLoss, match=r"does not exist or was released.*new checkpointLocation"):
        lease_reader(broker, queue).latestOffset(end, ALL)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "option consumerName is missing: queue '.*' is a classic queue"),
        ({"consumerName": "c", "startingOffsets": "earliest"}, "startingOffsets is not supported: .* remove it"),
        ({"consumerName": "c", "startingTimestamp": "1"}, "startingTimestamp is not supported"),
        ({"consumerName": "c", "pinned": "true"}, "pinned is not supported"),
        ({"consumerName": "c", "routingKeyPattern": "a.#"}, "routingKeyPattern is not supported"),
    ],
)
def test_options_that_do_not_fit_a_classic_queue_are_refused(
    broker: SparkBroker, options: dict[str, str], text: str
) -> None:
    queue = broker.queue("strict")
    with pytest.raises(OptionError, match=text):
        stream_reader(broker, queue=queue, **options)


def test_several_queues_are_leased_at_once_and_new_ones_follow(broker: SparkBroker) -> None:
    stem = broker.name("several")
    long, short = broker.queue(f"{stem}-a", "abcdef"), broker.queue(f"{stem}-b", "xy")
    reader = stream_reader(broker, subscribePattern=f"{stem}-.*", consumerName="c")
    start = reader.initialOffset()
    assert start == {"consumer": "c", "leases": {long: 0, short: 0}, "vhost": "/"}
    end = reader.latestOffset(start, ReadMaxRows(4))
    found = rows(reader, reader.partitions(start, end))
    assert sorted((row["queue"], row["body"], row["partition"]) for row in found) == [
        *((long, body, 0) for body in (b"a", b"b", b"c")),
        (short, b"x", 1),
    ]
    new = broker.queue(f"{stem}-c", "n")
    placed = reader.latestOffset(end, ReadMaxRows(1))
    assert placed["leases"] == {long: 2, short: 1, new: 0}
    broker.channel.queue_purge(long)
    following = reader.latestOffset(placed, ALL)
    assert sorted(bodies(reader, placed, following)) == [b"n", b"y"]
    reader.stop()
    again = stream_reader(broker, subscribePattern=f"{stem}-.*", consumerName="c")
    assert again.latestOffset(placed, ALL) == following, "open leases are found again"
    assert again.latestOffset(following, ALL) == following
    assert broker.ask("GET", "%2F/leases", consumer="c")["leases"] == []
    again.stop()


def test_several_queues_with_available_now_end(broker: SparkBroker) -> None:
    stem = broker.name("end")
    first, second = broker.queue(f"{stem}-a", "abc"), broker.queue(f"{stem}-b", "xy")
    reader = stream_reader(broker, subscribePattern=f"{stem}-.*", consumerName="c")
    at = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    broker.publish(first, "later")
    broker.queue(f"{stem}-c", "n")
    found = []
    while (end := reader.latestOffset(at, ReadMaxRows(2))) != at:
        found += bodies(reader, at, end)
        at = end
    assert sorted(found) == [b"a", b"b", b"c", b"x", b"y"]
    assert at["leases"].keys() == {first, second}


def test_classic_queues_and_streams_are_not_read_together(broker: SparkBroker) -> None:
    stem = broker.name("mixed")
    classic, stream = broker.queue(f"{stem}-a"), broker.stream(f"{stem}-b")
    with pytest.raises(OptionError, match=f"contains the classic queue '{classic}' and the stream '{stream}'"):
        stream_reader(broker, subscribePattern=f"{stem}-.*", consumerName="c")


def test_a_queue_that_vanishes_is_loss(broker: SparkBroker) -> None:
    stem = broker.name("leased-vanish")
    kept, gone = broker.queue(f"{stem}-a", "a"), broker.queue(f"{stem}-b")
    broker.channel.queue_delete(gone)
    start = {"consumer": "c", "leases": {kept: 0, gone: 3}, "vhost": "/"}
    with pytest.raises(DataLoss, match=f"queue '{gone}' was deleted, it was read up to lease 3; .*failOnDataLoss"):
        stream_reader(broker, subscribePattern=f"{stem}-.*", consumerName="c").latestOffset(start, ALL)
    careless = stream_reader(broker, subscribePattern=f"{stem}-.*", consumerName="d", failOnDataLoss="false")
    start = careless.initialOffset()
    start["leases"][gone] = 3
    assert careless.latestOffset(start, ALL)["leases"] == {kept: 1, gone: 3}


def test_a_second_query_under_the_name_is_refused_at_its_start(broker: SparkBroker) -> None:
    queue = broker.queue("taken", "ab")
    first, second = lease_reader(broker, queue), lease_reader(broker, queue)
    end = first.latestOffset(first.initialOffset(), ReadMaxRows(1))
    in_use = f"consumerName 'spark' is in use on queue '{queue}' by a running query: process {os.getpid()} on .*since"
    with pytest.raises(OptionError, match=in_use):
        second.initialOffset()
    with pytest.raises(OptionError, match=in_use):
        second.latestOffset(end, ALL)
    assert bodies(first, first.initialOffset(), end) == [b"a"], "the first is not disturbed"
    first.stop()
    assert second.initialOffset() == offset(queue, 0)
    second.stop()


def test_a_batch_waits_for_enough_messages(broker: SparkBroker) -> None:
    queue = broker.queue("few", "a")
    reader = lease_reader(broker, queue, minOffsetsPerTrigger="3", maxTriggerDelay="1h")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    assert end["lease"] == 1, "the first batch does not wait"
    broker.publish(queue, "bc")
    assert reader.latestOffset(end, ALL) == end
    broker.publish(queue, "d")
    following = reader.latestOffset(end, ALL)
    assert sorted(bodies(reader, end, following)) == [b"b", b"c", b"d"]


def test_a_queue_that_cannot_be_leased_says_why(broker: SparkBroker) -> None:
    queue = broker.name("transient")
    broker.channel.queue_declare(queue, durable=False)
    broker.publish(queue, "a")
    reader = lease_reader(broker, queue)
    with pytest.raises(BrokerRefused, match="durable"):
        reader.latestOffset(reader.initialOffset(), ALL)
