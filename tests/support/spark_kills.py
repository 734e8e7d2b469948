"""Runs of Spark drivers, ended by force.

A driver has a process of its own, in a session of its own: killing it ends its JVM and all of its workers in the same
moment, as when a machine goes away.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.broker_process import SRC
from tests.support.failpoints import FOLDER, Failpoints
from tests.support.programs import require_java
from tests.support.restartable_broker import RestartableBroker
from tests.support.spark_pipelines import Pipeline

REPOSITORY = SRC.parent
LOCAL = "local[4,4]"  # room for tasks that stand in a trap; four attempts for each task
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
    # A short run: quick to start rather than quick in the end.
    "spark.sql.codegen.wholeStage": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
SHUFFLED = 2  # tasks behind the shuffle


class Driver:
    """One run of a driver that runs these pipelines until everything is transferred, or for ever.

    ``signed``: rows tell by headers who carried them. ``carried``: the code of the source travels with the tasks.
    """

    def __init__(
        self,
        folder: Path,
        broker: RestartableBroker,
        pipelines: Sequence[Pipeline],
        failpoints: Failpoints | None = None,
        *,
        master: str = LOCAL,
        settings: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
        command: Sequence[str] = (sys.executable, "-m", "tests.support.spark_driver"),
        signed: bool = False,
        carried: bool = False,
        endless: bool = False,
    ) -> None:
        require_java()
        folder.mkdir(parents=True, exist_ok=True)
        self.failpoints = failpoints
        self._is_over = False
        self._log, self._begun = folder / "driver.log", folder / "begun"
        # What a killed driver leaves behind goes away with the test's folder.
        places = {"spark.local.dir": str(folder), "spark.sql.warehouse.dir": str(folder / "warehouse")}
        plan = {
            "endpoint": broker.endpoint,
            "pipelines": [pipeline.plan() for pipeline in pipelines],
            "settings": {"spark.master": master, **SETTINGS, **places, **(settings or {})},
            "begun": str(self._begun),
            "shuffled": SHUFFLED,
            "trapped": failpoints is not None,
            "signed": signed,
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

    def await_end(self, seconds: float = 300.0) -> None:
        code = self.process.wait(seconds)
        self.kill()  # what lingers
        assert code == 0, f"the driver ended with {code}: {self.log()}"


def spark_environment(folder: Path) -> dict[str, str]:
    """The tests and the package can be imported by every process of Spark; temporary files go into the folder."""
    temporary = folder / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("LEVERET_", "SPARK_", "PYSPARK_"))
    }
    return kept | {
        "PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(SRC)]),
        "PYSPARK_PYTHON": str(quick_python(temporary)),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "TMPDIR": str(temporary),
    }


def quick_python(folder: Path, *flags: str) -> Path:
    """Python for Spark's many short processes: finds Spark compiled, not as text in the zip file Spark names first."""
    script = folder / "python"
    packages = sysconfig.get_paths()["purelib"]
    start = shlex.join([sys.executable, *flags])
    script.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(packages)}:"$PYTHONPATH" exec {start} "$@"\n')
    script.chmod(0o755)
    return script


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


def end_session(session: int, seconds: float = 10.0) -> None:
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
