"""``make cluster-long TIME=3600``: random faults of a cell under load for so long, and the check of the history.

Prints the seed, the faults by kind with the gaps in the service, and all violations. Exits with 1 if there are any.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
from pathlib import Path
from random import Random, SystemRandom

from tests.support.cell_faults import ALL, FaultRun, RunOutcome
from tests.support.cell_node import Cell
from tests.support.nats_servers import NatsServers


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.cluster.long_run", description=__doc__)
    parser.add_argument("--time", type=float, default=60, metavar="SECONDS")
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(1 << 32))
    parser.add_argument("--rate", type=float, default=100, help="messages per second of each publisher")
    parser.add_argument("--faults", help=f"comma-separated: {', '.join(each.__name__ for each in ALL)}")
    return parser.parse_args(arguments)


def run(options: argparse.Namespace, folder: Path) -> RunOutcome:
    wanted = options.faults.split(",") if options.faults else [each.__name__ for each in ALL]
    kinds = [each for each in ALL if each.__name__ in wanted]
    with NatsServers(folder) as servers:
        servers.start()
        cell = Cell(folder, servers, "long")
        try:
            cell.start()
            faults = FaultRun(cell, servers, Random(options.seed), rate=options.rate)
            outcome = asyncio.run(faults.run(options.time, kinds, lambda text: print(text, flush=True)))
            if found := cell.tracebacks():
                print(f"internal errors in the logs:\n{found[0][-5000:]}")
            return outcome
        finally:
            cell.end()


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    folder = Path(tempfile.mkdtemp(prefix="leveret-cluster-"))
    print(f"seed {options.seed}; logs and data in {folder}, which is removed if nothing is found", flush=True)
    outcome = run(options, folder)
    print(outcome)
    if outcome.report.violations:
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
