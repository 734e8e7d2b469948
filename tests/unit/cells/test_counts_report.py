"""The counts of very many queues are reported in time slices."""

from __future__ import annotations

from itertools import count
from typing import Any

from leveret.broker.background import SLICE, BackgroundTasks
from leveret.cells import counts_report
from leveret.cells.counts_report import CountsReport
from tests.support.peer_pair import Harness


def test_each_slice_reports_some_queues_and_nothing_twice(monkeypatch: Any) -> None:
    monkeypatch.setattr(counts_report, "AT_ONCE", 2)
    harness = Harness()
    client = harness.client()
    names = [f"q{number}" for number in range(9)]
    for name in names:
        client.declare(name)
    ticks = count()
    harness.broker.background = background = BackgroundTasks(lambda: None, lambda: next(ticks) * SLICE)
    sent: list[list[Any]] = []
    report = CountsReport(harness.broker, lambda frame: sent.extend(frame["counts"]))
    report.begin()
    assert 0 < len(sent) < len(names), "the rest follows in later ticks"
    report.begin()  # the next second
    while background.under_way:
        background.run()
    assert sorted(sent) == [["/", name, 0, 0] for name in names]
    client.publish("q3", b"1")
    harness.vhost.remove_queue(harness.vhost.queues["q4"])
    sent.clear()
    report.begin()
    while background.under_way:
        background.run()
    assert sent == [["/", "q3", 1, 0]]
    client.declare("q4")
    report.forget()
    sent.clear()
    report.begin()
    while background.under_way:
        background.run()
    assert len(sent) == len(names)
