"""`make bench-clients`: leveret.client beside pika and aio-pika, in one run against one broker process.

Each round takes every measure once, so that all of them see the same machine; the table has the medians. Messages have
100 bytes and are transient: what is measured is the client, not a disk. What is published by a measure is consumed by
the measures behind it, and the queue is filled up for them where needed. Raw lines go to benchmarks/results.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.brokers import BrokerFailed, Leveret
from benchmarks.clients.measures import MEASURES, QUEUE
from benchmarks.report import machine
from benchmarks.run import RESULTS, commit
from leveret.client import blocking

SECONDS = 300  # for one measure


@dataclass(frozen=True, slots=True)
class Comparison:
    """Our measure beside theirs. The ratio may have a target."""

    title: str
    ours: str
    theirs: str
    target: float | None = None


COMPARISONS = (
    Comparison("publish with confirms, blocking / pika", "blocking-publish", "pika-publish", 3),
    Comparison("consume with acks, blocking / pika", "blocking-consume", "pika-consume", 3),
    Comparison("publish one by one, blocking / pika", "blocking-one", "pika-publish"),
    Comparison("publish with confirms, asyncio / aio-pika", "asyncio-publish", "aio-pika-publish", 2),
    Comparison("consume with acks, asyncio / aio-pika", "asyncio-consume", "aio-pika-consume", 2),
    Comparison("publish one by one, asyncio / aio-pika", "asyncio-one", "aio-pika-one"),
)


class MeasureFailed(Exception):
    """A measure ended with an error, or not at all."""


class Bench:
    def __init__(self, url: str, options: argparse.Namespace, raw: Path | None) -> None:
        self._url = url
        self._options = options
        self._raw = raw
        self.rates: dict[str, list[float]] = {}
        self._keep({"machine": machine(), "versions": versions(), "date": now()})

    def measure(self) -> None:
        for turn in range(self._options.rounds):
            for name in MEASURES:
                self._one(name, turn)

    def _one(self, name: str, turn: int) -> None:
        kind = name.rpartition("-")[2]
        count = self._options.one_by_one if kind == "one" or name == "pika-publish" else self._options.messages
        self._prepare(count if kind == "consume" else 0)
        line = run_measure(name, self._url, count)
        self.rates.setdefault(name, []).append(float(line["rate"]))
        self._keep({"id": name, "round": turn, **line})
        say(f"round {turn + 1}: {name} {line['rate']:,.0f}/s")

    def _prepare(self, messages: int) -> None:
        """The queue holds so many, no more and no less."""
        with blocking.connect(self._url) as connection:
            channel = connection.channel()
            channel.declare_queue(QUEUE)
            channel.purge_queue(QUEUE)
            channel.confirm_select()
            for _ in range(messages):
                channel.send(bytes(100), routing_key=QUEUE)
            assert channel.confirms is not None
            channel.confirms.all_settled()

    def _keep(self, line: dict[str, object]) -> None:
        if self._raw is not None:
            with self._raw.open("a", encoding="utf-8") as raw:
                raw.write(json.dumps(line) + "\n")


def run_measure(name: str, url: str, count: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.clients.measures", name, url, str(count)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise MeasureFailed(f"{name} was not done within {SECONDS} s") from None
    if done.returncode:
        raise MeasureFailed(f"{name} failed:\n{done.stderr[-2000:]}")
    line: dict[str, float] = json.loads(done.stdout)
    return line


def table(rates: dict[str, list[float]]) -> tuple[str, bool]:
    """As text, and whether every target was met."""
    grid = [("what", "ours", "theirs", "ratio", "target", "")]
    kept = True
    for each in COMPARISONS:
        ours, theirs = median(rates[each.ours]), median(rates[each.theirs])
        ratio = ours / theirs
        is_kept = each.target is None or ratio >= each.target
        kept = kept and is_kept
        target, outcome = (f">= {each.target:g}x", "pass" if is_kept else "FAIL") if each.target else ("", "")
        grid.append((each.title, f"{ours:,.0f}/s", f"{theirs:,.0f}/s", f"{ratio:.1f}x", target, outcome))
    widths = [max(len(cells[column]) for cells in grid) for column in range(len(grid[0]))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip() for cells in grid)
    return "\n".join(lines), kept


def versions() -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in ("leveret", "pika", "aio-pika", "aiormq", "uvloop")}


def now() -> str:
    return datetime.datetime.now().astimezone().isoformat(timespec="seconds")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.clients.run", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages", type=int, default=100_000, help="of a measure that has many under way")
    parser.add_argument("--one-by-one", type=int, default=10_000, help="messages of a measure that waits for each")
    parser.add_argument("--smoke", action="store_true", help="few messages: does it run? keeps no figures")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    RESULTS.mkdir(exist_ok=True)
    raw = None if options.smoke else RESULTS / f"{datetime.date.today().isoformat()}-{commit()}-clients.jsonl"
    if options.smoke:
        options.rounds, options.messages, options.one_by_one = 1, 2_000, 200
    with tempfile.TemporaryDirectory(prefix="leveret-bench-", ignore_cleanup_errors=True) as folder:
        try:
            with Leveret(Path(folder), sys.executable) as broker:
                bench = Bench(f"amqp://guest:guest@127.0.0.1:{broker.port}/%2F", options, raw)
                bench.measure()
        except (BrokerFailed, MeasureFailed) as problem:
            say(str(problem))
            return 2
    shown, kept = table(bench.rates)
    print(shown)
    if options.smoke:
        say("a smoke run: the figures mean nothing")
        return 0
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
