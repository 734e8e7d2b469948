"""Random faults of nodes and servers under load, for a short time and with a fixed seed; ``make cluster-long`` runs the
same for hours. Nothing confirmed is lost, nothing is invented, and the order stays."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from tests.cluster.long_run import parse
from tests.support.cell_faults import FaultRun, Faults, Made, RunOutcome, gaps_of
from tests.support.cell_node import Cell
from tests.support.nats_servers import NatsServers

SEED = 16
SECONDS = 30.0


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_nothing_confirmed_is_lost_by_random_faults(own_servers: NatsServers, tmp_path: Path) -> None:
    cell = Cell(tmp_path, own_servers, "random")
    try:
        cell.start()
        outcome = asyncio.run(FaultRun(cell, own_servers, Random(SEED)).run(SECONDS, notify=print))
        print(outcome)
        assert not outcome.report.violations, str(outcome)
        assert sum(map(len, outcome.gaps.values())) >= 3, str(outcome)
        assert not cell.tracebacks()
    finally:
        cell.end()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_nothing_confirmed_or_settled_is_lost_when_leaders_are_killed_also_while_they_take_over(
    servers: NatsServers, tmp_path: Path
) -> None:
    async def run(faults: FaultRun) -> RunOutcome:
        await faults.load.start()
        await faults.load.more(30, 60)
        return await faults.finish(
            [await faults.make(fault) for fault in (Faults.kill_leader, Faults.kill_leader_twice)]
        )

    with Cell(tmp_path, servers, "killed") as cell:
        cell.start()
        outcome = asyncio.run(run(FaultRun(cell, servers, Random(SEED))))
        assert not outcome.report.violations, str(outcome)


def test_a_gap_is_the_longest_time_between_confirms_during_a_fault() -> None:
    faults = [Made("kill", 1.0, 4.0), Made("stop", 5.0, 6.0), Made("kill", 7.0, 8.0)]
    confirms = [0.5, 1.5, 3.5, 4.5, 5.1, 5.2, 6.0, 7.5]
    assert gaps_of(faults, confirms) == {"kill": [2.0, 1.5], "stop": [pytest.approx(0.8)]}


def test_the_long_run_has_a_fresh_seed_unless_one_is_given() -> None:
    assert parse(["--seed", "5"]).seed == 5
    assert parse([]).seed != parse([]).seed
