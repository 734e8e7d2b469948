"""The sink without Spark: prepared Arrow pieces from two connections, and what a row costs the broker.

`python -m benchmarks.pipeline.sink_load [--rows N] [--keys N] [--python PYTHON]` starts a broker of its own and prints
a JSON line for each guarantee: rows per second, and microseconds of the broker's CPU per row, for staging and for the
commit apart.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import numpy as np
import pyarrow as pa

from benchmarks.pipeline.bodies import SIZE, TAIL, number_bytes
from benchmarks.pipeline.cost import between, reading
from benchmarks.pipeline.provisions import LeveretWithHttp, declare_outlet, wait_for_messages

LOGIN = {"Authorization": "Basic " + base64.b64encode(b"guest:guest").decode()}
SENDERS = 2
BATCH_ROWS = 10_000  # Spark's default for Arrow
PIECE_BATCHES = 8


def piece_of(first: int, batches: int, keys: int) -> memoryview:
    """An Arrow stream of the messages from ``first`` on; each key for 256 rows, or no keys."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch_of(first, keys).schema) as stream:
        for number in range(batches):
            stream.write_batch(batch_of(first + number * BATCH_ROWS, keys))
    return memoryview(sink.getvalue())


def batch_of(first: int, keys: int) -> pa.RecordBatch:
    numbers = np.arange(first, first + BATCH_ROWS, dtype=np.uint64)
    rows = np.empty((BATCH_ROWS, SIZE), np.uint8)
    rows[:, :8] = number_bytes(numbers)
    rows[:, 8:] = np.frombuffer(TAIL, np.uint8)
    ends = np.arange(0, (BATCH_ROWS + 1) * SIZE, SIZE, dtype=np.int32)
    body = pa.Array.from_buffers(pa.binary(), BATCH_ROWS, [None, pa.py_buffer(ends), pa.py_buffer(rows.tobytes())])
    columns = {"body": body}
    if keys:
        columns["routing_key"] = pa.array([f"key-{number // 256 % keys}" for number in numbers.tolist()])
    return pa.record_batch(columns)


class Sender:
    def __init__(self, endpoint: str) -> None:
        self._connection = HTTPConnection(urlsplit(endpoint).netloc, timeout=120)

    def post(self, path: str, body: Any, **query: object) -> dict[str, Any]:
        target = f"/api/pipeline/%2F/{path}?{urlencode(query)}"
        self._connection.request("POST", target, body, LOGIN)
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise SystemExit(f"{path}: {answer.status} {text[:500].decode(errors='replace')}")
        found: dict[str, Any] = json.loads(text)
        return found


class Measurement:
    """One guarantee and one target."""

    def __init__(self, broker: LeveretWithHttp, pieces: list[memoryview], rows: int) -> None:
        self._broker, self._pieces, self._rows = broker, pieces, rows
        self._pids = {"broker": broker.pid}

    def at_least_once(self) -> dict[str, Any]:
        declare_outlet(self._broker, "alo", "alo", "classic")
        line = self._timed(lambda: self._send("messages", exchange="alo"))
        wait_for_messages(self._broker, ["alo"], self._rows)
        return {"guarantee": "at-least-once", **line}

    def exactly_once(self) -> dict[str, Any]:
        declare_outlet(self._broker, "exact", "exact", "classic")
        answers: list[dict[str, Any]] = []
        staging = self._timed(lambda: answers.extend(self._send("stages", exchange="exact", transaction="t", batch=1)))
        commit = json.dumps({"transaction": "t", "batch": 1, "stages": [each["stage"] for each in answers]})
        moving = self._timed(lambda: [Sender(self._broker.endpoint).post("commits", commit)])
        wait_for_messages(self._broker, ["exact"], self._rows)
        seconds = staging["seconds"] + moving["seconds"]
        rate = {"rows_per_s": round(self._rows / seconds)}
        return {"guarantee": "exactly-once", **rate, "staging": staging, "commit": moving}

    def _send(self, path: str, **query: object) -> list[dict[str, Any]]:
        def some(place: int) -> list[dict[str, Any]]:
            sender = Sender(self._broker.endpoint)
            return [sender.post(path, piece, **query) for piece in self._pieces[place::SENDERS]]

        with ThreadPoolExecutor(SENDERS) as threads:
            return [answer for answers in threads.map(some, range(SENDERS)) for answer in answers]

    def _timed(self, work: Any) -> dict[str, Any]:
        start = reading(self._pids)
        work()
        cost = between(start, reading(self._pids))
        per_row = {"broker_us_per_row": round(cost["broker_cpu_s"] / self._rows * 1e6, 2)}
        return {"rows_per_s": round(self._rows / cost["seconds"]), **per_row, **cost}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.pipeline.sink_load", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_600_000)
    parser.add_argument("--keys", type=int, default=0, help="distinct routing keys, each for 256 rows; 0 for none")
    parser.add_argument("--python", default=sys.executable, help="the Python that the broker runs with")
    options = parser.parse_args(arguments)
    step = BATCH_ROWS * PIECE_BATCHES
    pieces = [piece_of(first, PIECE_BATCHES, options.keys) for first in range(0, options.rows, step)]
    with tempfile.TemporaryDirectory(prefix="leveret-bench-", ignore_cleanup_errors=True) as folder:
        with LeveretWithHttp(Path(folder) / "broker", options.python) as broker:
            measurement = Measurement(broker, pieces, len(pieces) * step)
            for measure in (measurement.at_least_once, measurement.exactly_once):
                print(json.dumps(measure()), flush=True)
                time.sleep(1)


if __name__ == "__main__":
    main()
