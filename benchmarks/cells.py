"""`make bench-cells`: what several cells on one machine give and cost, compared in one run.

- one process and `--cells 2` with 20 producers, consumers and queues
- a message that stays in its cell, one that is published from another cell, one that is delivered to another cell, both
- latency at 1,000 messages per second, in one cell and across cells
- three cells: a sharded exchange with twelve shards beside twelve ordinary queues, and beside one cell (cellload.c)
"""

from __future__ import annotations

import argparse
import base64
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.brokers import Broker, BrokerFailed, Leveret, allow_many_files
from benchmarks.generator import GeneratorFailed, Generators, Line, add_source_option, spoiled
from benchmarks.report import Results, machine
from benchmarks.run import RESULTS, commit, say
from benchmarks.scenarios import ACK_MANY, DURABLE, TWENTY

LOADS = {
    "a16": ("--size", "16"),
    "a1k": ("--size", "1024"),
    "b16": ("--size", "16", *ACK_MANY),
    "d16": ("--size", "16", *DURABLE),
    "d1k": ("--size", "1024", *DURABLE),
}
AT_1000 = {
    "t1k": ("--size", "1024", "--rate", "1000"),
    "h1k": ("--size", "1024", *DURABLE, "--rate", "1000"),
}
PATHS = {  # the cells of: the queue, consumers, producers
    "local": (0, 0, 0),
    "remote publish": (0, 0, 1),
    "remote delivery": (0, 1, 0),
    "both remote": (0, 1, 1),
}
ATTEMPTS = 3
SETTLE = 1.0


class ManyCells(Leveret):
    """`leveret serve --cells`"""

    def __init__(self, directory: Path, number: int) -> None:
        super().__init__(directory, sys.executable, f"{number} cells" if number > 1 else "one process")
        self.flags = ("--cells", str(number))

    @property
    def pids(self) -> str:
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return ",".join([str(self.pid), *children])


class SeparateCells(Broker):
    """Cells with a port each."""

    def __init__(self, directory: Path, number: int) -> None:
        super().__init__(directory)
        self.name = f"{number} cells"
        self._number = number
        self.ports: list[int] = []
        self.http = 0
        self._pids: list[int] = []

    def start(self) -> None:
        first: list[str] = []
        for number in range(1, self._number + 1):
            command = [sys.executable, "-m", "benchmarks.cell_process", f"c{number}", "--cells", str(self._number)]
            data = ["--data-dir", str(self.directory / f"c{number}")]
            child = subprocess.Popen([*command, *data, *first], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            self._children.append(child)
            assert child.stdout is not None
            line = child.stdout.readline()
            if not line:
                raise BrokerFailed(f"cell c{number} did not start")
            ports = json.loads(line)
            if not first:
                first, self.http = ["--first", str(ports["link"])], ports["http"]
            self.ports.append(ports["amqp"])
            self._pids.append(child.pid)
        self.port = self.ports[0]

    @property
    def pids(self) -> str:
        return ",".join(map(str, self._pids))

    def shard(self, exchange: str, number: int) -> None:
        """Declare the exchange, and shard it."""
        login = base64.b64encode(b"guest:guest").decode()
        policy = {"pattern": f"^{exchange}$", "definition": {"shards-per-node": number}, "apply-to": "exchanges"}
        for path, body in ((f"exchanges/%2F/{exchange}", {"type": "x-modulus-hash"}), ("policies/%2F/shards", policy)):
            request = urllib.request.Request(
                f"http://127.0.0.1:{self.http}/api/{path}",
                data=json.dumps(body).encode(),
                method="PUT",
                headers={"Authorization": f"Basic {login}", "Content-Type": "application/json"},
            )
            urllib.request.urlopen(request).close()
        time.sleep(SETTLE)


class Measurement:
    def __init__(self, generators: Generators, seconds: float, most: float) -> None:
        """``most``: the share of the CPU that may go elsewhere."""
        RESULTS.mkdir(exist_ok=True)
        self._raw = RESULTS / f"{datetime.datetime.now(tz=datetime.UTC):%Y-%m-%d}-{commit()}-cells.jsonl"
        self._generators = generators
        self._seconds = seconds
        self._most = most
        self.results = Results("cells", None)
        self._keep({"machine": machine()})

    def run(self, generator: str, broker: Broker, load: str, path: str, arguments: Sequence[str], **more: str) -> None:
        timed = [*arguments, "--seconds", f"{self._seconds:g}"]
        for _ in range(ATTEMPTS):
            line = self._generators.run(generator, broker, timed, f"{load} {path}", environment=more)
            reason = spoiled(line, self._most)
            self._keep(line | ({"not_counted": reason} if reason else {}))
            if not reason:
                self.results.add(load, path, line)
                say(f"  {load:8} {path:16} {line['recv_rate']:>10,.0f}/s {line['broker_cpu_s_per_M']:.2f} s/M")
                break
            say(f"  {load} {path} does not count: {reason}")
        time.sleep(SETTLE)

    def _keep(self, line: Line) -> None:
        with open(self._raw, "a", encoding="utf-8") as raw:
            raw.write(json.dumps(line) + "\n")


def measure_twenty(measurement: Measurement, folder: Path, rounds: int) -> None:
    with ExitStack() as stack:
        brokers = [stack.enter_context(ManyCells(folder / f"twenty{number}", number)) for number in (1, 2)]
        for _ in range(rounds):
            for broker in brokers:
                measurement.run("amqpbench", broker, "g16", broker.name, ["--size", "16", *TWENTY])


def measure_paths(measurement: Measurement, folder: Path, rounds: int) -> None:
    with SeparateCells(folder / "paths", 2) as cells:
        for load, arguments in {**LOADS, **AT_1000}.items():
            for _ in range(rounds):
                for path, roles in PATHS.items():
                    ports = ",".join(str(cells.ports[role]) for role in roles)
                    measurement.run("amqpbench-by-cell", cells, load, path, arguments, PORTS=ports)


def measure_shards(measurement: Measurement, folder: Path, rounds: int) -> None:
    with ManyCells(folder / "one", 1) as one, SeparateCells(folder / "three", 3) as three:
        three.shard("cellload", 4)
        for _ in range(rounds):
            runs: list[tuple[str, Broker, str]] = [("one process", one, "queues"), ("queues", three, "queues")]
            for path, cells, load in [*runs, ("sharded", three, "sharded")]:
                ports = cells.ports if isinstance(cells, SeparateCells) else [cells.port] * 3
                arguments = ["--ports", ",".join(map(str, ports)), "--load", load]
                measurement.run("cellload", cells, "shards", path, arguments)


def lines(results: Results) -> Iterator[str]:
    for load, path in results.lines:
        rate = results.middle(load, path, "recv_rate")
        cpu = results.middle(load, path, "broker_cpu_s_per_M")
        base = next(each for known, each in results.lines if known == load)
        first = results.middle(load, base, "broker_cpu_s_per_M")
        assert rate is not None
        assert cpu is not None
        assert first is not None
        latency = results.middle(load, path, "lat_us", "p50")
        confirm = results.middle(load, path, "confirm_us", "p50")
        shown = f"{latency or 0:,.0f}" if load in AT_1000 else "", f"{confirm:,.0f}" if confirm else ""
        yield f"| {load} | {path} | {rate:,.0f} | {cpu:.2f} | {cpu / first:.2f} | {shown[0]} | {shown[1]} |"


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.cells", description=__doc__)
    add_source_option(parser)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--only", choices=["twenty", "paths", "shards"])
    parser.add_argument("--foreign-cpu", type=float, default=0.15, help="share of the CPU that may go elsewhere")
    options = parser.parse_args()
    allow_many_files()
    os.environ["PYTHONUNBUFFERED"] = "1"
    try:
        with tempfile.TemporaryDirectory(prefix="leveret-bench-") as name:
            folder = Path(name)
            generators = Generators.compile(options.amqpbench)
            measurement = Measurement(generators, options.seconds, options.foreign_cpu)
            for kind, measure in (("twenty", measure_twenty), ("paths", measure_paths), ("shards", measure_shards)):
                if options.only in (None, kind):
                    measure(measurement, folder, options.rounds)
    except (BrokerFailed, GeneratorFailed) as error:
        say(str(error))
        return 2
    print("| load | path | messages/s | CPU s per 1M | of the first | p50 us | confirms p50 us |")
    print("|---" * 7 + "|")
    print("\n".join(lines(measurement.results)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
