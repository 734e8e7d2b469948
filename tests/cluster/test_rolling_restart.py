"""Nodes and servers of the engine are restarted one after the other, as for an upgrade, while clients work."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from tests.support.cell_faults import FaultRun, Faults, RunOutcome
from tests.support.cell_node import Cell
from tests.support.nats_servers import NatsServers
from tests.support.operation_history import Outcome


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_clients_only_reconnect_while_all_nodes_and_servers_are_restarted(
    own_servers: NatsServers, tmp_path: Path
) -> None:
    async def run(faults: FaultRun) -> RunOutcome:
        await faults.load.start()
        await faults.load.more(30, 60)
        return await faults.finish(
            [await faults.make(fault) for fault in (Faults.restart_all_nodes, Faults.restart_all_servers)]
        )

    cell = Cell(tmp_path, own_servers, "rolling")
    try:
        cell.start()
        faults = FaultRun(cell, own_servers, Random(1))
        outcome = asyncio.run(run(faults))
        print(outcome)
        assert not outcome.report.violations, str(outcome)
        assert not [each for each in faults.load.history.publishes.values() if each.outcome is Outcome.NACKED]
        assert not cell.tracebacks()
    finally:
        cell.end()
