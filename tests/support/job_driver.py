"""A Spark driver as a process of its own that runs ready pipelines side by side, and writes their reports at the end.

Started by `JobDriver` with a plan as JSON: settings of Spark, the options of each job, and the files for the reports of
the jobs and for the last report of each query to the broker.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.spark_environment import CHECKPOINTS, SETTINGS, spark_environment
from tests.support.spark_kills import LOCAL, end_session

BEGINNING = ("Initializing", "Starting")
SLOW_START = ("failed to connect back", "CANNOT_OPEN_SOCKET")
ATTEMPTS = 5


class JobDriver:
    """One run; ``kill`` ends the driver, its JVM and its workers at once."""

    def __init__(self, folder: Path, jobs: Mapping[str, Mapping[str, Any]]) -> None:
        folder.mkdir(parents=True)
        self._log, self._reports = folder / "driver.log", folder / "reports.json"
        self._told = folder / "told.json"
        one = {"spark.sql.shuffle.partitions": "1"}  # many queries with little data
        settings = {"spark.master": LOCAL, **SETTINGS, **CHECKPOINTS, "spark.local.dir": str(folder), **one}
        plan = json.dumps({"settings": settings, "jobs": jobs, "reports": str(self._reports), "told": str(self._told)})
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.job_driver", plan],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                env=spark_environment(folder),
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def kill(self) -> None:
        end_session(self.process.pid)
        self.process.wait(60)

    def assert_alive(self) -> None:
        assert self.process.poll() is None, self._log.read_text(errors="replace")[-6000:]

    def reports(self, seconds: float) -> dict[str, dict[str, int]]:
        """The rows of each job, when all have ended."""
        code = self.process.wait(seconds)
        assert code == 0, self._log.read_text(errors="replace")[-6000:]
        found: dict[str, dict[str, int]] = json.loads(self._reports.read_text())
        return found

    def told(self) -> dict[str, dict[str, Any]]:
        """The last report of each query to the broker, by the name of the query; after ``reports``."""
        found: dict[str, dict[str, Any]] = json.loads(self._told.read_text())
        return found


def start_patiently(start: Callable[[], Any]) -> Any:
    """One after the other, as in spark_driver.py: Spark gives the process of a source ten seconds to start."""
    for _ in range(ATTEMPTS):
        job = start()
        for query in getattr(job, "queries", ()):
            while query.isActive and query.status["message"].startswith(BEGINNING):
                time.sleep(0.05)
            problem = query.exception()
            if problem is not None and any(sign in str(problem) for sign in SLOW_START):
                break
        else:
            return job
    return job


def main(plan: dict[str, Any]) -> None:
    from pyspark.sql import SparkSession

    from leveret.cli.pipeline import job_named
    from leveret.spark import LeveretListener
    from leveret.spark.jobs.description import description_of

    builder = SparkSession.builder.appName("leveret-jobs")
    for name, value in plan["settings"].items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    told: dict[str, dict[str, object]] = {}

    class NotingListener(LeveretListener):
        """The broker is killed, and forgets the reports of queries that have ended before."""

        def _report(self, whole: dict[str, object]) -> None:
            told[str(whole.get("name"))] = whole | {"described": described.get(str(whole.get("name")))}
            super()._report(whole)

    described: dict[str, dict[str, object]] = {}
    [endpoint] = {options["endpoint"] for options in plan["jobs"].values()}
    spark.streams.addListener(NotingListener({"endpoint": endpoint}, described))
    running = {}
    for name, options in plan["jobs"].items():
        job = job_named(name)
        given = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
        described[name] = description_of(job, job.options(**given))
        running[name] = start_patiently(partial(job.start, spark, job.options(**given)))
    left = set(running)
    while left:
        left -= {name for name in left if running[name].wait(0.1)}
    while any(one["state"] != "stopped" for one in told.values()):
        time.sleep(0.05)  # events of the last batches are on their way
    Path(plan["told"]).write_text(json.dumps(told))
    reports = {name: asdict(job.report().accounts[0].counts) for name, job in running.items()}
    Path(plan["reports"]).write_text(json.dumps(reports))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
