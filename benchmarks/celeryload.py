"""celeryload: no-op tasks of Celery through one worker, as a load generator: one JSON line like those of load.h.

A worker in a process of its own (solo, prefetch 4, acknowledged after the task) runs tasks that this program sends one
by one; both use Celery's defaults otherwise. The tasks run in order, so the result of the last one means that all are
done. Rates and CPU time are per task.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

URL = "LEVERET_BENCH_BROKER"  # environment variable that celery_app reads
REPOSITORY = Path(__file__).resolve().parent.parent
TASKS = 2_000
WARM_UP = 200
PATIENCE = 60  # seconds for all tasks
TICKS = os.sysconf("SC_CLK_TCK")


class Reading(NamedTuple):
    time: float
    broker: float  # CPU seconds
    ours: float
    busy: float  # of the machine


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def read_all(brokers: list[int], worker: int) -> Reading:
    cpu = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    usage = resource.getrusage(resource.RUSAGE_SELF)
    ours = usage.ru_utime + usage.ru_stime + cpu_of(worker)
    busy = (sum(cpu[:3]) + sum(cpu[5:8])) / TICKS  # the last is time that the host took
    return Reading(time.monotonic(), sum(cpu_of(pid) for pid in brokers), ours, busy)


@contextmanager
def worker() -> Iterator[int]:
    command = [sys.executable, "-m", "celery", "-A", "benchmarks.celery_app", "worker", "--pool", "solo"]
    command += ["--concurrency", "1", "--loglevel", "ERROR"]
    environment = os.environ | {"C_FORCE_ROOT": "1"}
    child = subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdout=sys.stderr)
    try:
        yield child.pid
    finally:
        child.terminate()
        try:
            child.wait(20)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def run(tasks: int) -> int:
    """Send so many tasks and wait until all have run; returns how many ran since the worker started."""
    from benchmarks.celery_app import nothing, number

    for _ in range(tasks):
        nothing.delay()
    return int(number.delay().get(timeout=PATIENCE))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--broker-pid", required=True)
    parser.add_argument("--label", default="")
    parser.add_argument("--tasks", type=int, default=TASKS)
    return parser.parse_known_args()[0]  # sizes and times are those of other generators


def measure(options: argparse.Namespace) -> int:
    brokers = [int(pid) for pid in options.broker_pid.split(",")]
    with worker() as pid:
        run(WARM_UP)
        before = read_all(brokers, pid)
        done = run(options.tasks) - WARM_UP
        after = read_all(brokers, pid)
    length, cpu = after.time - before.time, after.broker - before.broker
    other = after.busy - before.busy - cpu - (after.ours - before.ours)
    line = {"label": options.label, "mode": "celery", "ok": done == options.tasks, "lost": options.tasks - done}
    line |= {"window_s": round(length, 3), "received": done, "recv_rate": round(done / length, 1)}
    line |= {"broker_cpu_s": round(cpu, 3), "broker_cpu_s_per_M": round(cpu / options.tasks * 1e6, 1)}
    line |= {"other_cpu_s": round(max(other, 0.0), 2), "self_cpu_s": round(after.ours - before.ours, 2)}
    print(json.dumps(line))
    return 0 if line["ok"] else 3


if __name__ == "__main__":
    chosen = parse()
    sys.path.insert(0, str(REPOSITORY))
    os.environ[URL] = f"amqp://guest:guest@127.0.0.1:{chosen.port}//"
    sys.exit(measure(chosen))
