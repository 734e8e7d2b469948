"""`make bench-cluster`: three nodes of Leveret with three servers of NATS beside three nodes of RabbitMQ.

All of them and the generator share this machine. RabbitMQ's queue is a quorum queue with three members. Both clusters
run all the time and are loaded alternately:

- rates: persistent messages, 500 confirms outstanding, published only, and with one consumer
- latency of confirms at 1,000 messages per second
- times without service when Leveret's leader is killed, stopped (SIGSTOP) or hands over, with any number of queues and
  messages in the cell, measured by publishers that connect again through any node
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import datetime
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

from benchmarks.brokers import BrokerFailed, allow_many_files
from benchmarks.clusters import LeveretCell, RabbitCluster
from benchmarks.generator import GeneratorFailed, Generators, Line, add_source_option, spoiled
from benchmarks.report import Results, Row, machine, rows, table
from benchmarks.run import RESULTS, commit, say
from benchmarks.scenarios import SAFE, Scenario
from tests.support.cell_faults import FaultRun, Faults, RunOutcome

WINDOW = (*SAFE, "--confirms", "500")
PUBLISH = ("--mode", "publish", *WINDOW)
FLOW = (*WINDOW, "--ack-multiple", "10", "--prefetch", "500")
SCENARIOS = (
    Scenario("p1k", "published only, 1 KiB", 1024, PUBLISH, counts="sent", rate_at_least=2.5),
    Scenario("f1k", "with one consumer, 1 KiB", 1024, FLOW, rate_at_least=4),
    Scenario("p100", "published only, 100 B", 100, PUBLISH, counts="sent", rate_at_least=4),
    Scenario("f100", "with one consumer, 100 B", 100, FLOW, rate_at_least=10),
    Scenario("h1k", "1,000/s, 1 KiB", 1024, (*FLOW, "--rate", "1000"), kind="latency"),
)
FAULTS = {"kill": Faults.kill_leader, "stop": Faults.stop_leader, "handover": Faults.hand_over}
MOST_SECONDS = {"kill": 2.0, "stop": 15.0, "handover": 1.0}
PROBES = 600.0  # messages per second of each publisher, while take-overs are measured
ATTEMPTS = 4
SETTLE_SECONDS = 2.0


class Comparison:
    def __init__(self, clusters: Sequence[LeveretCell | RabbitCluster], generators: Generators, most: float) -> None:
        """``most``: the share of the CPU that may go elsewhere."""
        RESULTS.mkdir(exist_ok=True)
        stamp = f"{datetime.datetime.now(tz=datetime.UTC):%Y-%m-%d}-{commit()}-cluster"
        self._raw = RESULTS / f"{stamp}.jsonl"
        self._clusters = clusters
        self._generators = generators
        self._most = most
        self.results = Results("leveret", "rabbitmq")
        self.keep({"machine": machine()})

    def measure(self, scenarios: Sequence[Scenario], rounds: int, seconds: float) -> None:
        for scenario in scenarios:
            for number in range(rounds):
                for cluster in self._clusters if number % 2 else reversed(self._clusters):
                    self._count(scenario, cluster, seconds, number + 1)

    def _count(self, scenario: Scenario, cluster: LeveretCell | RabbitCluster, seconds: float, number: int) -> None:
        arguments = [*cluster.login, *cluster.queue, *scenario.command(seconds)]
        for attempt in range(1, ATTEMPTS + 1):
            try:
                line = self._generators.run(
                    "amqpbench", cluster, arguments, f"{cluster.name} {scenario.id} round {number}"
                )
            except GeneratorFailed as failure:
                say(f"  {scenario.id} {cluster.name} round {number}: {failure}")
                continue
            reason = spoiled(line, self._most)
            self.keep(line if not reason else line | {"not_counted": reason})
            if not reason:
                say(f"  {scenario.id:5} {cluster.name:9} round {number}: {brief(scenario, line)}")
                self.results.add(scenario.id, cluster.name, line)
                break
            say(f"  {scenario.id} {cluster.name} round {number}, attempt {attempt} does not count: {reason}")
        time.sleep(SETTLE_SECONDS)

    def keep(self, line: Line) -> None:
        with open(self._raw, "a", encoding="utf-8") as raw:
            raw.write(json.dumps(line) + "\n")


def brief(scenario: Scenario, line: Line) -> str:
    if scenario.kind == "latency":
        return f"confirms p50 {line['confirm_us']['p50']:,.0f} us, p99 {line['confirm_us']['p99']:,.0f} us"
    return f"{line[scenario.rate_key]:,.0f}/s, {line['broker_cpu_s_per_M']:.2f} s/M in all processes"


def fill(cluster: LeveretCell, generators: Generators, queues: int, messages: int) -> None:
    """The cell that is taken over has a backlog."""
    if not messages:
        return
    say(f"  filling {queues:,} queues with {messages:,} messages of 100 B")
    load = ["--size", "100", "--queues", str(queues), "--count", str(messages), "--prefix", "backlog.", *PUBLISH]
    generators.run("amqpbench", cluster, [*cluster.login, *load], "backlog")


def measure_take_overs(cluster: LeveretCell, counts: dict[str, int], pause: float) -> RunOutcome:
    """``pause``: seconds before each."""

    async def run() -> RunOutcome:
        faults = FaultRun(cluster.cell, cluster.servers, Random(1), rate=PROBES)
        await faults.load.start()
        made = []
        for name, number in counts.items():
            for _ in range(number):
                await asyncio.sleep(pause)
                made.append(await faults.make(FAULTS[name]))
                say(f"  {name}: served again after {made[-1].healed_at - made[-1].at:.1f} s at most")
        return await faults.finish(made)

    return asyncio.run(run())


def take_over_rows(outcome: RunOutcome) -> list[str]:
    lines = []
    for name, fault in FAULTS.items():
        if gaps := outcome.gaps.get(fault.__name__):
            middle, most = statistics.median(gaps), MOST_SECONDS[name]
            shown = f"{name:8} x{len(gaps):<3} median {middle:.2f} s, longest {max(gaps):.2f} s, wanted {most:g} s"
            lines.append(f"{shown}  {'pass' if middle <= most else 'FAIL'}")
    return [*lines, str(outcome.report)]


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.cluster", description=__doc__)
    add_source_option(parser)
    parser.add_argument("--scenarios", default=",".join(each.id for each in SCENARIOS), help="none for none")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--only", choices=["leveret", "rabbitmq"], help="measure one of the two")
    parser.add_argument("--take-overs", default="kill=10,stop=3,handover=10", help="how many of each; none for none")
    parser.add_argument("--queues", type=int, default=1, help="with messages in them, when take-overs are measured")
    parser.add_argument("--messages", type=int, default=0)
    parser.add_argument("--pause", type=float, default=0, help="seconds before each take-over, for new checkpoints")
    parser.add_argument("--foreign-cpu", type=float, default=0.15, help="share of the CPU that may go elsewhere")
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    return parser.parse_args(arguments)


def measure(options: argparse.Namespace, folder: Path) -> list[Row]:
    generators = Generators.compile(options.amqpbench)
    counts = dict[str, int]()
    if options.take_overs != "none":
        counts = {
            name: int(number) for name, _, number in (each.partition("=") for each in options.take_overs.split(","))
        }
    with contextlib.ExitStack() as stack:
        clusters: list[LeveretCell | RabbitCluster] = []
        if options.only != "rabbitmq":
            clusters.append(stack.enter_context(LeveretCell(folder / "leveret")))
        if options.only != "leveret":
            clusters.append(stack.enter_context(RabbitCluster(folder / "rabbitmq")))
        comparison = Comparison(clusters, generators, options.foreign_cpu)
        chosen = [each for each in SCENARIOS if each.id in options.scenarios.split(",")]
        comparison.measure(chosen, options.rounds, options.seconds)
        lines = list(rows(comparison.results, chosen, judged=len(clusters) == 2))
        if lines:
            print(table(comparison.results, lines, markdown=options.markdown), flush=True)
        if counts and isinstance(clusters[0], LeveretCell):
            fill(clusters[0], generators, options.queues, options.messages)
            outcome = measure_take_overs(clusters[0], counts, options.pause)
            comparison.keep({"take_overs": outcome.gaps})
            print("\n".join(take_over_rows(outcome)))
    return lines


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    allow_many_files()
    try:
        with tempfile.TemporaryDirectory(prefix="leveret-bench-") as name:
            lines = measure(options, Path(name))
    except (BrokerFailed, GeneratorFailed) as error:
        say(str(error))
        return 2
    return 1 if any(row.passed is False for row in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
