"""S4-77: the steps, state, durations and errors of Spark queries over HTTP, and their metrics."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from leveret import Broker, FrozenClock
from leveret.stats.metric_help import HELP
from tests.integration.test_http_leases_view import REPORT, metric_lines, tell
from tests.support.management_api import ManagementApi, as_guest, as_user

pytestmark = pytest.mark.broker(storage="disk", fresh=True, clock=FrozenClock)


@pytest.fixture
def api(broker: Broker) -> ManagementApi:
    return as_guest(broker)


DETAILS: dict[str, Any] = {
    "steps": ["dedup", "by message-id"],
    "duration_ms": {"triggerExecution": 1996, "addBatch": 1500},
    "state_operators": [
        {"name": "dedupe", "rows": 30, "memory_bytes": 2048, "late_rows": 2},
        {"name": "stateStoreSave", "rows": 12, "memory_bytes": 1024},
    ],
    "counts": {"read": 500, "out": 498, "late": 2},
    "error": "no answer from http://b:1: set endpoint",
    "spark_ui": "http://driver:4040",
}


@pytest.mark.feature("S4-77")
def test_a_query_has_a_page_with_steps_state_durations_and_error(broker: Broker, api: ManagementApi) -> None:
    tell(api, **DETAILS)
    status, shown = api.get("spark-queries/%2F/q-1")
    assert status == 200
    for name in DETAILS:
        assert shown[name] == DETAILS[name], name
    assert (shown["state_rows"], shown["state_memory_bytes"], shown["rows_total"]) == (42, 3072, 500)
    (recent,) = shown["recent"]
    del recent["at"]
    assert recent == {
        "input_rows_per_second": 100.0,
        "rows_per_second": 250.5,
        "lag": 40,
        "batch_ms": 1996,
        "state_rows": 42,
    }
    (row,) = api.get("spark-queries")[1]
    assert (row["error"], row["counts"], row["state_rows"]) == (DETAILS["error"], DETAILS["counts"], 42)
    assert api.get("spark-queries/%2F/q-1", columns="error,state") == (
        200,
        {"error": DETAILS["error"], "state": "running"},
    )
    assert "no Spark query 'none' in virtual host '/'" in api.get("spark-queries/%2F/none")[1]["reason"]
    assert api.get("spark-queries/none/q-1")[0] == 404
    tell(api, id="plain")
    plain = api.get("spark-queries/%2F/plain")[1]
    assert (plain["steps"], plain["duration_ms"], plain["state_operators"], plain["state_rows"]) == ([], {}, [], None)


def test_a_report_with_a_wrong_detail_is_refused(api: ManagementApi) -> None:
    status, answer = api.post("pipeline/queries", REPORT | {"spark_ui": "javascript:alert(1)"})
    assert (status, "'spark_ui' must be an address" in answer["reason"]) == (400, True)
    assert api.get("spark-queries") == (200, [])


@pytest.mark.feature("S4-72")
def test_an_error_is_shown_to_those_who_see_each_virtual_host_of_the_query(broker: Broker, api: ManagementApi) -> None:
    core = broker.node.broker
    broker.call(lambda: core.add_vhost("other"))
    broker.call(lambda: core.permissions.set("guest", "other", ".*", ".*", ".*"))
    lease = {"consumer": "job", "lease": 4, "queue": "secret", "vhost": "other"}
    tell(api, **DETAILS, sources=[{"offset": lease}, {"offset": {"orders": 960}}])
    bob = as_user(broker, "bob", "management", vhosts=("/",))
    both = as_user(broker, "both", "management", vhosts=("/", "other"))
    anna = as_user(broker, "anna", "management", vhosts=("other",))
    stranger = as_user(broker, "stranger", "management")
    for asker, vhost, sees in ((bob, "%2F", False), (anna, "other", False), (both, "%2F", True), (api, "%2F", True)):
        shown = asker.get(f"spark-queries/{vhost}/q-1")[1]
        assert [shown["error"] is not None, bool(shown["steps"]), shown["spark_ui"] is not None] == [sees] * 3
        assert shown["counts"] == DETAILS["counts"]
        for listed in (asker.get("spark-queries")[1], asker.get("pipeline/queries")[1]):
            assert ("http://b:1" in json.dumps(listed)) is sees
    assert bob.get("spark-queries/other/q-1")[0] == 403
    assert stranger.get("spark-queries/%2F/q-1")[0] == 403
    assert stranger.get("spark-queries") == (200, [])
    assert as_user(broker, "nobody", vhosts=("/",)).get("spark-queries/%2F/q-1")[0] == 401


# ---- metrics

LABELS = '{vhost="/",user="guest",query="orders to lake",query_id="q-1"}'


@pytest.mark.feature("S4-77")
def test_metrics_of_each_query(broker: Broker, api: ManagementApi) -> None:
    tell(api, **DETAILS)
    tell(api, batch=8, rows=100, **(DETAILS | {"counts": {"read": 600, "out": 597, "late": 5, "held": -2}}))
    tell(api, id="failed", state="failed", name="x" * 5_000)
    start = "leveret_spark_query_"
    lines = metric_lines(api, start)
    found = dict(line.removeprefix(start).split(LABELS + " ") for line in lines if LABELS in line)
    assert float(found.pop("last_progress_timestamp_seconds")) > 1_000_000_000
    assert found == {
        "running": "1",
        "failed": "0",
        "rows_total": "600",
        "input_rows_per_second": "100.0",
        "rows_per_second": "250.5",
        "lag": "40",
        "batch_duration_seconds": "1.996",
        "state_rows": "42",
        "state_memory_bytes": "3072",
        "late_rows": "2",
        "held_rows": "-2",
    }
    outcomes = [line.removeprefix(f"{start}outcome_rows_total{LABELS[:-1]},") for line in lines if "outcome=" in line]
    assert outcomes == ['outcome="out"} 597', 'outcome="late"} 5']
    of_failed = [line for line in lines if 'query_id="failed"' in line]
    assert [line[-2:] for line in of_failed if line.startswith((f"{start}failed", f"{start}running"))] == [" 0", " 1"]
    assert not any("state_rows" in line for line in of_failed), "it reports no state"
    assert all(len(line) < 500 for line in lines), "a long name is cut"
    broker.clock.advance(300)
    assert [line[-2:] for line in metric_lines(api, f"{start}running{{")] == [" 0", " 0"], "no report for long"
    assert metric_lines(api, f"{start}rows_per_second{LABELS}") == [f"{start}rows_per_second{LABELS} 0"]
    assert metric_lines(api, start, "/metrics/detailed?family=spark_query_metrics&vhost=other") == []


@pytest.mark.feature("S4-77")
def test_metrics_of_all_queries_together(api: ManagementApi) -> None:
    empty = metric_lines(api, "leveret_spark_quer", "/metrics")
    assert 'leveret_spark_queries{state="running"} 0' in empty
    tell(api, **DETAILS)
    tell(api, id="second", batch_ms=4_000, lag=2)
    tell(api, id="third", state="failed", lag=None, rows=None)
    tell(api, id="fourth", state="<b>", lag=None, rows=None)
    values = dict(line.split(" ") for line in metric_lines(api, "leveret_spark_quer", "/metrics"))
    assert float(values.pop("leveret_spark_query_last_progress_timestamp_seconds")) > 1_000_000_000
    counts = {"running": "2", "failed": "1", "unknown": "1"}
    states = ("started", "running", "idle", "silent", "stopped", "failed", "unknown")
    assert values == {
        **{f'leveret_spark_queries{{state="{state}"}}': counts.get(state, "0") for state in states},
        "leveret_spark_query_rows_total": "1000",
        "leveret_spark_query_input_rows_per_second": "200.0",
        "leveret_spark_query_rows_per_second": "501.0",
        "leveret_spark_query_lag": "42",
        "leveret_spark_query_batch_duration_seconds": "4.0",
        "leveret_spark_query_state_rows": "42",
        "leveret_spark_query_state_memory_bytes": "3072",
        "leveret_spark_query_late_rows": "2",
        "leveret_spark_query_held_rows": "0",
        **{
            f'leveret_spark_query_outcome_rows_total{{outcome="{name}"}}': str(DETAILS["counts"].get(name, 0))
            for name in ("out", "duplicates", "filtered", "refused", "late")
        },
    }


def test_metrics_of_many_queries_are_bounded(api: ManagementApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leveret.api.metrics.MOST", 2)
    for number in range(5):
        tell(api, id=f"q-{number}")
    assert len(metric_lines(api, "leveret_spark_query_lag{")) == 3
    assert metric_lines(api, "leveret_spark_query_lag{")[-1].endswith('query_id=""} 120')
    assert metric_lines(api, "leveret_metrics_spark_queries_left_out") == ["leveret_metrics_spark_queries_left_out 3"]


# ---- the guide


def test_the_report_and_the_metrics_of_the_guide_are_real(api: ManagementApi) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "pipelines-monitoring.md").read_text(encoding="utf-8")
    [report] = re.findall(r"api/pipeline/queries -d '(.*?)'", guide, re.DOTALL)
    assert api.post("pipeline/queries", json.loads(report))[0] == 200
    assert api.get("spark-queries/%2F/nightly")[1]["counts"] == {"read": 500, "out": 498, "refused": 2}
    named = set(re.findall(r"`leveret_(spark_quer\w+)`", guide))
    assert named == {name for name in HELP if name.startswith("spark_quer")}
