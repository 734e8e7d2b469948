"""Fetches streams over HTTP as fast as the broker gives them: `... ENDPOINT SECONDS QUEUE=NEXT [QUEUE=NEXT ...]`.

One process for each queue. Each reads its queue again and again from offset 0 to NEXT, looks at every batch, and prints
a JSON line: rows, bytes, fetches. Offsets that are not the expected ones end it with an error.
"""

from __future__ import annotations

import base64
import json
import multiprocessing
import sys
import time
from http.client import HTTPConnection
from urllib.parse import urlencode, urlsplit

import pyarrow as pa

LOGIN = {"Authorization": "Basic " + base64.b64encode(b"guest:guest").decode()}
SILENCE_SECONDS = 60
START_SECONDS = 60
READY = "reading"  # the first line, once every process is up


class FetchFailed(Exception):
    """An answer that is not what was asked for."""


def fetch(endpoint: str, queue: str, stop: int, until: float) -> tuple[int, int]:
    """Rows and bytes of one fetch, cut short when the time is up."""
    connection = HTTPConnection(urlsplit(endpoint).netloc, timeout=SILENCE_SECONDS)
    query = urlencode({"queue": queue, "from": 0, "to": stop})
    connection.request("GET", f"/api/pipeline/%2F/messages?{query}", headers=LOGIN)
    answer = connection.getresponse()
    if answer.status != 200:
        raise FetchFailed(f"queue '{queue}': {answer.status} {answer.read(500).decode(errors='replace')}")
    rows = size = 0
    try:
        for batch in pa.ipc.open_stream(answer):
            offsets = batch.column("offset")
            if offsets[0].as_py() != rows or offsets[-1].as_py() != rows + batch.num_rows - 1:
                raise FetchFailed(f"queue '{queue}': a batch is not at its place, offset {rows}")
            rows += batch.num_rows
            size += batch.nbytes
            if time.monotonic() > until:
                return rows, size
    finally:
        connection.close()
    if rows != stop:
        raise FetchFailed(f"queue '{queue}': {rows} rows, not {stop}")
    return rows, size


def keep_fetching(endpoint: str, queue: str, stop: int, seconds: float) -> dict[str, float]:
    begun = time.monotonic()
    rows = size = fetches = 0
    while time.monotonic() < begun + seconds:
        more_rows, more_bytes = fetch(endpoint, queue, stop, begun + seconds)
        rows, size, fetches = rows + more_rows, size + more_bytes, fetches + 1
    return {"rows": rows, "bytes": size, "fetches": fetches, "seconds": time.monotonic() - begun}


def main(arguments: list[str]) -> None:
    endpoint, seconds, *given = arguments
    queues = [(name, int(stop)) for name, _, stop in (each.rpartition("=") for each in given)]
    context = multiprocessing.get_context("spawn")
    all_ready = context.Barrier(len(queues) + 1)
    with context.Pool(len(queues), all_ready.wait, (START_SECONDS,)) as pool:
        all_ready.wait(START_SECONDS)
        print(READY, flush=True)
        found = pool.starmap(keep_fetching, [(endpoint, name, stop, float(seconds)) for name, stop in queues])
    total = {name: sum(each[name] for each in found) for name in ("rows", "bytes", "fetches")}
    longest = max(each["seconds"] for each in found)
    print(json.dumps(total | {"readers": len(queues), "seconds": longest, "row_rate": round(total["rows"] / longest)}))


if __name__ == "__main__":
    main(sys.argv[1:])
