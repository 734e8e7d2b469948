"""Work in numbered slices that can be killed at any moment and goes on with the slice it was at.

The plan is one small file: what was asked, the range of offsets of each queue, how many slices that makes, the name of
the transaction, and how many slices are done. Slice ``n`` of a plan is always the same messages, and the broker takes
each (transaction, slice) once: so doing a slice again does no harm, and the file may be one slice behind.
"""

from __future__ import annotations

import json
import math
import os
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from leveret.errors import ConfigError
from leveret.spark.jobs.running_job import OF_SPARK, JobFailed, Progress, Report, cause_of

FILE = "replay.json"
Range = tuple[int, int]  # the first offset, and the one behind the last


@dataclass(frozen=True)
class Plan:
    asked: dict[str, str | None]
    transaction: str
    ranges: dict[str, Range]
    slices: int
    done: int = 0

    def left(self) -> int:
        """How many there are at most: offsets may be missing, and a condition may leave some out."""
        return sum(end - self._place(first, end, self.done) for first, end in self.ranges.values())

    def _place(self, first: int, end: int, number: int) -> int:
        """Where slice ``number`` of this range begins."""
        return first + (end - first) * number // self.slices

    def slice(self, number: int) -> dict[str, Range]:
        """Each queue's share of this slice; queues with nothing in it are left out."""
        shares = {
            queue: (self._place(first, end, number), self._place(first, end, number + 1))
            for queue, (first, end) in self.ranges.items()
        }
        return {queue: share for queue, share in shares.items() if share[0] < share[1]}


def kept_plan(
    folder: Path, asked: dict[str, str | None], transaction: str | None, size: int, find: Callable[[], dict[str, Range]]
) -> Plan:
    """The plan that an earlier start left in the folder, or a new one."""
    path = folder / FILE
    if path.exists():
        plan = _read(path)
        for name, value in asked.items():
            if plan.asked.get(name) != value:
                raise ConfigError(
                    f"{folder} remembers a replay with --{name} {plan.asked.get(name)}, not {value}: "
                    "go on with the same options, or give another --checkpoint"
                )
        return plan
    ranges = find()
    messages = sum(end - first for first, end in ranges.values())
    plan = Plan(asked, transaction or f"replay-{uuid.uuid4()}", ranges, -(-messages // size))
    folder.mkdir(parents=True, exist_ok=True)
    keep(plan, folder)
    return plan


def keep(plan: Plan, folder: Path) -> None:
    """Whole or not at all, also after a power cut."""
    new = folder / f"{FILE}.new"
    with new.open("w", encoding="utf-8") as file:
        json.dump(asdict(plan), file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    new.replace(folder / FILE)


def _read(path: Path) -> Plan:
    kept = json.loads(path.read_text(encoding="utf-8"))
    kept["ranges"] = {queue: (first, end) for queue, (first, end) in kept["ranges"].items()}
    return Plan(**kept)


class Slices:
    """Runs the slices of a plan one after the other, at most one per ``seconds``.

    ``wait`` does the work: Spark finds Python data sources only from the thread that has the session.
    """

    def __init__(self, plan: Plan, folder: Path, do: Callable[[int, Mapping[str, Range]], int], seconds: float) -> None:
        self._plan, self._folder, self._do, self._seconds = plan, folder, do, seconds
        self._progress = Progress(lag=plan.left())
        self._due = time.monotonic()

    def progress(self) -> Progress:
        return self._progress

    def wait(self, seconds: float | None = None) -> bool:
        until = math.inf if seconds is None else time.monotonic() + seconds
        while self._plan.done < self._plan.slices:
            now = time.monotonic()
            if now < self._due:
                time.sleep(min(self._due, until) - now)
            if time.monotonic() >= until:
                return False
            self._next()
        return True

    def stop(self) -> None:
        """Work is only done in ``wait``."""

    def report(self) -> Report:
        line = f"{self._progress.rows} messages published in {self._progress.batches} slices"
        left = self._plan.left()
        return Report(lines=(f"{line}; {left} are left" if left else line,))

    def _next(self) -> None:
        number = self._plan.done
        begun = time.monotonic()
        self._due = max(self._due, begun - self._seconds) + self._seconds
        try:
            rows = self._do(number, self._plan.slice(number))
        except OF_SPARK as problem:
            raise JobFailed(cause_of(problem)) from problem
        took = time.monotonic() - begun
        self._plan = replace(self._plan, done=number + 1)
        keep(self._plan, self._folder)
        before = self._progress
        self._progress = Progress(
            before.batches + 1, before.rows + rows, rows / took, self._plan.left(), int(took * 1000)
        )
