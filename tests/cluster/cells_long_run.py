"""``make cells-long TIME=3600``: faults of links and cells under load for so long, and the check of the history.

Links have their real times: lost after 6 seconds of silence, publishes wait for 10. Each round makes every fault once,
in a random order, for a random time of up to 20 seconds; in each third round a cell is gone for a minute. Prints the
seed and the pauses, and exits with 1 if there are violations. Needs root on Linux.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
from pathlib import Path
from random import Random, SystemRandom

from tests.support.link_faults import FAULTS, Fault, FaultedLinks
from tests.support.linked_cells import LinkedCells
from tests.support.machines import Machines
from tests.support.operation_history import Report

LEAST, MOST, MINUTE = 9.0, 20.0, 60.0  # seconds; a link that is silent is lost after 7
KILL = next(fault for fault in FAULTS if fault.name == "kill")


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.cluster.cells_long_run", description=__doc__)
    parser.add_argument("--time", type=float, default=60, metavar="SECONDS")
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(1 << 32))
    parser.add_argument("--rate", type=float, default=12, help="messages per second of each of the 27 publishers")
    parser.add_argument("--faults", help=f"comma-separated: {', '.join(each.name for each in FAULTS)}")
    return parser.parse_args(arguments)


async def run(machines: Machines, cells: LinkedCells, options: argparse.Namespace) -> Report:
    random, faulted = Random(options.seed), FaultedLinks(machines, cells, Random(options.seed), rate=options.rate)
    wanted = options.faults.split(",") if options.faults else [each.name for each in FAULTS]
    kinds = [each for each in FAULTS if each.name in wanted]
    deadline, rounds = time.monotonic() + options.time, 0
    await faulted.load.start()
    while time.monotonic() < deadline:
        rounds += 1
        plan: list[tuple[Fault, float]] = [(fault, random.uniform(LEAST, MOST)) for fault in kinds]
        if rounds % 3 == 0:
            plan.append((KILL, MINUTE))
        for fault, seconds in random.sample(plan, len(plan)):
            if time.monotonic() < deadline:
                print(await faulted.make(fault, seconds), flush=True)
    return await faulted.finish()


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    folder = Path(tempfile.mkdtemp(prefix="leveret-cells-"))
    print(f"seed {options.seed}; logs and data in {folder}, which is removed if nothing is found", flush=True)
    with Machines(3) as machines, machines.inside():
        cells = LinkedCells(folder, 3, machines=list(machines))
        try:
            cells.start()
            report = asyncio.run(run(machines, cells, options))
        finally:
            cells.end()
    print(report)
    if report.violations:
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
