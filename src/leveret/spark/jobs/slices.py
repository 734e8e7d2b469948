"""Work in numbered slices that can be killed at any moment and goes on with the slice it was at.

The plan is one small file: what was asked, the range of offsets of each queue, how many slices that makes, the name of
the transaction, and how many slices are done. Slice ``n`` of a plan is always the same messages, and the broker takes
each (transaction, slice) once: so doing a slice again does no harm, and the file may be one slice behind.
"""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from leveret.errors import ConfigError, LeveretError
from leveret.spark.jobs.running import JobFailed, Progress, Report, cause_of

FILE = "replay.json"
Range = tuple[int, int]  # the first offset, and the one behind the last


@dataclass(frozen=True)
class Plan:
    asked: dict[str, str | None]
    transaction: str
    ranges: dict[str, Range]
    slices: int
    done: int = 0

    @property
    def messages(self) -> int:
        """How many there are at most: offsets may be missing, and a condition may leave some out."""
        return sum(end - first for first, end in self.ranges.values())

    def slice(self, number: int) -> dict[str, Range]:
        """Each queue's share of this slice; queues with nothing in it are left out."""
        shares = {
            queue: (first + (end - first) * number // self.slices, first + (end - first) * (number + 1) // self.slices)
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
    """Does the slices of a plan one after the other, in a thread of its own, no faster than ``seconds`` for each."""

    def __init__(self, plan: Plan, folder: Path, do: Callable[[int, Mapping[str, Range]], int], seconds: float) -> None:
        self._plan, self._folder, self._do, self._seconds = plan, folder, do, seconds
        self._progress = Progress(lag=self._left(plan.done))
        self._ended = threading.Event()
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="leveret-replay", daemon=True)
        self._thread.start()

    def progress(self) -> Progress:
        return self._progress

    def wait(self, seconds: float | None = None) -> bool:
        self._thread.join(seconds)
        if self._thread.is_alive():
            return False
        if isinstance(self._problem, LeveretError):
            raise self._problem
        if self._problem is not None:
            raise JobFailed(cause_of(self._problem)) from self._problem
        return True

    def stop(self) -> None:
        """After the slice under way."""
        self._ended.set()
        self._thread.join()

    def report(self) -> Report:
        done = self._progress
        line = f"{done.rows} messages published in {done.batches} slices"
        return Report(lines=(line if self._plan.done == self._plan.slices else f"{line}; {done.lag} are left",))

    def _run(self) -> None:
        try:
            begun = time.monotonic()
            for turn, number in enumerate(range(self._plan.done, self._plan.slices)):
                self._ended.wait(max(0.0, begun + turn * self._seconds - time.monotonic()))
                if self._ended.is_set():
                    return
                self._slice(number)
        except Exception as problem:  # noqa: BLE001  told to whoever waits
            self._problem = problem

    def _slice(self, number: int) -> None:
        before = time.monotonic()
        rows = self._do(number, self._plan.slice(number))
        took = max(time.monotonic() - before, 1e-6)
        self._plan = replace(self._plan, done=number + 1)
        keep(self._plan, self._folder)
        so_far = self._progress
        self._progress = Progress(
            so_far.batches + 1, so_far.rows + rows, rows / took, self._left(number + 1), int(took * 1000)
        )

    def _left(self, done: int) -> int:
        whole = self._plan
        return sum(end - first for n in range(done, whole.slices) for first, end in whole.slice(n).values())
