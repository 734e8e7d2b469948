"""A well-behaved client as a separate process: it publishes a message and fetches it again, repeatedly, and reports
how long each round trip took. ``python -m tests.support.bystander URL``; it stops when its standard input ends."""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from leveret.wire.methods import BasicGet, BasicGetOk, QueueDeclare, QueueDeclareOk
from tests.support.raw_client import RawClient

ROOT = Path(__file__).parents[2]
PAUSE = 0.005  # seconds between two round trips


class Latencies(NamedTuple):
    count: int
    p99: float  # seconds
    longest: float  # seconds: about the longest time that the broker's event loop served no other connection


class Bystander:
    def __init__(self, url: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.bystander", url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"serving\n"

    def stop(self) -> Latencies:
        out, _ = self._process.communicate(timeout=60)
        assert self._process.returncode == 0, "the bystander was cut off"
        return Latencies(**json.loads(out))

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()


def main(url: str) -> None:
    with RawClient.open(url, timeout=30.0) as client:
        queue = client.call(QueueDeclare(exclusive=True), QueueDeclareOk).queue
        print("serving", flush=True)
        taken: list[float] = []
        while not select.select([sys.stdin], [], [], PAUSE)[0]:
            begun = time.perf_counter()
            client.publish("", queue, b"x" * 100)
            client.send(BasicGet(queue, no_ack=True))
            client.expect_content(BasicGetOk)
            taken.append(time.perf_counter() - begun)
    taken.sort()
    print(json.dumps({"count": len(taken), "p99": taken[int(len(taken) * 0.99)], "longest": taken[-1]}))


if __name__ == "__main__":
    main(sys.argv[1])
