"""`make bench-profile`: where the time of a lone message goes, as the tables of docs/internals/cost.md.

Each pattern runs twice, against a broker of its own: under `perf record`, for CPU time, waits and the shares of the
kernel, of the interpreter and of libraries, and under `strace -c`, for system calls. strace makes the broker slower, so
more messages gather per read where nothing limits the rate: read rates and times from the first run only.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.brokers import BrokerFailed, Leveret, allow_many_files
from benchmarks.celeryload import WARM_UP
from benchmarks.generator import GeneratorFailed, Generators, Line, add_source_option
from benchmarks.scenarios import BY_ID, SAFE

WORKERS = (*SAFE, "--batch", "1", "--consumers", "10", "--prefetch", "4", "--ack-multiple", "1", "--rate", "2000")
PATTERNS = {
    "a16b1": ("amqpbench", BY_ID["a16b1"].arguments, 16),
    "h1k": ("amqpbench", BY_ID["h1k"].arguments, 1024),
    "dw1": ("amqpbench", BY_ID["dw1"].arguments, 16),
    "rpc": ("rpcload", (), 16),
    "celery": ("celeryload", (), 16),
    # As ten workers of Celery do: a connection each, prefetch 4, an ack after each task.
    "workers": ("amqpbench", WORKERS, 256),
}
WAITS = frozenset({"epoll_wait", "epoll_pwait", "epoll_pwait2"})
SHOWN_CALLS = 6
SHOWN_PARTS = 5
TICKS = os.sysconf("SC_CLK_TCK")
STRACE_ROW = re.compile(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", re.MULTILINE)
PERF_ROW = re.compile(r"^\s*([\d.]+)%\s+(\S+)", re.MULTILINE)


@dataclass(slots=True)
class Reading:
    """Of all threads of a process."""

    user: float  # seconds
    kernel: float
    waits: int  # a thread gave up its core by itself
    preempted: int

    def __sub__(self, other: Reading) -> Reading:
        return Reading(
            self.user - other.user,
            self.kernel - other.kernel,
            self.waits - other.waits,
            self.preempted - other.preempted,
        )


@dataclass(slots=True)
class Profile:
    """One pattern, per message."""

    pattern: str
    rate: float = 0.0
    used: Reading = field(default_factory=lambda: Reading(0, 0, 0, 0))
    messages: int = 1
    parts: dict[str, float] = field(default_factory=dict)  # percent of the CPU time
    calls: dict[str, float] = field(default_factory=dict)

    def row(self) -> str:
        user, kernel = (1e6 * seconds / self.messages for seconds in (self.used.user, self.used.kernel))
        rounds = sum(number for name, number in self.calls.items() if name in WAITS)
        calls = ", ".join(f"{name} {number:.2f}" for name, number in list(self.calls.items())[:SHOWN_CALLS])
        parts = ", ".join(f"{name} {share:.0f} %" for name, share in list(self.parts.items())[:SHOWN_PARTS])
        cells = (
            self.pattern,
            f"{self.rate:,.0f}",
            f"{user:.1f} + {kernel:.1f}",
            f"{rounds:.2f}",
            f"{sum(self.calls.values()):.2f}: {calls}",
            f"{self.used.waits / self.messages:.2f}",
            parts,
        )
        return f"| {' | '.join(cells)} |"


HEAD = (
    "| pattern | messages/s | us of CPU, user + kernel | rounds | system calls | waits | where |\n"
    "|---|---|---|---|---|---|---|"
)


def reading(pid: int) -> Reading:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    switches = Counter[str]()
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        for line in status.read_text().splitlines():
            name, _, value = line.partition(":")
            if name.endswith("ctxt_switches"):
                switches[name] += int(value)
    waits, preempted = switches["voluntary_ctxt_switches"], switches["nonvoluntary_ctxt_switches"]
    return Reading(int(fields[11]) / TICKS, int(fields[12]) / TICKS, waits, preempted)


@contextmanager
def watched(command: list[str]) -> Iterator[None]:
    """While a tool watches the broker; it is told to end as by Ctrl-C, and then writes its file."""
    tool = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        yield
    finally:
        tool.send_signal(signal.SIGINT)
        tool.communicate(timeout=60)


def profile(pattern: str, generators: Generators, folder: Path, seconds: float) -> Profile:
    found = Profile(pattern)
    generator, arguments, size = PATTERNS[pattern]
    command = ["--size", str(size), *arguments, "--warmup", "1", "--seconds", f"{seconds:g}"]
    with Leveret(folder / f"{pattern}-perf", sys.executable) as broker:
        data = folder / f"{pattern}.perf"
        before = reading(broker.pid)
        with watched(["perf", "record", "-q", "-F", "499", "-e", "cpu-clock", "-p", str(broker.pid), "-o", str(data)]):
            line = generators.run(generator, broker, command, f"{pattern} perf")
        found.used = reading(broker.pid) - before
        found.rate, found.messages = line["recv_rate"], total(line)
        found.parts = shares(data)
    with Leveret(folder / f"{pattern}-strace", sys.executable) as broker:
        counts = folder / f"{pattern}.strace"
        with watched(["strace", "-c", "-f", "-qq", "-p", str(broker.pid), "-o", str(counts)]):
            line = generators.run(generator, broker, command, f"{pattern} strace")
        calls = {name: int(number) / total(line) for number, name in STRACE_ROW.findall(counts.read_text())}
        calls.pop("total", None)
        found.calls = dict(sorted(calls.items(), key=lambda item: -item[1]))
    return found


def total(line: Line) -> int:
    """The messages of the whole run."""
    return int(line["received"]) + (WARM_UP if line["mode"] == "celery" else 0)


def shares(data: Path) -> dict[str, float]:
    """Percent of the samples by shared object, the largest first."""
    command = ["perf", "report", "-i", str(data), "--sort", "dso", "--stdio", "-q"]
    report = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[str, float] = {}
    for share, name in PERF_ROW.findall(report):
        found[part_of(name)] = found.get(part_of(name), 0.0) + float(share)
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def part_of(name: str) -> str:
    if name.startswith("[kernel"):
        return "kernel"
    if name.startswith(("python", "libpython")):
        return "interpreter"
    return name.partition(".")[0]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.profiles", description=__doc__)
    add_source_option(parser)
    parser.add_argument("--patterns", default=",".join(PATTERNS), help="comma-separated")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each run")
    options = parser.parse_args(arguments)
    patterns = options.patterns.split(",")
    if unknown := [name for name in patterns if name not in PATTERNS]:
        parser.error(f"unknown patterns: {', '.join(unknown)}; there are: {', '.join(PATTERNS)}")
    allow_many_files()
    print(HEAD)
    try:
        generators = Generators.compile(options.amqpbench)
        with tempfile.TemporaryDirectory() as folder:
            for name in patterns:
                print(profile(name, generators, Path(folder), options.seconds).row(), flush=True)
    except (BrokerFailed, GeneratorFailed) as failure:
        print(f"{failure}", file=sys.stderr)
        return 1
    except FileNotFoundError as missing:
        print(f"{missing.filename} is not installed (Debian: apt-get install linux-perf strace)", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
