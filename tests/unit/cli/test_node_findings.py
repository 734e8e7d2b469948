"""What the doctor finds in the node, and in the checks of its health."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.cli.node_findings import certificate_findings, clock_findings, node_findings, store_findings

Row = dict[str, Any]

HEALTHY: Row = {
    "name": "n",
    "running": True,
    "mem_used": 10,
    "mem_limit": 100,
    "mem_alarm": False,
    "disk_free": 1000,
    "disk_free_limit": 100,
    "disk_free_alarm": False,
    "fd_used": 10,
    "fd_total": 5000,
}


def test_a_healthy_node_has_nothing_to_find() -> None:
    assert list(node_findings([HEALTHY])) == []
    assert [*store_findings(None), *certificate_findings(None), *clock_findings(None, 0.0)] == []


@pytest.mark.parametrize(
    ("facts", "weight", "part"),
    [
        ({"mem_alarm": True}, "alarm", "memory alarm on node 'n': 10 B used, high watermark 100 B"),
        ({"mem_used": 80}, "warning", "memory of node 'n' is near the high watermark"),
        ({"disk_free_alarm": True}, "alarm", "disk alarm on node 'n'"),
        ({"disk_free": 199}, "warning", "disk of node 'n' is near the free limit"),
        ({"fd_used": 4000}, "warning", "4000 of 5000 file descriptors"),
        ({"fd_total": 1024}, "warning", "can open only 1024 files, and each connection needs one"),
        ({"running": False}, "alarm", "is not running"),
    ],
)
def test_the_node_is_near_a_mark_or_beyond(facts: Row, weight: str, part: str) -> None:
    [finding] = node_findings([{**HEALTHY, **facts}])
    assert finding.weight == weight
    assert part in finding.what
    assert "leveret" in finding.remedy


@pytest.mark.parametrize(
    "facts", [{"mem_used": 79}, {"disk_free": 200}, {"fd_used": 3999}, {"fd_total": 0}, {"fd_total": -1}]
)
def test_what_is_far_enough_from_its_mark_is_passed_over(facts: Row) -> None:
    assert list(node_findings([{**HEALTHY, **facts}])) == []


def test_a_store_that_failed_is_an_alarm() -> None:
    [finding] = store_findings({"status": "failed", "reason": "Some virtual hosts are down: the store is read-only"})
    assert finding.weight == "alarm"
    assert finding.what == "the message store has failed: Some virtual hosts are down: the store is read-only"
    assert "restart" in finding.remedy


@pytest.mark.parametrize(
    ("expired", "expected"),
    [
        ([{"node": "n", "ends_at": "2026-01-02 03:04:05 UTC"}], "a certificate expires at 2026-01-02 03:04:05 UTC"),
        ([{"certfile_expires_on": ["2026-01-02 03:04:05"]}], "a certificate expires at 2026-01-02 03:04:05"),
        ([], "Certificates expiring"),
    ],
)
def test_a_certificate_that_ends_soon_is_told_with_its_end(expired: list[Row], expected: str) -> None:
    [finding] = certificate_findings({"reason": "Certificates expiring", "expired": expired})
    assert (finding.weight, finding.what) == ("warning", expected)
    assert "tls_cert" in finding.remedy


NOON = 1_767_225_600.0  # what the date below says


@pytest.mark.parametrize(
    ("here", "expected"),
    [
        (NOON - 7200, "the broker's clock is 2 h 0 min ahead of that of this machine"),
        (NOON + 61, "the broker's clock is 1 min behind that of this machine"),
        (NOON - 60, None),
        (NOON + 60, None),
    ],
)
def test_a_clock_that_is_off_is_told_with_its_way(here: float, expected: str | None) -> None:
    found = list(clock_findings("Thu, 01 Jan 2026 00:00:00 GMT", here))
    assert [finding.what.partition(":")[0] for finding in found] == ([expected] if expected else [])


@pytest.mark.parametrize("date", [None, "", "yesterday", "Thu, 01 Jan 99999 00:00:00 GMT"])
def test_a_date_that_is_none_says_nothing_of_the_clock(date: str | None) -> None:
    assert list(clock_findings(date, 0.0)) == []
