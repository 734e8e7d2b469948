"""S4-77: metrics for alerts: alarms, discarded messages, message sizes, disk syncs, ages, the lag of the event loop."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pika
import pytest

from leveret import Broker, FrozenClock
from leveret.api import metrics
from leveret.wire.properties import Properties
from tests.support.http_api import QUIET, HttpApi
from tests.support.running_clients import client
from tests.support.scraped_metrics import Scraped, scrape

pytestmark = [pytest.mark.broker(fresh=True, clock=FrozenClock), pytest.mark.feature("S4-77")]


@pytest.mark.parametrize(
    ("alarm", "metric"),
    [
        ("memory", "rabbitmq_alarms_memory_used_watermark"),
        ("disk", "rabbitmq_alarms_free_disk_space_watermark"),
        ("files", "rabbitmq_alarms_file_descriptor_limit"),
        ("store", "leveret_alarms_store_read_only"),
    ],
)
def test_each_alarm_has_a_metric(broker: Broker, alarm: str, metric: str) -> None:
    assert scrape(broker)[metric] == 0
    broker.call(lambda: broker.node.broker.set_alarm(alarm, "too much"))
    assert scrape(broker)[metric] == 1


DISCARDING = {
    "maxlen": {"x-max-length": 1},
    "expired": {"x-message-ttl": 1000},
    "rejected": {},
    "delivery_limit": {"x-delivery-limit": 1},
}
PUBLISHED = {"maxlen": 2, "expired": 2, "rejected": 3, "delivery_limit": 4}
DISCARDED = PUBLISHED | {"maxlen": 1}


@pytest.mark.parametrize(
    ("target", "strategy", "other"),
    [
        ({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}, "at_most_once", "disabled"),
        ({}, "disabled", "at_most_once"),
    ],
    ids=["dead-lettered", "dropped"],
)
def test_discarded_messages_are_counted_by_reason(
    broker: Broker, target: dict[str, object], strategy: str, other: str
) -> None:
    """Each queue discards its messages for one reason. A message that is due on a schedule is not discarded."""
    with client(broker) as channel:
        channel.queue_declare("dead")
        for queue, arguments in DISCARDING.items():
            channel.queue_declare(queue, arguments={**arguments, **target})
            for _ in range(PUBLISHED[queue]):
                channel.basic_publish("", queue, b"x")
        channel.basic_publish("", "dead", b"x", pika.BasicProperties(headers={"x-delay": 500}))
        for _ in range(3):
            channel.basic_reject(channel.basic_get("rejected")[0].delivery_tag, requeue=False)
        for _ in range(2):
            taken = [channel.basic_get("delivery_limit")[0].delivery_tag for _ in range(4)]
            channel.basic_nack(taken[-1], multiple=True, requeue=True)
        broker.clock.advance(2)
        channel.queue_delete("rejected")
        seen = scrape(broker)
    labels = '{{queue_type="rabbit_classic_queue",dead_letter_strategy="{}"}}'
    for reason, number in DISCARDED.items():
        name = f"rabbitmq_global_messages_dead_lettered_{reason}_total"
        assert seen.kinds[name] == "counter"
        assert (seen[name + labels.format(strategy)], seen[name + labels.format(other)]) == (number, 0), reason


@pytest.mark.parametrize("way", ["plain", "confirmed", "transaction", "in process"])
def test_sizes_of_published_messages_are_counted_once_each(broker: Broker, way: str) -> None:
    """With their properties; the last body is received in several frames. Each publish is a run of its own."""
    bodies = (10, 500, 500, 5_000, 200_000)
    local = broker.vhost()
    for queue in ("a", "b"):
        local.declare_queue(queue)
        local.bind(queue, "amq.fanout")
    if way == "in process":
        for size in bodies:
            local.publish("amq.fanout", "", b"x" * size)
    with client(broker) as channel:
        if way == "confirmed":
            channel.confirm_delivery()
        if way == "transaction":
            channel.tx_select()
        for size in bodies if way != "in process" else ():
            channel.basic_publish("amq.fanout", "", b"x" * size)
            channel.queue_declare("a", passive=True)
        channel.basic_publish("amq.fanout", "", b"", pika.BasicProperties(headers={"a": "b" * 200}))
        if way == "transaction":
            channel.tx_commit()
        channel.queue_declare("a", passive=True)
    name, seen = "rabbitmq_message_size_bytes", scrape(broker)
    limits = ("100", "1000", "10000", "100000", "1000000", "+Inf")
    assert [seen[f'{name}_bucket{{protocol="amqp091",le="{each}"}}'] for each in limits] == [1, 4, 5, 5, 6, 6]
    assert seen[f'{name}_count{{protocol="amqp091"}}'] == 6
    assert 0 <= seen[f'{name}_sum{{protocol="amqp091"}}'] - (sum(bodies) + 200) < 50
    assert seen.kinds[name] == "histogram"


READS, READ_BYTES, READ_TIME = (f"rabbitmq_io_read_{name}_total" for name in ("ops", "bytes", "time_seconds"))
IO = {
    f"rabbitmq_io_{name}_total"
    for name in ("write_ops", "write_bytes", "write_time_seconds", "sync_ops", "sync_time_seconds")
}


def test_the_disk_is_counted_if_there_is_one(broker: Broker, tmp_path: Path) -> None:
    assert {READS, READ_BYTES, READ_TIME, *IO} & scrape(broker).names == set()
    with Broker(replace(QUIET, data_dir=tmp_path / "data")) as stored, client(stored) as channel:
        channel.confirm_delivery()
        channel.queue_declare("a", durable=True)
        before = scrape(stored)
        for _ in range(3):
            channel.basic_publish("", "a", b"x" * 1000, pika.BasicProperties(delivery_mode=2))
        after = scrape(stored)
        detailed = scrape(stored, "/metrics/detailed?family=node_persister_metrics")
    grown = {name: after[name] - before[name] for name in IO}
    assert grown["rabbitmq_io_sync_ops_total"] >= 3, "one for each confirm"
    assert grown["rabbitmq_io_write_bytes_total"] > 3_000
    assert all(grown.values()), grown
    assert {
        name.replace("rabbitmq_", "rabbitmq_detailed_") for name in (READS, READ_BYTES, READ_TIME, *IO)
    } <= detailed.names


def test_reads_of_paged_out_messages_and_of_streams_are_counted(tmp_path: Path) -> None:
    settings, persistent = replace(QUIET, data_dir=tmp_path / "data"), Properties(delivery_mode=2)
    with Broker(settings) as first:
        vhost = first.vhost()
        vhost.declare_queue("paged", durable=True)
        vhost.declare_queue("stream", durable=True, arguments={"x-queue-type": "stream"})
        for name in ["paged"] * 10 + ["stream"] * 3:
            vhost.publish("", name, b"x" * (1 << 20), persistent)
    with Broker(settings) as second, client(second) as channel:

        def read_since(before: Scraped) -> tuple[float, float]:
            after = scrape(second)
            return after[READS] - before[READS], after[READ_BYTES] - before[READ_BYTES]

        before = scrape(second)
        for _ in range(10):
            channel.basic_get("paged", auto_ack=True)
        number, size = read_since(before)
        assert number >= 1
        assert size >= 7 << 20, "some messages are in memory"
        before = scrape(second)
        channel.basic_qos(prefetch_count=3)
        for method, _, _ in channel.consume("stream", arguments={"x-stream-offset": "first"}):
            channel.basic_ack(method.delivery_tag)
            if method.delivery_tag == 13:
                break
        number, size = read_since(before)
        assert number >= 1
        assert size >= 3 << 20
        row, seen = HttpApi(second.http_url).get("/api/nodes")[1][0], scrape(second)
        assert (row["io_read_count"], row["io_read_bytes"]) == (seen[READS], seen[READ_BYTES])
        assert "rate" in row["io_read_bytes_details"]
        assert abs(row["io_read_time"] - seen[READ_TIME] * 1e6) <= 1
        for kind in ("read", "write", "sync"):
            mean = row[f"io_{kind}_time"] / row[f"io_{kind}_count"] / 1000
            assert 0 < row[f"io_{kind}_avg_time"] == pytest.approx(mean, abs=0.001), kind
            assert row[f"io_{kind}_avg_time_details"].keys() == {"rate"}


def test_ages_are_those_of_each_queue_and_of_the_oldest_that_is_no_stream(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    local, age = broker.vhost(), "leveret_queue_oldest_message_age_seconds"
    local.declare_queue("empty")
    local.declare_queue("log", durable=True, arguments={"x-queue-type": "stream"})
    local.publish("", "log", b"x")
    broker.clock.advance(100)
    for queue, seconds in (("old", 40), ("young", 20)):
        local.declare_queue(queue, arguments={"x-message-ttl": 1_000_000})
        local.publish("", queue, b"x")
        broker.clock.advance(seconds)
    seen = scrape(broker, "/metrics/per-object")
    ages = {queue: seen[f'{age}{{vhost="/",queue="{queue}"}}'] for queue in ("old", "young", "empty")}
    assert ages == {"old": 60, "young": 20, "empty": 0}
    assert scrape(broker)["leveret_oldest_message_age_seconds"] == 60
    broker.vhost().delete_queue("log")
    monkeypatch.setattr(metrics, "MOST", 0)
    others = scrape(broker, "/metrics/detailed?family=queue_metrics&family=queue_coarse_metrics")
    assert others[f'{age}{{vhost="",queue=""}}'] == 60, "the oldest of them, not their sum"
    assert others['rabbitmq_detailed_queue_messages_ready{vhost="",queue=""}'] == 2


def test_the_lag_of_the_event_loop_is_measured(broker: Broker) -> None:
    first = second = scrape(broker)
    assert first.kinds["leveret_loop_lag_seconds"] == "summary"
    while second["leveret_loop_lag_seconds_count"] <= first["leveret_loop_lag_seconds_count"]:
        second = scrape(broker)
    assert second["leveret_loop_lag_seconds_sum"] >= first["leveret_loop_lag_seconds_sum"] >= 0


@pytest.mark.parametrize("family", ["nope", "", "Queue_metrics", "x" * 5_000])
def test_a_family_that_does_not_exist_is_refused_with_those_that_do(broker: Broker, family: str) -> None:
    api = HttpApi(broker.http_url, None)
    status, answer = api.get(f"/metrics/detailed?family=queue_metrics&family={family}")
    assert (status, answer["error"]) == (400, "bad_request")
    assert f"unknown metric family '{family[:40]}'" in answer["reason"]
    assert len(answer["reason"]) < 1_000
    known = answer["reason"].partition("use one of ")[2].split(", ")
    assert {"queue_coarse_metrics", "node_persister_metrics", "stream_consumer_metrics"} <= set(known)
    for each in (*known, "ra_metrics"):  # the last one is RabbitMQ's, and has no metrics here
        assert api.send("GET", f"/metrics/detailed?family={each}")[0].status == 200
