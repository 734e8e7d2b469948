"""`make bench-memory`: the memory of the broker after loads, and with many connections, queues and virtual hosts.

Each step has its peak or its state under load, and the state after it, some seconds after messages and a minute after
connections, queues and virtual hosts: at most 120 MB then.
"""

from __future__ import annotations

import argparse
import base64
import datetime
import json
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from benchmarks.brokers import BrokerFailed, allow_many_files, rss_kb
from benchmarks.generator import GeneratorFailed, Generators, Line, add_source_option
from benchmarks.polling import Polled
from benchmarks.report import machine
from benchmarks.run import RESULTS, commit
from benchmarks.scenarios import BY_ID

LOADS = ("a16", "g16", "d1k", "d64k")
MANY_CONNECTIONS, MANY_QUEUES, MANY_VHOSTS = 10_000, 10_000, 1_000
IDLE_SECONDS = 6.0  # the memory of a load is returned after two without one
COLLECT_SECONDS = 65.0  # that of objects when garbage was collected, once a minute
MOST_MB = 120
VHOST = "many"


class Steps:
    def __init__(self, broker: Polled, generators: Generators, seconds: float) -> None:
        self._broker = broker
        self._generators = generators
        self._seconds = seconds

    def run(self) -> Iterator[tuple[str, float, float]]:
        """Title, MB under load, MB after it."""
        yield "started", self._rss(), self._rss()
        for name in LOADS:
            scenario = BY_ID[name]
            line = self._load([*scenario.command(self._seconds)])
            yield f"{name}: {scenario.title}", line["broker_hwm_kb"] / 1024, self._idle()
        line = self._load(["--mode", "idle", "--connections", str(MANY_CONNECTIONS), "--seconds", "1"])
        yield f"{MANY_CONNECTIONS:,} connections", line["rss_after_kb"] / 1024, self._idle(COLLECT_SECONDS)
        self._ask("PUT", f"vhosts/{VHOST}")
        queues = [{"name": f"queue {number}", "durable": True} for number in range(MANY_QUEUES)]
        self._ask("POST", f"definitions/{VHOST}", {"queues": queues})
        under = self._rss()
        self._ask("DELETE", f"vhosts/{VHOST}")
        yield f"{MANY_QUEUES:,} durable queues", under, self._idle(COLLECT_SECONDS)
        for number in range(MANY_VHOSTS):
            self._ask("PUT", f"vhosts/{VHOST}{number}")
        under = self._rss()
        for number in range(MANY_VHOSTS):
            self._ask("DELETE", f"vhosts/{VHOST}{number}")
        yield f"{MANY_VHOSTS:,} virtual hosts", under, self._idle(COLLECT_SECONDS)

    def _load(self, arguments: list[str]) -> Line:
        return self._generators.run("amqpbench", self._broker, arguments, "leveret memory")

    def _rss(self) -> float:
        return rss_kb(self._broker.pid) / 1024

    def _idle(self, seconds: float = IDLE_SECONDS) -> float:
        time.sleep(seconds)
        return self._rss()

    def _ask(self, method: str, path: str, body: object = None) -> None:
        login = {"Authorization": f"Basic {base64.b64encode(b'guest:guest').decode()}"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._broker.http_url}/api/{path}", data, login, method=method)
        with urllib.request.urlopen(request, timeout=120) as response:
            response.read()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.idle_memory", description=__doc__)
    add_source_option(parser)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each load")
    options = parser.parse_args(arguments)
    allow_many_files()
    raw = RESULTS / f"{datetime.date.today().isoformat()}-{commit()}-memory.jsonl"
    lines: list[Line] = [{"machine": machine()}]
    highest = 0.0
    print("| | under load | after it |\n|---|---|---|")
    try:
        generators = Generators.compile(options.amqpbench)
        with tempfile.TemporaryDirectory() as folder, Polled(Path(folder) / "leveret") as broker:
            for title, under, after in Steps(broker, generators, options.seconds).run():
                print(f"| {title} | {under:,.0f} MB | {after:,.0f} MB |", flush=True)
                lines.append({"step": title, "under_mb": round(under, 1), "after_mb": round(after, 1)})
                highest = max(highest, after)
    except (BrokerFailed, GeneratorFailed) as failure:
        print(f"{failure}", file=sys.stderr)
        return 1
    raw.write_text("".join(json.dumps(line) + "\n" for line in lines))
    outcome = "reached" if highest <= MOST_MB else "missed"
    print(f"\nafter a load: at most {highest:,.0f} MB, target {MOST_MB} MB: {outcome}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
