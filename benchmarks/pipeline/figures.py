"""From lines to the table: figures, comparisons and targets."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from benchmarks.pipeline.job import Line
from benchmarks.pipeline.scenarios import Scenario

HEADINGS = ("id", "what", "rows", "figure", "wall", "CPU broker", "CPU Spark", "compared", "target", "")
FOREIGN_CPU = 0.15  # of all cores: above it, the work of other processes distorts the figure


@dataclass(slots=True)
class Figures:
    """The line of each scenario that gave one, and why others gave none."""

    lines: dict[str, Line] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)

    def passed(self, scenario: Scenario) -> bool | None:
        """None without a target, or if the other side was not measured."""
        line = self.lines.get(scenario.id)
        if line is None:
            return False if scenario.id in self.problems else None
        checks = []
        if scenario.at_least is not None:
            checks.append(line["figure"] >= scenario.at_least)
        if scenario.below is not None:
            checks.append(line["figure"] < scenario.below)
        ratio = self.ratio(scenario)
        if scenario.faster_than is not None and ratio is not None:
            checks.append(ratio >= scenario.faster_than[1])
        return all(checks) if checks else None

    def ratio(self, scenario: Scenario) -> float | None:
        """How many times faster than the scenario it is compared with."""
        if scenario.faster_than is None:
            return None
        ours, theirs = self.lines.get(scenario.id), self.lines.get(scenario.faster_than[0])
        return None if ours is None or theirs is None else float(ours["figure"] / theirs["figure"])

    def table(self, scenarios: list[Scenario]) -> str:
        """Markdown."""
        marked = ["| " + " | ".join(cells) + " |" for cells in (HEADINGS, *(self._row(each) for each in scenarios))]
        return "\n".join([marked[0], "|" + "---|" * len(HEADINGS), *marked[1:]])

    def _row(self, scenario: Scenario) -> tuple[str, ...]:
        line = self.lines.get(scenario.id)
        shown = {True: "pass", False: "FAIL", None: ""}[self.passed(scenario)]
        if line is None:
            reason = self.problems.get(scenario.id, "not measured").splitlines()[0][:120]
            return (scenario.id, scenario.title, "", reason, "", "", "", "", _target(scenario), shown)
        ratio = self.ratio(scenario)
        compared = ""
        if ratio is not None and scenario.faster_than is not None:
            other = scenario.faster_than[0]
            compared = f"{ratio:.1f}x of {other} ({_figure(self.lines[other]['figure'], scenario.unit)})"
        notes = [compared, line.get("note", ""), _doubt(line)]
        return (
            scenario.id,
            scenario.title,
            _count(line.get("rows")),
            _figure(line["figure"], scenario.unit),
            _figure(line["wall_rate"], scenario.unit) if "wall_rate" in line else "",
            _seconds(line.get("broker_cpu_s")),
            _seconds(line.get("spark_cpu_s")),
            "; ".join(note for note in notes if note),
            _target(scenario),
            shown,
        )


def _doubt(line: Line) -> str:
    """Why the figure may be worse than it could be."""
    doubts = []
    if line.get("is_warm") is False:
        doubts.append("one batch only, warming up included")
    if "other_cpu_s" in line and line["other_cpu_s"] > FOREIGN_CPU * (os.cpu_count() or 1) * line["seconds"]:
        doubts.append(f"{line['other_cpu_s']:.1f} s of CPU went elsewhere")
    return "; ".join(doubts)


def _target(scenario: Scenario) -> str:
    targets = []
    if scenario.at_least is not None:
        targets.append(f">= {_figure(scenario.at_least, scenario.unit)}")
    if scenario.below is not None:
        targets.append(f"< {scenario.below:g} {scenario.unit}")
    if scenario.faster_than is not None:
        targets.append(f">= {scenario.faster_than[1]:g}x {scenario.faster_than[0]}")
    return ", ".join(targets)


def _figure(value: float, unit: str) -> str:
    return f"{value:,.0f}/s" if unit.endswith("/s") else f"{value:.2f} {unit}"


def _count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} s"
