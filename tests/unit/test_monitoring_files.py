"""The alert rules and the Grafana dashboard use metrics that exist. Promtool checks them in tests/compat."""

from __future__ import annotations

import re

import pytest

from tests.support.monitoring_files import alerts, dashboard, dashboard_expressions, is_documented, metrics_in


def test_alerts_use_metrics_that_exist_and_name_labels_that_they_keep() -> None:
    assert len({alert.name for alert in alerts()}) == len(alerts()) > 15
    for alert in alerts():
        used = metrics_in(alert.expression)
        assert used, alert.name
        assert [metric for metric in used if not is_documented(metric)] == [], alert.name
        assert alert.labels["severity"] in ("critical", "warning")
        kept = re.search(r"by \(([^)]*)\)", alert.expression)
        for label in re.findall(r"\$labels\.(\w+)", alert.annotations["summary"]):
            assert label in (kept[1].split(", ") if kept else ["instance"]), f"{alert.name}: {label}"


@pytest.mark.parametrize(
    "metric",
    [
        *("rabbitmq_alarms_memory_used_watermark", "rabbitmq_alarms_free_disk_space_watermark"),
        *("leveret_alarms_store_read_only", "leveret_oldest_message_age_seconds"),
        *("rabbitmq_global_messages_dead_lettered_rejected_total", "rabbitmq_io_sync_time_seconds_total"),
        *("leveret_cluster_epoch", "leveret_cluster_engine_up", "leveret_cluster_engine_server_up"),
        *("leveret_cluster_quorum_critical", "leveret_cluster_member_up", "leveret_cluster_member_lag_seconds"),
        "leveret_cluster_member_lag_bytes",
    ],
)
def test_every_state_that_needs_help_has_an_alert(metric: str) -> None:
    assert metric in {used for alert in alerts() for used in metrics_in(alert.expression)}


def test_the_dashboard_uses_metrics_that_exist() -> None:
    expressions = dashboard_expressions()
    assert len(expressions) > 30
    for place, expression in expressions.items():
        used = metrics_in(expression)
        assert used, place
        assert [metric for metric in used if not is_documented(metric)] == [], place
        assert "$" not in expression, f"{place}: a variable that is not replaced"


def test_the_dashboard_is_one_that_grafana_imports() -> None:
    """Panels have different numbers and do not overlap; the data source and the job are chosen by the user."""
    made = dashboard()
    panels = made["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert (made["title"], made["uid"]) == ("Leveret", "leveret-overview")
    assert "id" not in made, "Grafana would replace another dashboard"
    assert [each["name"] for each in made["templating"]["list"]] == ["datasource", "job", "instance"]
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
        for target in panel.get("targets", ()):
            assert target["datasource"]["uid"] == "${datasource}"
            assert 'job="$job",instance=~"$instance"' in target["expr"]


def test_the_check_of_names_can_fail() -> None:
    assert not is_documented("rabbitmq_queue_mesages")
    assert not is_documented("leveret_sum")
    assert metrics_in('sum by (rabbitmq_x) (rate(leveret_a_total{job="rabbitmq_b"}[5m])) / on (c) rabbitmq_d') == {
        "leveret_a_total",
        "rabbitmq_d",
    }
