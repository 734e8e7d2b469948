"""How far a query is behind, from the end offsets of its progress. Spark itself is not needed here."""

from __future__ import annotations

import json

from leveret.spark import source_metrics
from tests.support.spark_broker import SparkBroker
from tests.unit.spark.test_progress import OURS


def test_messages_bytes_and_age_are_counted_from_the_end_of_the_batch(broker: SparkBroker) -> None:
    stream, queue = broker.stream("behind", ["x" * 100] * 4), broker.queue("ready", "ab")
    lease = {"consumer": "c", "leases": {queue: 3}, "vhost": "/"}
    ends = [{stream: 1}, {stream: 4}, lease, {"no-such-queue": 1}]
    sources = [{"description": OURS, "endOffset": end} for end in ends] + [{"description": "RateStreamV2"}]
    found = source_metrics(json.dumps({"sources": sources}), {"endpoint": broker.endpoint})
    some, none, leased = found
    assert (some["description"], some["messages"]) == (f"leveret: queue '{stream}'", 3)
    assert 300 < some["bytes"] < 1000  # type: ignore[operator]
    assert 0 <= some["oldest_seconds"] < 60  # type: ignore[operator]
    assert (none["messages"], none["bytes"], none["oldest_seconds"]) == (0, 0, None)
    assert (leased["description"], leased["messages"]) == (f"leveret: queue '{queue}' as consumer 'c'", 2)
    assert leased["oldest_seconds"] is None, "the broker shows no arrival times of classic queues"
