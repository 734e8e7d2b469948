"""A real standalone cluster of Spark on this machine: a master and workers, from the pip package, on loopback.

Each is a process in a session of its own that runs in the foreground, so that its executors end with it.
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

from tests.support.programs import require_java
from tests.support.spark_environment import QUICK_JVM, spark_environment
from tests.support.spark_kills import end_session

SPARK_HOME = Path(pyspark.__path__[0])
WORKERS = 2
# What one executor needs at least; a worker has room for one.
EXECUTOR_MEMORY, WORKER_MEMORY = "512m", "600m"
MASTER = r"Starting Spark master at (spark://\S+)"
REGISTERED = r"Registering worker "
DAEMON = {"SPARK_NO_DAEMONIZE": "1", "SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": QUICK_JVM}
# One core and one executor on each worker, and no task before both are there.
SETTINGS = {
    "spark.cores.max": str(WORKERS),
    "spark.executor.cores": "1",
    "spark.executor.memory": EXECUTOR_MEMORY,
    "spark.executor.extraJavaOptions": QUICK_JVM,
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
}


class Member:
    """The master or a worker."""

    def __init__(self, folder: Path, kind: str, host: str, *arguments: str, environ: Mapping[str, str]) -> None:
        folder.mkdir()
        self._log = folder / "log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *(str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}"),
                    *("--host", host, "--port", "0", "--webui-port", "0", *arguments),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                env={**environ, **DAEMON, "SPARK_LOCAL_IP": host},
                start_new_session=True,
            )

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def await_line(self, pattern: str, number: int = 1, seconds: float = 120.0) -> str:
        """The last of so many lines that match."""
        deadline = time.monotonic() + seconds
        while len(found := re.findall(pattern, self.log())) < number:
            assert self.process.poll() is None, f"it ended: {self.log()}"
            assert time.monotonic() < deadline, f"no '{pattern}' in {self.log()}"
            time.sleep(0.05)
        line: str = found[number - 1]
        return line

    def end(self) -> None:
        end_session(self.process.pid)
        self.process.wait(60)


class Cluster:
    """``url`` is its master; ``worker_pids`` are the processes from which executors are started."""

    def __init__(self, folder: Path, environ: Mapping[str, str] | None = None) -> None:
        require_java()
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._environ = {**spark_environment(folder), **(environ or {})}
        self._members: list[Member] = []

    def __enter__(self) -> Self:
        try:
            master = self._start("master.Master")
            self.url = master.await_line(MASTER)
            self.workers = [self._start("worker.Worker", *self._room(number), self.url) for number in range(WORKERS)]
            master.await_line(REGISTERED, WORKERS)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    @property
    def worker_pids(self) -> set[int]:
        return {worker.process.pid for worker in self.workers}

    def _room(self, number: int) -> list[str]:
        work = str(self._folder / f"work-{number}")
        return ["--cores", "1", "--memory", WORKER_MEMORY, "--work-dir", work]

    def _start(self, kind: str, *arguments: str) -> Member:
        number = len(self._members)
        # Each has an address of its own: Spark lets no two attempts at a task run on one host.
        host = f"127.0.0.{number + 1}"
        member = Member(self._folder / f"member-{number}", kind, host, *arguments, environ=self._environ)
        self._members.append(member)
        return member

    def _end(self) -> None:
        for member in reversed(self._members):
            member.end()
