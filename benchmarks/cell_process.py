"""One cell with a port of its own, so that a generator can choose the cell: `python -m benchmarks.cell_process`.

`leveret serve --cells` shares one port, and the system chooses. The first line of output has the ports as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from pathlib import Path
from urllib.parse import urlsplit

from leveret.cells_node import CellNode, CellPlan
from leveret.cli.serve import collect_garbage_rarely
from leveret.config import Settings

SECRET = b"of cells on one machine, for as long as they are measured"


async def serve(options: argparse.Namespace) -> None:
    first = None if options.first is None else ("127.0.0.1", options.first)
    settings = Settings(
        amqp_port=0,
        http_port=0,
        stomp_port=None,
        data_dir=Path(options.data_dir),
        cells=options.cells,
        queue_leader_locator="client-local",
        connections_follow_queues="off",
    )
    cell = CellNode(settings, CellPlan(options.cell, options.cells, SECRET, first))
    await cell.start()
    assert cell.address is not None
    ports = {scheme: urlsplit(url).port for scheme, url in cell.endpoints.items()}
    print(json.dumps({"link": cell.address[1], "amqp": ports["amqp"], "http": ports.get("http")}), flush=True)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    await stopped.wait()
    await cell.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cell")
    parser.add_argument("--cells", type=int, required=True)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--first", type=int, help="cluster port of the first cell")
    collect_garbage_rarely()
    options = parser.parse_args()
    if sys.platform == "linux":
        import uvloop

        uvloop.run(serve(options))
    else:
        asyncio.run(serve(options))


if __name__ == "__main__":
    main()
