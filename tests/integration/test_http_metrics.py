"""S4-77: metrics for Prometheus by RabbitMQ's names."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pika
import pytest

from leveret import Broker, FrozenClock
from leveret.api import metrics
from leveret.http import app
from leveret.http import time_slice as turns
from leveret.stats.exposition_text import written
from leveret.stats.metric_families import Family
from leveret.wire.properties import Properties
from tests.support.http_api import QUIET, HttpApi
from tests.support.http_objects import ObjectsApi
from tests.support.management_api import as_user
from tests.support.running_clients import client
from tests.support.scraped_metrics import scrape

OVERVIEW_DASHBOARD = [
    "rabbitmq_queue_messages_ready",
    "rabbitmq_queue_messages_unacked",
    "rabbitmq_global_messages_received_total",
    "rabbitmq_global_messages_redelivered_total",
    "rabbitmq_global_messages_delivered_consume_auto_ack_total",
    "rabbitmq_global_messages_delivered_consume_manual_ack_total",
    "rabbitmq_global_messages_delivered_get_auto_ack_total",
    "rabbitmq_global_messages_delivered_get_manual_ack_total",
    "rabbitmq_global_messages_acknowledged_total",
    "rabbitmq_global_messages_confirmed_total",
    "rabbitmq_global_messages_routed_total",
    "rabbitmq_global_messages_received_confirm_total",
    "rabbitmq_global_messages_unroutable_dropped_total",
    "rabbitmq_global_messages_unroutable_returned_total",
    "rabbitmq_global_messages_get_empty_total",
    "rabbitmq_global_publishers",
    "rabbitmq_channel_messages_unconfirmed",
    "rabbitmq_channel_consumers",
    "rabbitmq_consumers",
    "rabbitmq_connections",
    "rabbitmq_connections_opened_total",
    "rabbitmq_connections_closed_total",
    "rabbitmq_channels",
    "rabbitmq_channels_opened_total",
    "rabbitmq_channels_closed_total",
    "rabbitmq_queues",
    "rabbitmq_queues_declared_total",
    "rabbitmq_queues_created_total",
    "rabbitmq_queues_deleted_total",
    "rabbitmq_build_info",
    "rabbitmq_identity_info",
    "rabbitmq_resident_memory_limit_bytes",
    "rabbitmq_process_resident_memory_bytes",
    "rabbitmq_disk_space_available_bytes",
    "rabbitmq_process_max_fds",
    "rabbitmq_process_open_fds",
    "rabbitmq_process_max_tcp_sockets",
    "rabbitmq_process_open_tcp_sockets",
    "rabbitmq_message_size_bytes_bucket",
    "rabbitmq_message_size_bytes_sum",
    "rabbitmq_message_size_bytes_count",
]


pytestmark = pytest.mark.broker(fresh=True, clock=FrozenClock)


@pytest.mark.feature("S4-77")
def test_the_overview_dashboard_of_rabbitmq_finds_all_its_metrics(broker: Broker) -> None:
    seen = scrape(broker)
    assert set(OVERVIEW_DASHBOARD) - seen.names == set()
    assert seen.names >= {"process_resident_memory_bytes", "process_start_time_seconds"}
    node = broker.node.broker.node_name
    (identity,) = [name for name in seen.values if name.startswith("rabbitmq_identity_info")]
    assert f'rabbitmq_node="{node}"' in identity
    assert f'rabbitmq_cluster="{node}"' in identity
    assert not [name for name in seen.values if "erlang_version" in name], "no Erlang runs here"


@pytest.mark.feature("S4-77")
def test_sums_are_those_of_everything(broker: Broker) -> None:
    with client(broker) as channel:
        channel.confirm_delivery()
        for queue in ("a", "b"):
            channel.queue_declare(queue)
            channel.queue_bind(queue, "amq.fanout")
        for _ in range(3):
            channel.basic_publish("amq.fanout", "", b"x")
        channel.basic_publish("", "nobody", b"x")
        channel.basic_get("a")
        channel.basic_get("b", auto_ack=True)
        channel.basic_consume("b", lambda *_: None, auto_ack=True)
        seen = scrape(broker)
    amqp = '{protocol="amqp091"}'
    assert (seen["rabbitmq_queue_messages_ready"], seen["rabbitmq_queue_messages_unacked"]) == (2, 1)
    assert (seen["rabbitmq_connections"], seen["rabbitmq_channels"], seen["rabbitmq_consumers"]) == (1, 1, 1)
    assert (seen["rabbitmq_queues"], seen["rabbitmq_queue_messages_published_total"]) == (2, 6)
    assert seen[f"rabbitmq_global_messages_received_total{amqp}"] == 4
    assert seen[f"rabbitmq_global_messages_confirmed_total{amqp}"] == 4
    assert seen[f"rabbitmq_global_messages_routed_total{amqp}"] == 6
    assert seen[f"rabbitmq_global_messages_unroutable_dropped_total{amqp}"] == 1
    assert seen[f"rabbitmq_global_messages_delivered_get_manual_ack_total{amqp}"] == 1
    assert seen[f"rabbitmq_global_messages_delivered_get_auto_ack_total{amqp}"] == 1
    assert seen[f"rabbitmq_global_messages_delivered_consume_auto_ack_total{amqp}"] == 2
    assert seen["rabbitmq_connection_incoming_bytes_total"] > 100


def test_counters_never_shrink(broker: Broker) -> None:
    with client(broker) as channel:
        channel.confirm_delivery()
        channel.queue_declare("a")
        channel.exchange_declare("e", "fanout")
        channel.queue_bind("a", "e")
        channel.basic_publish("e", "", b"x")
        channel.basic_get("a", auto_ack=True)
        channel.basic_get("a", auto_ack=True)
        during = scrape(broker)
        channel.queue_delete("a")
        channel.exchange_delete("e")
    after = scrape(broker)
    counters = [name for name in during.values if during.kinds.get(name.partition("{")[0]) == "counter"]
    assert len(counters) > 30
    assert {name: (during[name], after[name]) for name in counters if after[name] < during[name]} == {}


@pytest.mark.feature("S4-77")
def test_each_channel_tells_what_it_counted(broker: Broker) -> None:
    with client(broker) as channel:
        channel.confirm_delivery()
        channel.queue_declare("a")
        for _ in range(3):
            channel.basic_publish("", "a", b"x")
        with pytest.raises(pika.exceptions.UnroutableError):
            channel.basic_publish("", "nobody", b"x", mandatory=True)
        seen = scrape(broker, "/metrics/per-object")
        detailed = scrape(broker, "/metrics/detailed?family=channel_exchange_metrics")
    counted = {
        name.partition("{")[0]: value
        for name, value in seen.values.items()
        if re.match("rabbitmq_channel_.*total", name)
    }
    assert counted == {
        "rabbitmq_channel_messages_published_total": 4,
        "rabbitmq_channel_messages_confirmed_total": 4,
        "rabbitmq_channel_messages_unroutable_returned_total": 1,
    }
    assert {seen.kinds[name] for name in counted} == {"counter"}
    assert {name.replace("rabbitmq_", "rabbitmq_detailed_") for name in counted} <= detailed.names


@pytest.mark.feature("S4-77")
def test_bytes_of_queues_are_those_of_the_json(tmp_path: Path) -> None:
    """Messages that wait for their next try are not ready, and what a stream has in its files counts."""
    with Broker(replace(QUIET, data_dir=tmp_path / "data"), clock=FrozenClock()) as broker:
        api, vhost = ObjectsApi(broker.http_url), broker.vhost()
        vhost.declare_queue("tries", durable=True, arguments={"x-retry-delays": [60_000]})
        vhost.declare_queue("flow", durable=True, arguments={"x-queue-type": "stream"})
        for queue in ("tries", "tries", "flow"):
            vhost.publish("", queue, b"x" * 100, Properties(delivery_mode=2))
        assert len(api.take("tries", 1, "reject_requeue_true")) == 1
        assert api.get("/api/pipeline/%2F/sources", queue="flow")[0] == 200  # waits for the files
        seen = scrape(broker, "/metrics/per-object")
        for name in ("tries", "flow"):
            row, labels = api.queue(name), f'{{vhost="/",queue="{name}"}}'
            assert row["message_bytes_ready"] > 100
            for metric, field in (
                ("queue_messages_bytes", "message_bytes"),
                ("queue_messages_ready_bytes", "message_bytes_ready"),
                ("queue_messages_unacked_bytes", "message_bytes_unacknowledged"),
            ):
                assert seen[f"rabbitmq_{metric}{labels}"] == row[field], (name, field)
        assert api.queue("tries")["message_bytes_ready"] < api.queue("tries")["message_bytes"]


# ---- objects


@pytest.mark.feature("S4-77")
def test_each_queue_connection_and_channel_has_its_lines(broker: Broker) -> None:
    with client(broker) as channel:
        channel.queue_declare("a")
        channel.queue_declare("b")
        channel.basic_publish("", "b", b"four")
        channel.basic_qos(prefetch_count=4)
        channel.queue_declare("b", passive=True)
        seen = scrape(broker, "/metrics/per-object")
    ready = "rabbitmq_queue_messages_ready"
    assert (seen[f'{ready}{{vhost="/",queue="a"}}'], seen[f'{ready}{{vhost="/",queue="b"}}']) == (0, 1)
    assert seen['rabbitmq_queue_messages_published_total{vhost="/",queue="b"}'] == 1
    (prefetch,) = [value for name, value in seen.values.items() if name.startswith("rabbitmq_consumer_prefetch{")]
    assert prefetch == 4
    assert sum(name.startswith("rabbitmq_connection_incoming_bytes_total{connection=") for name in seen.values) == 1
    assert seen["leveret_metrics_queues_left_out"] == 0


def test_lines_of_queues_are_bounded_and_the_rest_is_added_up(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MOST", 3)
    monkeypatch.setattr(turns, "SLICE_SECONDS", 0.0)
    local = broker.vhost()
    for number in range(7):
        local.declare_queue(f"q{number}")
        for _ in range(number):
            local.publish("", f"q{number}", b"x")
    seen = scrape(broker, "/metrics/detailed?family=queue_coarse_metrics")
    ready = "rabbitmq_detailed_queue_messages_ready"
    assert {name: value for name, value in seen.values.items() if name.startswith(f"{ready}{{")} == {
        f'{ready}{{vhost="/",queue="q0"}}': 0,
        f'{ready}{{vhost="/",queue="q1"}}': 1,
        f'{ready}{{vhost="/",queue="q2"}}': 2,
        f'{ready}{{vhost="",queue=""}}': 3 + 4 + 5 + 6,
    }
    assert seen["leveret_metrics_queues_left_out"] == 4


def test_details_are_told_by_group_and_virtual_host(broker: Broker) -> None:
    broker.call(lambda: broker.node.broker.add_vhost("other"))
    broker.vhost().declare_queue("a")
    broker.vhost("other").declare_queue("b")
    seen = scrape(broker, "/metrics/detailed?family=queue_coarse_metrics&family=ra_metrics&vhost=other")
    assert {name for name in seen.values if "queue=" in name} == {
        f'rabbitmq_detailed_{name}{{vhost="other",queue="b"}}'
        for name in ("queue_messages_ready", "queue_messages_unacked", "queue_messages")
    }
    nothing = scrape(broker, "/metrics/detailed")
    assert nothing.names == {"rabbitmq_build_info", "rabbitmq_identity_info"}
    churn = scrape(broker, "/metrics/detailed?family=connection_churn_metrics")
    assert churn["rabbitmq_detailed_queues_created_total"] == 2


def test_names_that_would_break_a_line_are_escaped(broker: Broker) -> None:
    broker.vhost().declare_queue('a"b\\c\nd')
    seen = scrape(broker, "/metrics/per-object")
    assert seen['rabbitmq_queue_messages_ready{vhost="/",queue="a\\"b\\\\c\\nd"}'] == 0


def test_the_text_has_help_and_kind_before_the_samples() -> None:
    family = Family("x", "gauge", "What it is")
    assert written([("p_", family, [((("a", "b"),), 1), ((), 2.5)])]) == (
        b'# HELP p_x What it is\n# TYPE p_x gauge\np_x{a="b"} 1\np_x 2.5\n'
    )


# ---- who may ask


def status_of(api: HttpApi, path: str) -> int:
    return api.send("GET", path)[0].status


@pytest.mark.parametrize("path", ["/metrics", "/metrics/per-object", "/metrics/detailed"])
@pytest.mark.feature("S4-72")
def test_from_elsewhere_it_takes_a_monitoring_user(broker: Broker, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    assert status_of(HttpApi(broker.http_url, None), path) == 200
    monkeypatch.setattr(app, "is_loopback", lambda address: False)
    assert status_of(HttpApi(broker.http_url, None), path) == 401
    assert status_of(as_user(broker, "anna", "management").http, path) == 403
    assert status_of(as_user(broker, "max", "monitoring").http, path) == 200


@pytest.mark.feature("S4-72")
def test_metrics_can_be_opened_to_other_hosts_and_nothing_else_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "is_loopback", lambda address: False)
    with Broker(replace(QUIET, metrics_auth="off")) as broker:
        anyone = HttpApi(broker.http_url, None)
        for path in ("/metrics", "/metrics/per-object", "/metrics/detailed"):
            assert status_of(anyone, path) == 200
            assert status_of(HttpApi(broker.http_url, "guest", "wrong"), path) == 401
            assert status_of(as_user(broker, "anna", "management").http, path) == 403
        for path in ("/metrics/", "/metrics/other", "/api/overview"):
            assert status_of(anyone, path) == 401


@pytest.mark.feature("S4-72")
def test_a_login_that_is_given_must_be_right(broker: Broker) -> None:
    assert status_of(HttpApi(broker.http_url, "guest", "wrong"), "/metrics") == 401


def test_other_paths_are_not_open_to_this_machine(broker: Broker) -> None:
    for path in ("/metrics/other", "/metrics/", "/api/overview", "/metrics%2Fper-object"):
        assert status_of(HttpApi(broker.http_url, None), path) == 401


def test_no_password_is_ever_told(broker: Broker) -> None:
    broker.call(lambda: broker.node.broker.users.add("anna", password="sesame-open"))
    for path in ("/metrics", "/metrics/per-object"):
        _, body = HttpApi(broker.http_url, None).send("GET", path)
        assert b"sesame-open" not in body
        assert b"amqp://" not in body
