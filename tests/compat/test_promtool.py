"""Prometheus' own tool reads the metrics, the alert rules and the expressions of the dashboard."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pika
import pytest

from leveret import Broker
from tests.support.http_api import QUIET, HttpApi
from tests.support.monitoring_files import RULES, alerts, dashboard_expressions, metrics_in
from tests.support.programs import require_program
from tests.support.running_clients import client
from tests.support.scraped_metrics import Scraped

FAMILIES = "family=queue_coarse_metrics&family=queue_metrics&family=node_persister_metrics"
PATHS = ("/metrics", "/metrics/per-object", f"/metrics/detailed?{FAMILIES}")
JOB = 'job="leveret",instance="a"'


def promtool(*arguments: str, text: bytes = b"") -> str:
    done = subprocess.run([require_program("promtool"), *arguments], input=text, capture_output=True, timeout=60)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()
    return (done.stdout + done.stderr).decode()


def texts(tmp_path: Path) -> dict[str, bytes]:
    """The metrics of a broker with a disk, a queue, a connection and a channel."""
    with Broker(replace(QUIET, data_dir=tmp_path / "data")) as broker, client(broker) as channel:
        channel.confirm_delivery()
        channel.queue_declare("a", durable=True)
        channel.basic_publish("", "a", b"x", pika.BasicProperties(delivery_mode=2))
        return {path: HttpApi(broker.http_url, None).send("GET", path)[1] for path in PATHS}


@pytest.mark.feature("S4-77")
def test_metrics_pass_the_linter_and_the_dashboard_finds_all_of_a_single_node(tmp_path: Path) -> None:
    found = texts(tmp_path)
    names: set[str] = set()
    for text in found.values():
        assert promtool("check", "metrics", text=text) == ""
        names |= Scraped(text.decode()).names
    used = {metric for expression in dashboard_expressions().values() for metric in metrics_in(expression)}
    assert {metric for metric in used - names if not metric.startswith("leveret_cluster_")} == set()
    warned = {metric for alert in alerts() for metric in metrics_in(alert.expression)}
    assert {metric for metric in warned - names if not metric.startswith("leveret_cluster_")} == set()


def test_alert_rules_and_the_expressions_of_the_dashboard_are_valid(tmp_path: Path) -> None:
    promtool("check", "rules", "--lint=all", "--lint-fatal", str(RULES))
    rules = [
        {"record": f"panel:{number}", "expr": expression}
        for number, expression in enumerate(dashboard_expressions().values())
    ]
    recorded = tmp_path / "dashboard.yml"
    recorded.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"{len(rules)} rules found" in promtool("check", "rules", str(recorded))


# Alert, series with a value per minute ('0+60x30': 0, 60, 120, ...), minute. Only this alert fires, in this minute.
FIRING: list[tuple[str, dict[str, str], int]] = [
    ("LeveretPublishersBlocked", {f"rabbitmq_alarms_memory_used_watermark{{{JOB}}}": "1x30"}, 1),
    ("LeveretPublishersBlocked", {f"rabbitmq_alarms_free_disk_space_watermark{{{JOB}}}": "1x30"}, 1),
    ("LeveretStoreReadOnly", {f"leveret_alarms_store_read_only{{{JOB}}}": "1x30"}, 1),
    ("LeveretOldMessages", {f"leveret_oldest_message_age_seconds{{{JOB}}}": "1000x30"}, 6),
    ("LeveretMessagesDropped", {f"rabbitmq_channel_messages_unroutable_dropped_total{{{JOB}}}": "0+1x30"}, 5),
    (
        "LeveretSlowSyncs",
        {
            f"rabbitmq_io_sync_time_seconds_total{{{JOB}}}": "0+20x30",
            f"rabbitmq_io_sync_ops_total{{{JOB}}}": "0+100x30",
        },
        10,
    ),
    (
        "LeveretLoopLag",
        {f"leveret_loop_lag_seconds_sum{{{JOB}}}": "0+30x30", f"leveret_loop_lag_seconds_count{{{JOB}}}": "0+300x30"},
        10,
    ),
    (
        "LeveretDeadLetters",
        {
            f'rabbitmq_global_messages_dead_lettered_{reason}_total{{{JOB},dead_letter_strategy="disabled"}}': value
            for reason, value in (("maxlen", "0x30"), ("rejected", "0+5x30"), ("delivery_limit", "0x30"))
        },
        20,
    ),
]
QUIET_SERIES = {
    f"leveret_alarms_store_read_only{{{JOB}}}": "0x30",
    f"leveret_oldest_message_age_seconds{{{JOB}}}": "5x30",
    f"rabbitmq_io_sync_time_seconds_total{{{JOB}}}": "0+1x30",
    f"rabbitmq_io_sync_ops_total{{{JOB}}}": "0+1000x30",
    f"leveret_loop_lag_seconds_sum{{{JOB}}}": "0+0.1x30",
    f"leveret_loop_lag_seconds_count{{{JOB}}}": "0+2400x30",
}


def case(series: dict[str, str], minute: int, firing: str) -> dict[str, Any]:
    by_name = {alert.name: alert for alert in alerts()}

    def expected(name: str) -> list[dict[str, Any]]:
        if name != firing:
            return []
        kept = {"severity": by_name[name].labels["severity"], "job": "leveret", "instance": "a"}
        return [{"exp_labels": kept}]

    names = {name for name, _, _ in FIRING}
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [
            {"eval_time": f"{minute}m", "alertname": name, "exp_alerts": expected(name)} for name in sorted(names)
        ],
    }


def test_alerts_fire_when_they_should_and_not_otherwise(tmp_path: Path) -> None:
    """Annotations are left out: promtool compares them too, so the rules are copied without them."""
    cases = [case(series, minute, name) for name, series, minute in FIRING]
    cases += [case(QUIET_SERIES, minute, "") for minute in (1, 10, 25)]
    cases.append(case({f"leveret_oldest_message_age_seconds{{{JOB}}}": "1000x2 0x30"}, 6, ""))
    rules = [
        {"alert": each.name, "expr": each.expression, "for": f"{each.seconds}s", "labels": each.labels}
        for each in alerts()
    ]
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": [{"name": "leveret", "rules": rules}]}))
    tested = tmp_path / "test.yml"
    tested.write_text(json.dumps({"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": cases}))
    assert "SUCCESS" in promtool("test", "rules", str(tested))
