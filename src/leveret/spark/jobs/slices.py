"""Work in numbered slices, which continues with the same slice after a crash.

The plan is a small file: the options, the range of offsets of each queue (or of rows of a version of a table), the
number of slices, the name of the transaction, and the number of finished slices. Slice ``n`` of a plan always has the
same messages, and the broker accepts each (transaction, slice) once. Repeating a slice is harmless, so the file may be
one slice behind.
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
from leveret.spark.jobs.accounting import Account, Counts, checked
from leveret.spark.jobs.running_job import OF_SPARK, JobFailed, Progress, Report, cause_of

FILE = "replay.json"
Range = tuple[int, int]  # first offset or row, and end (exclusive)


@dataclass(frozen=True)
class Plan:
    asked: dict[str, str | None]
    transaction: str
    ranges: dict[str, Range]
    slices: int
    done: int = 0

    def left(self) -> int:
        """The maximum number of remaining messages: offsets may be missing, and a condition may exclude some."""
        return sum(end - self._place(first, end, self.done) for first, end in self.ranges.values())

    def _place(self, first: int, end: int, number: int) -> int:
        """The first offset of slice ``number`` in this range."""
        return first + (end - first) * number // self.slices

    def slice(self, number: int) -> dict[str, Range]:
        """The range of each queue in this slice, without empty ones."""
        shares = {
            queue: (self._place(first, end, number), self._place(first, end, number + 1))
            for queue, (first, end) in self.ranges.items()
        }
        return {queue: share for queue, share in shares.items() if share[0] < share[1]}


def kept_plan(
    folder: Path, asked: dict[str, str | None], transaction: str | None, size: int, find: Callable[[], dict[str, Range]]
) -> Plan:
    """The plan of a previous run in the folder, or a new one."""
    path = folder / FILE
    if path.exists():
        plan = _read(path)
        for name, value in asked.items():
            if plan.asked.get(name) != value:
                raise ConfigError(
                    f"{folder} has the checkpoint of a replay with --{name} {plan.asked.get(name)}, not {value}: "
                    "use the same options, or another --checkpoint"
                )
        return plan
    ranges = find()
    messages = sum(end - first for first, end in ranges.values())
    plan = Plan(asked, transaction or f"replay-{uuid.uuid4()}", ranges, -(-messages // size))
    folder.mkdir(parents=True, exist_ok=True)
    keep(plan, folder)
    return plan


def has_plan(folder: Path) -> bool:
    return (folder / FILE).exists()


def keep(plan: Plan, folder: Path) -> None:
    """Write the plan atomically, also with respect to power failures."""
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
    """Runs the slices of a plan in order, at most one per ``seconds``.

    The work is done in ``wait``: Spark finds Python data sources only in the thread of the session.
    """

    def __init__(
        self, plan: Plan, folder: Path, do: Callable[[int, Mapping[str, Range]], Counts], seconds: float
    ) -> None:
        self._plan, self._folder, self._do, self._seconds = plan, folder, do, seconds
        self._progress = Progress(lag=plan.left())
        self._counts = Counts()
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
        """Nothing to stop: work is only done in ``wait``."""

    def report(self) -> Report:
        line = f"{self._progress.rows} messages published in {self._progress.batches} slices"
        left = self._plan.left()
        lines = (f"{line}; {left} are left" if left else line,)
        return Report(lines=lines, accounts=(Account("replay", self._counts),))

    def _next(self) -> None:
        number = self._plan.done
        begun = time.monotonic()
        self._due = max(self._due, begun - self._seconds) + self._seconds
        try:
            counts = checked(f"replay in slice {number}", self._do(number, self._plan.slice(number)))
        except OF_SPARK as problem:
            raise JobFailed(cause_of(problem)) from problem
        self._counts += counts
        took = time.monotonic() - begun
        self._plan = replace(self._plan, done=number + 1)
        keep(self._plan, self._folder)
        before = self._progress
        self._progress = Progress(
            before.batches + 1, before.rows + counts.out, counts.out / took, self._plan.left(), int(took * 1000)
        )
