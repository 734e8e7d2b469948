"""`make bench-spark`: the pipeline on Spark, measured and checked; beside it, RabbitMQ read by pika.

Every scenario can be run alone (--scenarios noop,leases). A failed one is marked in the table and does not stop the
others; its broker is not used again. Rates are rows per second of the query's own progress without its first batch; the
column "wall" is the duration of the whole query. Raw lines go to benchmarks/results.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib.metadata
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from benchmarks.brokers import Broker, BrokerFailed, RabbitMQ
from benchmarks.generator import GeneratorFailed, Generators, add_source_option
from benchmarks.pipeline.figures import Figures
from benchmarks.pipeline.filling import FillingFailed, Link
from benchmarks.pipeline.job import Line
from benchmarks.pipeline.measures import CheckFailed, Measures
from benchmarks.pipeline.provisions import LeveretWithHttp
from benchmarks.pipeline.rabbitmq_measures import by_pika, publish_alternately
from benchmarks.pipeline.raw_lines import RawLines
from benchmarks.pipeline.scenarios import Scenario, chosen
from benchmarks.pipeline.spark_runs import JobFailed
from benchmarks.report import machine

PROBLEMS = (BrokerFailed, CheckFailed, FillingFailed, GeneratorFailed, JobFailed, OSError, subprocess.SubprocessError)
SMOKE_ROWS = 10_000
SMOKE_SECONDS = 1.0


class Bench:
    """One whole run."""

    def __init__(self, folder: Path, options: argparse.Namespace, raw: RawLines | None) -> None:
        self.figures = Figures()
        self._folder = folder
        self._options = options
        self._raw = raw
        self._started = 0
        self._deadline = time.monotonic() + 60 * options.minutes
        self._generators: Generators | None = None
        self._open: tuple[str, Broker, Measures | None] | None = None  # what serves the current group
        self._keep({"machine": machine(), "versions": versions(), "command": command(options), "date": now()})

    def measure(self, scenarios: list[Scenario]) -> None:
        try:
            for scenario in scenarios:
                if time.monotonic() > self._deadline:
                    self.figures.problems[scenario.id] = "not measured: the time for all was up"
                else:
                    self._try(scenario)
        finally:
            self._let_go()

    def _try(self, scenario: Scenario) -> None:
        say(f"{scenario.id}: {scenario.title}")
        begun = time.monotonic()
        try:
            lines = self._measure(scenario)
        except PROBLEMS as problem:
            self.figures.problems[scenario.id] = f"{type(problem).__name__}: {problem}"
            reason = self.figures.problems[scenario.id].splitlines()[0]
            self._keep({"id": scenario.id, "date": now(), "problem": reason})
            say(f"  FAILED: {problem}")
            self._let_go()
            return
        for id_, line in lines.items():
            self.figures.lines[id_] = line
            self._keep({"id": id_, "date": now(), "what": scenario.title, **line})
            say(f"  {id_}: {line['figure']:,.1f} {scenario.unit} ({time.monotonic() - begun:.0f} s in all)")

    def _measure(self, scenario: Scenario) -> dict[str, Line]:
        if scenario.group == "publish":
            return self._publish()
        if scenario.group == "rabbitmq":
            broker = self._rabbitmq()
            kind = "stream" if scenario.id == "pika-s" else "classic"
            return {scenario.id: by_pika(broker, scenario, kind, self._folder, say)}
        return {scenario.id: self._ways(self._leveret(scenario.group))[scenario.id](scenario)}

    def _ways(self, measures: Measures) -> dict[str, Callable[[Scenario], Line]]:
        seconds = self._options.seconds
        return {
            "noop": measures.noop,
            "keys": lambda scenario: measures.noop(scenario, messages_per_key=1),
            "headers": lambda scenario: measures.noop(scenario, has_headers=True),
            "parquet": measures.parquet,
            "alo": lambda scenario: measures.exchange(scenario, "at-least-once", "classic"),
            "exact": lambda scenario: measures.exchange(scenario, "exactly-once", "classic"),
            "alo-s": lambda scenario: measures.exchange(scenario, "at-least-once", "stream"),
            "exact-s": lambda scenario: measures.exchange(scenario, "exactly-once", "stream"),
            "leases": measures.leases,
            "batch": measures.batch,
            "probe": lambda scenario: measures.probe(scenario, self._compiled(), 2 * seconds),
        }

    def _publish(self) -> dict[str, Line]:
        """Both at once on the machine, loaded in turn."""
        self._let_go()
        with contextlib.ExitStack() as stack:
            brokers: list[Broker] = [stack.enter_context(LeveretWithHttp(self._fresh("publish"), self._options.python))]
            if RabbitMQ.is_installed():
                brokers.append(stack.enter_context(RabbitMQ(self._fresh("publish-r"))))
            lines = publish_alternately(brokers, self._compiled(), self._options.rounds, self._options.seconds)
        names = {"leveret": "publish", "rabbitmq": "publish-r"}
        return {names[name]: line for name, line in lines.items()}

    # ---- brokers

    def _leveret(self, group: str) -> Measures:
        if self._open is None or self._open[0] != group:
            self._let_go()
            broker = LeveretWithHttp(self._fresh(group), self._options.python)
            broker.__enter__()
            self._open = (group, broker, Measures(broker, broker.directory, say))
        measures = self._open[2]
        assert measures is not None
        return measures

    def _rabbitmq(self) -> RabbitMQ:
        if not RabbitMQ.is_installed():
            raise BrokerFailed("rabbitmq-server is not installed: `make bench-deps` installs it")
        if self._open is None or self._open[0] != "rabbitmq":
            self._let_go()
            broker = RabbitMQ(self._fresh("rabbitmq"))
            broker.__enter__()
            self._open = ("rabbitmq", broker, None)
            link = Link(broker.port)
            self._keep({"compared_with": link.server})
            link.close()
        opened = self._open[1]
        assert isinstance(opened, RabbitMQ)
        return opened

    def _fresh(self, name: str) -> Path:
        self._started += 1
        return self._folder / f"{self._started}-{name}"

    def _let_go(self) -> None:
        if self._open is not None:
            self._open[1].stop()
            self._open = None

    def _compiled(self) -> Generators:
        if self._generators is None:
            self._generators = Generators.compile(self._options.amqpbench)
        return self._generators

    def _keep(self, line: Line) -> None:
        if self._raw is not None:
            self._raw.keep(line)


def versions() -> dict[str, str]:
    names = ("leveret", "pyspark", "pyarrow", "numpy", "pika", "starlette", "uvicorn")
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr.splitlines()
    return {name: importlib.metadata.version(name) for name in names} | {"java": java[0] if java else "none"}


def command(options: argparse.Namespace) -> str:
    """How to repeat it; without the places of files."""
    given = [f"--scenarios {options.scenarios}"] if options.scenarios else []
    figures = f"--rounds {options.rounds} --seconds {options.seconds:g} --minutes {options.minutes:g}"
    return " ".join(["python -m benchmarks.pipeline.run", *given, figures])


def now() -> str:
    return datetime.datetime.now().astimezone().isoformat(timespec="seconds")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.pipeline.run", description=__doc__)
    add_source_option(parser)
    parser.add_argument("--scenarios", help="comma-separated ids; all if left out")
    parser.add_argument("--rounds", type=int, default=3, help="of publish, for each broker")
    parser.add_argument("--seconds", type=float, default=4, help="of each round of publish; the probe takes twice that")
    parser.add_argument("--minutes", type=float, default=10, help="for all; what has not begun then is left out")
    parser.add_argument("--python", default=sys.executable, help="the Python that the broker runs with")
    parser.add_argument(
        "--smoke", action="store_true", help="10,000 rows each: does it run and check? keeps no figures"
    )
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    try:
        scenarios = chosen(options.scenarios)
    except ValueError as error:
        say(str(error))
        return 2
    if shutil.which("java") is None:
        say("Spark needs Java 17 or newer; on Debian: apt-get install openjdk-17-jre-headless")
        return 2
    raw = None if options.smoke else RawLines("spark")
    if options.smoke:
        options.rounds, options.seconds, options.minutes = 1, SMOKE_SECONDS, 60
        scenarios = [replace(scenario, rows=min(scenario.rows, SMOKE_ROWS)) for scenario in scenarios]
    begun = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that brokers and Spark are ended on the way out
    with tempfile.TemporaryDirectory(prefix="leveret-bench-", ignore_cleanup_errors=True) as folder:
        bench = Bench(Path(folder), options, raw)
        bench.measure(scenarios)
    print(bench.figures.table(scenarios))
    say(f"{time.monotonic() - begun:.0f} s in all" + (f"; raw lines: {raw.path.name}" if raw else ""))
    if options.smoke:
        say("a smoke run: the figures mean nothing")
        return 1 if bench.figures.problems else 0
    return 1 if any(bench.figures.passed(scenario) is False for scenario in scenarios) else 0


if __name__ == "__main__":
    sys.exit(main())
