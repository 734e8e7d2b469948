"""How each scenario is measured: fill, run, compare what came out with what went in, and one line of figures.

A line has `figure` (what is judged), where it comes from, and what it cost. `CheckFailed` ends a scenario whose output
is not its input: its speed would be worth nothing.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from benchmarks.brokers import descendants
from benchmarks.generator import Generators
from benchmarks.pipeline.bodies import Sums, sums
from benchmarks.pipeline.fetch_load import READY
from benchmarks.pipeline.filling import Target, fill
from benchmarks.pipeline.job import Job, Line, Pass, Sink, Source
from benchmarks.pipeline.provisions import (
    LeveretWithHttp,
    declare_outlet,
    declare_queue,
    declare_super_stream,
    wait_for_messages,
)
from benchmarks.pipeline.scenarios import Scenario
from benchmarks.pipeline.spark_runs import REPOSITORY, run_job

BATCHES = 2  # of a streaming pass; the first is warming up. Large ones: Spark takes 0.4 s for any batch
WARM_PART = 4  # a queue with this part of the rows is read before the measured one, to warm up and to check
PROBE_RATE = 1_000
READERS_LONGER = 4.0  # seconds that the readers go on after the probe's own


class CheckFailed(Exception):
    """What came out is not what went in."""


def must_equal(name: str, found: Sums, expected: Sums) -> None:
    if found != expected:
        raise CheckFailed(f"{name}: {found} came out, {expected} went in")


def observed(measured: Line) -> Sums:
    """What a pass has added up, over its batches."""
    total = Sums(0, 0)
    for batch in measured["batches"]:
        total += Sums(**{name: value or 0 for name, value in batch["sums"].items()})
    return total


def figures_of(found: Line, expected: Sums) -> Line:
    """Of the last pass; every row must have been counted once."""
    measured = found["passes"][-1]
    if measured["rows"] != expected.rows:
        raise CheckFailed(f"{measured['rows']} rows were read, not {expected.rows}")
    names = ("rows", "seconds", "wall_rate", "is_warm", "broker_cpu_s", "spark_cpu_s", "other_cpu_s")
    return {"figure": measured["rate"], "from": "progress", **{name: measured[name] for name in names}, "raw": found}


def warming(source: Source) -> Pass:
    """Reads what the measured pass will read, and writes it nowhere."""
    return Pass("check", source, Sink("noop"), False)


class Measures:
    """The scenarios of one started broker of ours; what is filled once serves all that read it."""

    def __init__(self, broker: LeveretWithHttp, folder: Path, say: Callable[[str], None]) -> None:
        self._broker = broker
        self._folder = folder
        self._say = say
        self._filled: dict[str, Sums] = {}

    # ---- streams

    def noop(self, scenario: Scenario, *, messages_per_key: int = 256, has_headers: bool = False) -> Line:
        """A pass that adds up what it reads, one more to warm up, then the one that counts."""
        name = "bench.long" if scenario.group == "streams" else f"bench.{scenario.id}"
        expected = self.super_stream(name, scenario.rows, messages_per_key, has_headers)
        source = self._from(scenario.rows, BATCHES, superStream=name, startingOffsets="earliest")
        if has_headers:
            source.options["includeHeaders"] = "true"
        measure = Pass("measure", source, Sink("noop"), False)
        passes = (Pass("check", source, Sink("noop"), True), measure, measure)
        found = self._run(scenario, passes=passes, has_headers=has_headers)
        must_equal(scenario.id, observed(found["passes"][0]), expected)
        return figures_of(found, expected)

    def parquet(self, scenario: Scenario) -> Line:
        expected = self.super_stream("bench.long", scenario.rows)
        path = str(self._folder / f"{scenario.id}-output")
        source = self._from(scenario.rows, BATCHES, superStream="bench.long", startingOffsets="earliest")
        passes = (warming(source), Pass("measure", source, Sink("parquet", path), False))
        found = self._run(scenario, passes=passes, output=Source("parquet", {"path": path}))
        must_equal(scenario.id, Sums(**found["output"]["sums"]), expected)
        return figures_of(found, expected)

    def exchange(self, scenario: Scenario, guarantee: str, kind: str) -> Line:
        """Into a fanout exchange with one durable queue, which is read at the end."""
        expected = self.super_stream("bench.short", scenario.rows)
        outlet = f"out-{scenario.id}"
        declare_outlet(self._broker, outlet, outlet, kind)
        options = {"endpoint": self._broker.endpoint, "exchange": outlet, "guarantee": guarantee}
        source = self._from(scenario.rows, BATCHES, superStream="bench.short", startingOffsets="earliest")
        passes = (warming(source), Pass("measure", source, Sink("exchange", options=options), False))
        output = Source("leveret", {"endpoint": self._broker.endpoint, "queue": outlet})
        found = self._run(scenario, passes=passes, output=output)
        must_equal(scenario.id, Sums(**found["output"]["sums"]), expected)
        return figures_of(found, expected)

    # ---- classic queues

    def leases(self, scenario: Scenario) -> Line:
        """Reading by leases takes messages away: a smaller queue is read to check, then the one that counts."""
        few = max(scenario.rows // WARM_PART, 1)
        checked = self._queue("leases.few", few)
        expected = self._queue("leases.many", scenario.rows)
        sources = [
            self._from(rows, BATCHES, queue=queue, consumerName="bench")
            for queue, rows in (("leases.few", few), ("leases.many", scenario.rows))
        ]
        passes = (Pass("check", sources[0], Sink("noop"), True), Pass("measure", sources[1], Sink("noop"), False))
        found = self._run(scenario, passes=passes, listener_options={"endpoint": self._broker.endpoint})
        must_equal(scenario.id, observed(found["passes"][0]), checked)
        wait_for_messages(self._broker, ["leases.few", "leases.many"], 0)  # all leases are committed
        return figures_of(found, expected)

    def batch(self, scenario: Scenario) -> Line:
        """The first read of a session whose Python processes run."""
        expected = self._queue("batch", scenario.rows)
        declare_queue(self._broker, "nothing")
        sources = [
            Source("leveret", {"endpoint": self._broker.endpoint, "queue": name}) for name in ("batch", "nothing")
        ]
        found = self._run(scenario, batch=sources[0], nothing=sources[1])
        must_equal(scenario.id, Sums(**found["batch"]["sums"]), expected)
        wait_for_messages(self._broker, ["batch"], expected.rows)  # it was not consumed
        batch = found["batch"]
        cost = {name: value for name, value in batch.items() if name == "seconds" or name.endswith("_cpu_s")}
        note = f"{batch['again_s']:.2f} s when read again; {batch['python_start_s']:.1f} s for PySpark to start Python"
        return {
            "figure": batch["seconds"],
            "from": "wall time",
            "rows": expected.rows,
            **cost,
            "note": note,
            "raw": found,
        }

    # ---- AMQP beside fetches

    def probe(self, scenario: Scenario, generators: Generators, seconds: float) -> Line:
        """Latency of messages from publish to delivery while readers fetch all shards over and over."""
        self.super_stream("bench.long", scenario.rows)
        shards = self._sources(super_stream="bench.long")
        flow = ["--mode", "flow", "--rate", str(PROBE_RATE), "--size", "100", "--seconds", f"{seconds:g}"]
        alone = generators.run("amqpbench", self._broker, [*flow, "--warmup", "1"], "probe alone")
        with self._readers(shards, seconds + READERS_LONGER) as readers:
            line = generators.run("amqpbench", self._broker, [*flow, "--warmup", "1"], "probe beside fetches")
            output, errors = readers.communicate(timeout=seconds + 60)
        if readers.returncode:
            raise CheckFailed(f"a reader failed: {errors[-1000:]}")
        fetched: Line = json.loads(output)
        for one in (alone, line):
            if not one["ok"]:
                raise CheckFailed(f"the probe lost, doubled or altered messages: {one}")
        figures = {
            "figure": line["lat_us"]["p99"] / 1000,
            "from": "amqpbench",
            "alone_ms": alone["lat_us"]["p99"] / 1000,
        }
        note = f"alone {figures['alone_ms']:.1f} ms; fetched {fetched['row_rate']:,} rows/s"
        return figures | {"note": note, "broker_cpu_s": line["broker_cpu_s"], "raw": [alone, line, fetched]}

    @contextmanager
    def _readers(self, shards: list[Line], seconds: float) -> Iterator[subprocess.Popen[str]]:
        """Processes that fetch the shards; all of them are up when this begins, and gone when it ends."""
        command = [sys.executable, "-m", "benchmarks.pipeline.fetch_load", self._broker.endpoint, f"{seconds:g}"]
        command += [f"{shard['queue']}={shard['next']}" for shard in shards]
        readers = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert readers.stdout is not None
        assert readers.stderr is not None
        try:
            if readers.stdout.readline().strip() != READY:
                raise CheckFailed(f"the readers did not start: {readers.stderr.read()[-1000:]}")
            yield readers
        finally:
            for pid in reversed(descendants(readers.pid) if readers.poll() is None else []):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            readers.wait()

    # ---- what they share

    def _from(self, rows: int, batches: int, **options: str) -> Source:
        most = str(-(-rows // batches))
        return Source("leveret", {"endpoint": self._broker.endpoint, "maxOffsetsPerTrigger": most, **options})

    def _run(self, scenario: Scenario, **wanted: Any) -> Line:
        self._say("  running Spark")
        folder = self._folder / f"{scenario.id}-spark"
        return run_job(Job(scenario.id, str(folder), self._broker.pid, **wanted))

    def super_stream(self, name: str, rows: int, messages_per_key: int = 256, has_headers: bool = False) -> Sums:
        if name not in self._filled:
            declare_super_stream(self._broker, name)
            self._fill(name, Target(name, None, messages_per_key, has_headers), rows)
            wait_for_messages(self._broker, [shard["queue"] for shard in self._sources(super_stream=name)], rows)
            self._filled[name] = sums(0, rows, with_headers=has_headers)
        return self._filled[name]

    def _queue(self, name: str, rows: int) -> Sums:
        declare_queue(self._broker, name)
        self._fill(name, Target("", name), rows)
        wait_for_messages(self._broker, [name], rows)
        return sums(0, rows)

    def _fill(self, name: str, target: Target, rows: int) -> None:
        self._say(f"  filling {name} with {rows:,} messages")
        fill(self._broker.port, target, 0, rows)

    def _sources(self, **query: str) -> list[Line]:
        request = urllib.request.Request(f"{self._broker.endpoint}/api/pipeline/%2F/sources?{urlencode(query)}")
        request.add_header("Authorization", "Basic " + base64.b64encode(b"guest:guest").decode())
        with urllib.request.urlopen(request, timeout=30) as answer:
            found: list[Line] = json.load(answer)["sources"]
            return found
