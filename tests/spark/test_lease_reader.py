"""Streaming reads of classic queues: each batch is a lease, the same however often it is planned."""

from __future__ import annotations

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


def test_several_classic_queues_are_refused(broker: SparkBroker) -> None:
    stem = broker.name("several")
    first = broker.queue(f"{stem}-a")
    with pytest.raises(OptionError, match=f"pattern '{stem}-.\\*' contains the classic queue '{first}'"):
        stream_reader(broker, subscribePattern=f"{stem}-.*", consumerName="c")


def test_a_queue_that_cannot_be_leased_says_why(broker: SparkBroker) -> None:
    queue = broker.name("transient")
    broker.channel.queue_declare(queue, durable=False)
    broker.publish(queue, "a")
    reader = lease_reader(broker, queue)
    with pytest.raises(BrokerRefused, match="durable"):
        reader.latestOffset(reader.initialOffset(), ALL)
