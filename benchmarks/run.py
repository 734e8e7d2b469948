"""`make bench`: Leveret beside RabbitMQ, alternately, some rounds each; prints medians and targets.

Runs that the generator calls not ok, or during which much CPU time went elsewhere, are repeated and do not count.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.brokers import AnyCommand, Broker, BrokerFailed, Leveret, RabbitMQ, allow_many_files, rss_kb
from benchmarks.first_delivery import seconds_to_first_delivery
from benchmarks.generator import GeneratorFailed, Generators, Line, add_source_option, spoiled
from benchmarks.report import BACKLOG, DRAIN, PERSISTENT, RSS_IDLE, RSS_QUEUED, Results, machine, rows, table
from benchmarks.scenarios import (
    BACKLOG_MESSAGES,
    BY_ID,
    HELD_CONNECTIONS,
    QUEUED_MESSAGES,
    SAFE,
    Scenario,
    chosen,
)

REPOSITORY = Path(__file__).resolve().parent.parent
RESULTS = Path(__file__).with_name("results")
ATTEMPTS = 4  # for one figure, before it is left out
SETTLE_SECONDS = 2.0

Maker = Callable[[Path, tuple[str, ...]], Broker]  # a directory, plugins of RabbitMQ


class Bench:
    """One whole run: the brokers to compare, the generators, and the file of raw lines."""

    def __init__(
        self, makers: dict[str, Maker], generators: Generators, folder: Path, options: argparse.Namespace
    ) -> None:
        names = list(makers)
        self.results = Results(names[0], names[1] if len(names) > 1 else None)
        self._makers = makers
        self._generators = generators
        self._folder = folder
        self._seconds: float = options.seconds
        self._rounds: int = options.rounds
        self._started = 0
        RESULTS.mkdir(exist_ok=True)
        self._raw = RESULTS / f"{datetime.date.today().isoformat()}-{commit()}.jsonl"
        self._keep({"machine": machine(), "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds")})

    def measure(self, scenarios: list[Scenario]) -> None:
        """Everything asked for: what shares a started broker first, then what needs a fresh one."""
        flows = [scenario for scenario in scenarios if scenario.kind in ("rate", "latency")]
        for plugins in dict.fromkeys(scenario.rabbitmq_plugins for scenario in flows):
            with contextlib.ExitStack() as stack:
                brokers = [stack.enter_context(self._fresh(name, plugins)) for name in self._makers]
                for scenario in flows:
                    if scenario.rabbitmq_plugins == plugins:
                        self._alternate(scenario, brokers)
        for scenario in scenarios:
            if scenario.kind == "memory":
                self._measure_memory(scenario)
            elif scenario.kind == "backlog":
                self._measure_backlog(scenario)
            elif scenario.kind == "restart":
                self._measure_restart(scenario)
            elif scenario.kind == "connections":
                self._measure_connections(scenario)

    def _fresh(self, name: str, plugins: tuple[str, ...] = ()) -> Broker:
        self._started += 1
        return self._makers[name](self._folder / f"{name.replace('/', '-')}-{self._started}", plugins)

    def _alternate(self, scenario: Scenario, brokers: list[Broker]) -> None:
        for number in range(1, self._rounds + 1):
            for broker in brokers if number % 2 else reversed(brokers):
                self._count(scenario.id, broker, scenario.generator, scenario.command(self._seconds), number)

    def _count(self, key: str, broker: Broker, generator: str, arguments: list[str], number: int) -> None:
        """Runs until a run counts, a few times at most."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                line = self._generators.run(generator, broker, arguments, f"{broker.name} {key} round {number}")
            except GeneratorFailed as failure:
                say(f"  {key} {broker.name} round {number}: {failure}")
                continue
            reason = spoiled(line)
            self._keep(line if not reason else line | {"not_counted": reason})
            if not reason:
                say(f"  {key:6} {broker.name:10} round {number}: {brief(key, line)}")
                self.results.add(key, broker.name, line)
                return
            say(f"  {key} {broker.name} round {number}, attempt {attempt} of {ATTEMPTS} does not count: {reason}")
            time.sleep(SETTLE_SECONDS)

    def _measure_memory(self, scenario: Scenario) -> None:
        queued = ["--size", str(scenario.size), "--count", str(QUEUED_MESSAGES)]
        for name in self._makers:
            with self._fresh(name) as broker:
                time.sleep(SETTLE_SECONDS)
                line = {"label": f"{name} {RSS_IDLE}", "mode": "rss", "broker_rss_kb": rss_kb(broker.pid)}
                self._keep(line)
                self.results.add(RSS_IDLE, name, line)
                self._count(RSS_QUEUED, broker, "amqpbench", ["--mode", "publish", *queued], 1)
                if self.results.middle(RSS_QUEUED, name, "broker_rss_kb") is not None:
                    self._count(DRAIN, broker, "amqpbench", ["--mode", "drain", *queued], 1)

    def _measure_backlog(self, scenario: Scenario) -> None:
        """A million for all brokers; ten million for Leveret only: others need more memory than most machines have."""
        publish = ["--mode", "publish", *SAFE, "--confirms", "500", "--size", str(scenario.size), "--count"]
        for name in self._makers:
            with self._fresh(name) as broker:
                self._count(PERSISTENT, broker, "amqpbench", [*publish, str(QUEUED_MESSAGES)], 1)
        with self._fresh(self.results.subject) as broker:
            self._count(BACKLOG, broker, "amqpbench", [*publish, str(BACKLOG_MESSAGES)], 1)

    def _measure_restart(self, scenario: Scenario) -> None:
        """Leveret only: there is no target for others."""
        name = self.results.subject
        fill = ["--mode", "publish", *SAFE, "--confirms", "500", "--size", str(scenario.size)]
        with self._fresh(name) as broker:
            self._count(f"{scenario.id}-fill", broker, "amqpbench", [*fill, "--count", str(QUEUED_MESSAGES)], 1)
            broker.crash()
            begun = time.monotonic()
            broker.start()
            seconds_to_first_delivery(broker.port, "bench.q000000")
            line = {"label": f"{name} restart", "mode": "restart", "seconds": time.monotonic() - begun}
            self._keep(line)
            say(f"  {scenario.id:6} {name:10}: {line['seconds']:.1f} s")
            self.results.add(scenario.id, name, line)

    def _measure_connections(self, scenario: Scenario) -> None:
        arguments = ["--mode", "idle", "--connections", str(HELD_CONNECTIONS), "--seconds", "1"]
        for name in self._makers:
            with self._fresh(name) as broker:
                time.sleep(SETTLE_SECONDS)
                self._count(scenario.id, broker, "amqpbench", arguments, 1)

    def _keep(self, line: Line) -> None:
        with open(self._raw, "a", encoding="utf-8") as raw:
            raw.write(json.dumps(line) + "\n")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def brief(key: str, line: Line) -> str:
    if line["mode"] == "idle":
        return f"{line['kb_per_conn']:.1f} KB per connection"
    if line["mode"] == "publish":
        return f"{line['broker_rss_kb'] / 1024:,.0f} MB, {line['send_rate']:,.0f}/s"
    if key in BY_ID and BY_ID[key].kind == "latency":
        return f"p50 {line['lat_us']['p50']:,.0f} us, p99 {line['lat_us']['p99']:,.0f} us"
    rate = line[BY_ID[key].rate_key if key in BY_ID else "recv_rate"]
    return f"{rate:,.0f}/s, {line['broker_cpu_s_per_M']:.2f} s/M"


def commit() -> str:
    """Which state of the source was measured; ends with ``-dirty`` if it was not committed."""
    command = ["git", "-C", str(REPOSITORY), "describe", "--always", "--dirty", "--exclude", "*"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.stdout.strip() if result.returncode == 0 else "uncommitted"


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.run", description=__doc__)
    add_source_option(parser)
    parser.add_argument("--scenarios", help="comma-separated ids; all if left out")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--only", choices=["leveret", "rabbitmq"], help="measure one of the two")
    parser.add_argument("--leveret-python", default=sys.executable, help="the Python that has Leveret installed")
    parser.add_argument("--leveret-command", help="instead: a command with {port} that starts any broker")
    parser.add_argument("--base-python", help="compare with this other Leveret instead of with RabbitMQ")
    parser.add_argument("--base-command", help="compare with the broker of this command with {port} instead")
    parser.add_argument("--base-name", default="base", help="its name in the table")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    return parser.parse_args(arguments)


def makers_for(options: argparse.Namespace) -> dict[str, Maker]:
    """Who is measured, in the order of the table's columns."""
    makers: dict[str, Maker] = {}
    if options.only != "rabbitmq":
        if options.leveret_command:
            makers["leveret"] = lambda folder, _: AnyCommand(folder, options.leveret_command, "leveret")
        else:
            makers["leveret"] = lambda folder, _: Leveret(folder, options.leveret_python)
    if options.base_python:
        makers[options.base_name] = lambda folder, _: Leveret(folder, options.base_python, options.base_name)
    elif options.base_command:
        makers[options.base_name] = lambda folder, _: AnyCommand(folder, options.base_command, options.base_name)
    elif options.only != "leveret":
        if RabbitMQ.is_installed():
            makers["rabbitmq"] = RabbitMQ
        else:
            say("rabbitmq-server is not installed (`make bench-deps` installs it): measuring Leveret alone")
    return makers


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    allow_many_files()
    try:
        scenarios = chosen(options.scenarios)
        makers = makers_for(options)
        if not makers:
            return 2
        with tempfile.TemporaryDirectory(prefix="leveret-bench-") as name:
            folder = Path(name)
            bench = Bench(makers, Generators.compile(options.amqpbench), folder, options)
            bench.measure(scenarios)
    except (ValueError, BrokerFailed, GeneratorFailed, subprocess.CalledProcessError) as error:
        say(str(error))
        return 2
    judged = list(makers) == ["leveret", "rabbitmq"]
    lines = list(rows(bench.results, scenarios, judged=judged))
    print(table(bench.results, lines, markdown=options.markdown))
    unknown = sorted({row.cells[0] for row in lines if judged and row.cells[-2] and row.passed is None})
    if unknown:
        say(f"no figure, too much disturbance: {', '.join(unknown)}")
    failed = [row.cells[0] for row in lines if row.passed is False]
    say(f"below target: {', '.join(failed)}" if failed else "no target missed")
    return 1 if judged and (failed or unknown) else 0


if __name__ == "__main__":
    sys.exit(main())
