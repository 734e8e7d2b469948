"""CWE-407: a request of a reader must not hold the event loop, whatever queues and patterns it names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from leveret.wire.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.support.attack_target import AttackTarget
from tests.support.http_api import arrow_stream, vhost_path
from tests.support.raw_client import RawClient

pytestmark = pytest.mark.quiet
MESSAGES, TIMES = 10_000, 4_000


@pytest.fixture
def attacked(tmp_path: Path) -> Iterator[AttackTarget]:
    with AttackTarget(tmp_path) as running:
        yield running


def test_a_queue_with_returned_messages_can_be_named_many_times(attacked: AttackTarget) -> None:
    batch = pa.record_batch({"body": [b"x"] * MESSAGES, "routing_key": ["q"] * MESSAGES})
    with RawClient.open(attacked.url(), timeout=60.0) as client:
        client.call(QueueDeclare("q", durable=True), QueueDeclareOk)
        assert attacked.api.post(vhost_path("messages"), arrow_stream(batch))[0] == 200
        client.call(BasicConsume("q", "tag"), BasicConsumeOk)
        for _ in range(MESSAGES):
            client.expect_content(BasicDeliver)
    status, answer = attacked.api.get(f"{vhost_path('offsets')}?{'&'.join(['queue=q'] * TIMES)}")
    attacked.check()
    assert status == 200
    assert [(each["queue"], each["first"]) for each in answer["offsets"]] == [("q", 1)] * TIMES


def test_a_filter_by_routing_key_takes_little_time_for_each_message(attacked: AttackTarget) -> None:
    keys = [".".join(["a"] * 120) + str(number) for number in range(1_500)]
    with RawClient.open(attacked.url(), timeout=60.0) as client:
        client.call(QueueDeclare("q", durable=True), QueueDeclareOk)
        client.call(QueueBind("q", "amq.topic", "#"), QueueBindOk)
    batch = pa.record_batch({"body": [b"x"] * len(keys), "routing_key": keys})
    assert attacked.api.post(vhost_path("messages"), arrow_stream(batch), exchange="amq.topic")[0] == 200
    pattern = ".".join(["#", "*"] * 60)
    for asked, rows in ((pattern, len(keys)), (f"{pattern}.b", 0)):
        assert attacked.api.table(vhost_path("messages"), queue="q", routing_key=asked).num_rows == rows
    attacked.check()
    assert attacked.api.get(vhost_path("messages"), queue="q", routing_key="#." * 200)[0] == 400
