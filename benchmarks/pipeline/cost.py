"""What a stretch of time cost: CPU seconds of some process trees, and of everything else on the machine."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from benchmarks.brokers import descendants

TICKS = os.sysconf("SC_CLK_TCK")


class Reading(NamedTuple):
    time: float
    busy: float  # CPU seconds of the whole machine
    trees: dict[str, float]  # CPU seconds by name


def cpu_seconds(pid: int) -> float:
    """Of the process, all below it, and those below it that have ended."""
    ticks = 0
    for one in descendants(pid):
        try:
            stat = Path(f"/proc/{one}/stat").read_text()
        except OSError:
            continue  # ended meanwhile; counted by its parent
        ticks += sum(int(field) for field in stat.rpartition(")")[2].split()[11:15])
    return ticks / TICKS


def reading(pids: Mapping[str, int]) -> Reading:
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:8]]
    user, nice, system, _, _, interrupts, soft = fields
    busy = (user + nice + system + interrupts + soft) / TICKS
    return Reading(time.monotonic(), busy, {name: cpu_seconds(pid) for name, pid in pids.items()})


def between(start: Reading, end: Reading) -> dict[str, float]:
    """Seconds, `<name>_cpu_s` for each tree, and `other_cpu_s`: what went elsewhere."""
    trees = {name: end.trees[name] - start.trees[name] for name in start.trees}
    other = max(end.busy - start.busy - sum(trees.values()), 0.0)
    shown = {f"{name}_cpu_s": seconds for name, seconds in trees.items()} | {"other_cpu_s": other}
    return {"seconds": end.time - start.time} | {name: round(value, 3) for name, value in shown.items()}
