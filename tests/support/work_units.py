"""How `make test` divides the tests among its worker processes.

A unit of work is a test file, so that the fixtures of a module are created once. Files that share an expensive fixture
of the session (a JVM with Spark, RabbitMQ) form one unit. The longest units start first; tests/durations.json has the
seconds of the files that take long, and `LEVERET_RECORD_DURATIONS=1 make test` writes it.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

DURATIONS = Path(__file__).parents[1] / "durations.json"
LEAST = 2.0  # seconds of a file that is recorded
SLOW = 5.0  # seconds of a test for which no other long unit should wait
SHARED = {
    "rabbitmq": re.compile(r"tests/compat/.*_rabbitmq\.py"),
    # Three sessions of Spark, about as long as each other, so that none of them is the last to end.
    "spark": re.compile(
        r"tests/spark/test_(batch_source|formats|guide|notebook|queries|sinks|source_features|tables)\.py"
    ),
    "spark jobs": re.compile(r"tests/spark/test_jobs_(frames|keyed|running|unroutable)\.py"),
    "spark no loss": re.compile(r"tests/spark/test_(jobs_commands|no_loss)\.py"),
}


def file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def unit_of(nodeid: str) -> str:
    file = file_of(nodeid)
    return next((name for name, files in SHARED.items() if files.fullmatch(file)), file)


@cache
def unit_seconds() -> dict[str, float]:
    """The recorded seconds of each unit."""
    seconds: dict[str, float] = {}
    for file, recorded in json.loads(DURATIONS.read_text()).items():
        seconds[unit_of(file)] = seconds.get(unit_of(file), 0.0) + recorded
    return seconds


def longest_first(items: list[pytest.Item]) -> None:
    """Sort by unit; the order within a unit stays."""
    items.sort(key=lambda item: (-unit_seconds().get(unit_of(item.nodeid), 0.0), unit_of(item.nodeid)))


def record_durations(reports: Iterable[pytest.TestReport]) -> None:
    seconds: dict[str, float] = defaultdict(float)
    for report in reports:
        seconds[file_of(report.nodeid)] += report.duration
    known = {file: taken for file, taken in json.loads(DURATIONS.read_text()).items() if file not in seconds}
    long = known | {file: round(taken, 1) for file, taken in seconds.items() if taken >= LEAST}
    DURATIONS.write_text(json.dumps(long, indent=1, sort_keys=True) + "\n")


class LongestFirst(LoadScopeScheduling):
    """Passes whole units to the workers in the order of the collection.

    A worker runs a test only when it has the next one, so it holds a second unit during the last tests of the first. If
    these are slow, the second unit is one of the short ones at the end of the queue: a long one would wait although
    other workers run out of work.
    """

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        if any(is_slow(unit, tests) for unit, tests in self.assigned_work[node].items() if not all(tests.values())):
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)


def is_slow(unit: str, tests: dict[str, bool]) -> bool:
    return unit_seconds().get(unit, 0.0) / len(tests) > SLOW
