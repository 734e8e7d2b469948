"""From counted runs to the table: medians, ratios and targets."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.scenarios import (
    BACKLOG_RATE,
    BACKLOG_RSS_MB,
    CONNECTION_KB,
    IDLE_RSS_MB,
    LATENCY_JUDGED,
    PERSISTENT_RSS_MB,
    QUEUED_RSS_MB,
    RESTART_SECONDS,
    Scenario,
)

Line = dict[str, Any]
RSS_IDLE = "mem-idle"
RSS_QUEUED = "mem-queued"
DRAIN = "mem-drain"
PERSISTENT = "pmem-1M"
BACKLOG = "pmem-10M"


@dataclass(slots=True)
class Results:
    """The lines that count, by (scenario, broker)."""

    subject: str
    base: str | None
    lines: dict[tuple[str, str], list[Line]] = field(default_factory=dict)

    def add(self, scenario: str, broker: str, line: Line) -> None:
        self.lines.setdefault((scenario, broker), []).append(line)

    def middle(self, scenario: str, broker: str | None, *keys: str) -> float | None:
        """The median of one figure over the rounds; None where nothing was measured."""
        values = []
        for line in self.lines.get((scenario, broker or ""), []):
            value: Any = line
            for key in keys:
                value = value.get(key) if isinstance(value, dict) else None
            if value is not None:
                values.append(float(value))
        return median(values) if values else None


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table; `passed` is None without a target, or without anything to compare with."""

    cells: tuple[str, ...]
    passed: bool | None


HEADINGS = ("id", "what", "{subject}", "{base}", "ratio", "CPU {subject}", "CPU {base}", "CPU ratio", "target", "")


def rows(results: Results, scenarios: list[Scenario], *, judged: bool) -> Iterator[Row]:
    """The table, scenario by scenario. Targets count only against RabbitMQ (`judged`)."""
    for scenario in scenarios:
        if scenario.kind == "rate":
            yield _rate_row(results, scenario, judged=judged)
        elif scenario.kind == "latency":
            yield from _latency_rows(results, scenario, judged=judged)
        elif scenario.kind == "memory":
            yield _limit_row(results, RSS_IDLE, "RSS, idle", ("broker_rss_kb",), 1024, "MB", IDLE_RSS_MB)
            yield _limit_row(
                results, RSS_QUEUED, f"RSS, {scenario.title}", ("broker_rss_kb",), 1024, "MB", QUEUED_RSS_MB
            )
            yield _rate_row(results, Scenario(DRAIN, "draining them", scenario.size), judged=False)
        elif scenario.kind == "backlog":
            yield from _backlog_rows(results, scenario)
        elif scenario.kind == "restart":
            yield _limit_row(results, scenario.id, scenario.title, ("seconds",), 1, "s", RESTART_SECONDS)
        else:
            yield _limit_row(
                results, scenario.id, f"RSS each, {scenario.title}", ("kb_per_conn",), 1, "KB", CONNECTION_KB
            )


def _rate_row(results: Results, scenario: Scenario, *, judged: bool) -> Row:
    ours, theirs = (results.middle(scenario.id, name, scenario.rate_key) for name in (results.subject, results.base))
    cpu = "broker_cpu_s_per_M"
    our_cpu, their_cpu = (results.middle(scenario.id, name, cpu) for name in (results.subject, results.base))
    rate_ratio, cpu_ratio = _ratio(ours, theirs), _ratio(our_cpu, their_cpu)
    targets, checks = [], []
    if scenario.rate_at_least is not None:
        targets.append(f"rate >= {scenario.rate_at_least:g}x")
        checks.append(None if rate_ratio is None else rate_ratio >= scenario.rate_at_least)
    if scenario.cpu_at_most is not None:
        targets.append(f"CPU <= {scenario.cpu_at_most:.2g}")
        checks.append(None if cpu_ratio is None else cpu_ratio <= scenario.cpu_at_most)
    if scenario.us_at_most is not None:
        targets.append(f"CPU <= {scenario.us_at_most:g} us")
        checks.append(None if our_cpu is None else our_cpu <= scenario.us_at_most)
    cells = (
        scenario.id,
        scenario.title,
        _show(ours, "{:,.0f}/s"),
        _show(theirs, "{:,.0f}/s"),
        _show(rate_ratio, "{:.1f}x"),
        _show(our_cpu, "{:.2f} s/M"),
        _show(their_cpu, "{:.2f} s/M"),
        _show(cpu_ratio, "{:.3f}"),
        ", ".join(targets) if judged else "",
    )
    return _row(cells, _all(checks) if judged else None)


def _backlog_rows(results: Results, scenario: Scenario) -> Iterator[Row]:
    rss = ("broker_rss_kb",)
    yield _limit_row(results, PERSISTENT, f"RSS, {scenario.title}", rss, 1024, "MB", PERSISTENT_RSS_MB)
    yield _limit_row(results, BACKLOG, "RSS, ten times as many", rss, 1024, "MB", BACKLOG_RSS_MB)
    empty, full = (results.middle(key, results.subject, "send_rate") for key in (PERSISTENT, BACKLOG))
    ratio = _ratio(full, empty)
    cells = (
        BACKLOG,
        "publish rate over all ten million, beside that of the first",
        _show(full, "{:,.0f}/s"),
        _show(empty, "{:,.0f}/s"),
        _show(ratio, "{:.2f}x"),
        *("", "", ""),
        f">= {BACKLOG_RATE:g}x",
    )
    yield _row(cells, None if ratio is None else ratio >= BACKLOG_RATE)


def _latency_rows(results: Results, scenario: Scenario, *, judged: bool) -> Iterator[Row]:
    figures = [("latency", "lat_us", "p50"), ("latency", "lat_us", "p99")]
    if scenario.id.startswith("h"):
        figures += [("confirm", "confirm_us", "p50"), ("confirm", "confirm_us", "p99")]
    for what, key, quantile in figures:
        ours, theirs = (results.middle(scenario.id, name, key, quantile) for name in (results.subject, results.base))
        judge = judged and quantile == "p99" and scenario.id in LATENCY_JUDGED
        limit = scenario.p99_at_most if what == "latency" else 1
        passed = ours < theirs * limit if judge and ours is not None and theirs is not None else None
        cells = (
            scenario.id,
            f"{what} {quantile}, {scenario.title}",
            _show(ours, "{:,.0f} us"),
            _show(theirs, "{:,.0f} us"),
            _show(_ratio(ours, theirs), "{:.2f}x"),
            *("", "", ""),
            f"< {limit:g} of RabbitMQ's" if judge else "",
        )
        yield _row(cells, passed)
    if scenario.us_at_most is not None:
        yield _rate_row(results, replace(scenario, title=f"rate and CPU, {scenario.title}"), judged=judged)


def _limit_row(results: Results, key: str, title: str, path: tuple[str, ...], part: int, unit: str, limit: int) -> Row:
    ours, theirs = (results.middle(key, name, *path) for name in (results.subject, results.base))
    shown = [_show(None if value is None else value / part, "{:,.1f} " + unit) for value in (ours, theirs)]
    cells = (key, title, *shown, _show(_ratio(ours, theirs), "{:.3f}x"), "", "", "", f"< {limit} {unit}")
    return _row(cells, None if ours is None or results.subject != "leveret" else ours / part < limit)


def _row(cells: tuple[str, ...], passed: bool | None) -> Row:
    return Row((*cells, {True: "pass", False: "FAIL", None: ""}[passed]), passed)


def _all(checks: list[bool | None]) -> bool | None:
    known = [check for check in checks if check is not None]
    return all(known) if known else None


def _ratio(ours: float | None, theirs: float | None) -> float | None:
    return ours / theirs if ours is not None and theirs else None


def _show(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


def table(results: Results, lines: list[Row], *, markdown: bool) -> str:
    """The rows as aligned text or as Markdown."""
    names = {"subject": results.subject, "base": results.base or "-"}
    grid = [tuple(heading.format(**names) for heading in HEADINGS), *(row.cells for row in lines)]
    if markdown:
        marked = ["| " + " | ".join(cells) + " |" for cells in grid]
        return "\n".join([marked[0], "|" + "---|" * len(HEADINGS), *marked[1:]])
    widths = [max(len(cells[column]) for cells in grid) for column in range(len(HEADINGS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip() for cells in grid
    )


def machine() -> Line:
    """What the figures were measured on: no names, no paths."""
    model = "unknown processor"
    memory = 0
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            memory = round(int(line.split()[1]) / 1024 / 1024)
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "memory_gb": memory,
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "python": platform.python_version(),
        "implementation": sys.implementation.name,
    }
