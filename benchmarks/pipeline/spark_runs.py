"""Starts Spark processes for measurements: each with a folder and a time limit of its own, and none outlives it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from benchmarks.brokers import descendants
from benchmarks.pipeline.job import NEWS, Job, Line

REPOSITORY = Path(__file__).resolve().parents[2]
JOB_SECONDS = 240
LAST_WORDS = 1_500


class JobFailed(Exception):
    """A Spark process without a result; the message contains the end of its output."""


def run_job(job: Job) -> Line:
    """The results of the process. Its progress lines are passed on."""
    folder = Path(job.folder)
    folder.mkdir(parents=True)
    log = folder / "spark.log"
    news = os.dup(sys.stderr.fileno())
    environment = {
        "PYTHONPATH": os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "TMPDIR": str(folder),
        NEWS: str(news),
    }
    with log.open("wb") as output:
        child = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.pipeline.spark_process", job.to_json()],
            cwd=folder,
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=output,
            start_new_session=True,
            pass_fds=(news,),
        )
        try:
            answer, _ = child.communicate(timeout=JOB_SECONDS)
        except subprocess.TimeoutExpired:
            raise JobFailed(f"{job.name}: not done after {JOB_SECONDS} s\n{_end_of(log)}") from None
        finally:
            _end(child)
            os.close(news)
    if child.returncode:
        raise JobFailed(f"{job.name}: exit status {child.returncode}\n{_end_of(log)}")
    found: Line = json.loads(answer.splitlines()[-1])
    return found


def _end(child: subprocess.Popen[bytes]) -> None:
    """The process, the workers below it, and its JVM, which may outlive it for a while: it has the same group."""
    if child.poll() is None:
        for pid in reversed(descendants(child.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        child.wait()
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def _end_of(log: Path) -> str:
    return log.read_text(errors="replace")[-LAST_WORDS:]
