"""Runs of Spark drivers, ended by force.

A driver has a process of its own, in a session of its own: killing it ends its JVM and all of its workers in the same
moment, as when a machine goes away.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.failpoints import FOLDER, Failpoints
from tests.support.programs import require_java
from tests.support.restartable_broker import KillableBroker
from tests.support.spark_environment import SETTINGS, spark_environment
from tests.support.spark_pipelines import Pipeline

LOCAL = "local[4,4]"  # room for tasks that stand in a trap; four attempts for each task
EXECUTOR = "CoarseGrainedExecutorBackend"
SHUFFLED = 2  # tasks behind the shuffle


class Driver:
    """One run of a driver that runs these pipelines until everything is transferred, or for ever.

    ``carried``: the code of the source travels with the tasks. ``jobs``: ready pipelines, by name and options.
    """

    def __init__(
        self,
        folder: Path,
        broker: KillableBroker,
        pipelines: Sequence[Pipeline],
        failpoints: Failpoints | None = None,
        *,
        jobs: Sequence[tuple[str, Mapping[str, Any]]] = (),
        master: str = LOCAL,
        settings: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
        command: Sequence[str] = (sys.executable, "-m", "tests.support.spark_driver"),
        carried: bool = False,
        endless: bool = False,
    ) -> None:
        require_java()
        folder.mkdir(parents=True, exist_ok=True)
        self.failpoints = failpoints
        self._is_over = False
        self._log, self._begun, self._reports = folder / "driver.log", folder / "begun", folder / "reports"
        # What a killed driver leaves behind goes away with the test's folder.
        places = {"spark.local.dir": str(folder), "spark.sql.warehouse.dir": str(folder / "warehouse")}
        plan = {
            "endpoint": broker.endpoint,
            "pipelines": [pipeline.plan() for pipeline in pipelines],
            "jobs": jobs,
            "reports": str(self._reports),
            "settings": {"spark.master": master, **SETTINGS, **places, **(settings or {})},
            "begun": str(self._begun),
            "shuffled": SHUFFLED,
            "trapped": failpoints is not None,
            "carried": carried,
            "endless": endless,
        }
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, json.dumps(plan)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                env={
                    **spark_environment(folder),
                    **(environ or {}),
                    FOLDER: str(failpoints.folder) if failpoints else "",
                },
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        if error is not None and hasattr(error, "add_note"):
            error.add_note(f"the driver says: {self.log()}")

    def log(self) -> str:
        return self._log.read_text(errors="replace")[-6000:]

    def reports(self) -> list[str]:
        """How the rows of each job add up, when all have ended."""
        return self._reports.read_text().splitlines()

    def is_alive(self) -> bool:
        return self.process.poll() is None

    def has_begun(self) -> bool:
        return self._begun.exists()

    def kill(self) -> None:
        """The driver, its JVM and its workers, at once and without a last word."""
        if not self._is_over:
            end_session(self.process.pid)
            self.process.wait(10)
            self._is_over = True

    def await_traps(self, *names: str) -> None:
        assert self.failpoints is not None
        self.failpoints.await_hits(names, self.is_alive)

    def kill_executors_at(self, *names: str) -> None:
        """Kill the executor of each task that stands at one of these failpoints, in any order.

        The executors may have fewer cores than there are failpoints.
        """
        assert self.failpoints is not None
        left = [*names]
        while left:
            name = self.failpoints.await_first(left, self.is_alive)
            os.kill(executor_of(self.failpoints.seen(name)["pid"]), signal.SIGKILL)
            self.failpoints.release(name)
            left.remove(name)

    def await_end(self, seconds: float = 300.0) -> None:
        code = self.process.wait(seconds)
        self.kill()  # what lingers
        assert code == 0, f"the driver ended with {code}: {self.log()}"


def executor_of(pid: int) -> int:
    """The executor that started this Python process."""
    while EXECUTOR not in Path(f"/proc/{pid}/cmdline").read_text():
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        assert pid > 1, "no executor"
    return pid


def session_members(session: int) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            state, _, _, member = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue  # it ended while we were looking
        if int(member) == session and state != "Z":
            yield int(entry.name)


def end_session(session: int, seconds: float = 60.0) -> None:
    """Kill every process that was started by the one that leads this session, and itself."""
    deadline = time.monotonic() + seconds
    while members := [*session_members(session)]:
        assert time.monotonic() < deadline, f"these processes cannot be killed: {members}"
        for pid in members:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.01)
