"""The link between the leaders of two replicated cells is cut, under load. The engine reaches both, so they stay."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest

from tests.support.cell_node import PORTS, CellNode
from tests.support.cell_ports import free_ports
from tests.support.link_faults import Fault, FaultedLinks, between, cut_both_ways, cut_from_first
from tests.support.linked_cells import LinkedCells
from tests.support.machines import Machines
from tests.support.nats_servers import NatsServers

FAULT_SECONDS = 8.0  # a link is lost after six


class Leaders(LinkedCells):
    """Two replicated cells, each of one node: clients of a node are clients of its cell."""

    def __init__(self, folder: Path, servers: NatsServers, machines: Machines) -> None:
        self._cells = {}
        engine = ("--cluster", ",".join(servers.urls), "--cluster-monitoring", ",".join(servers.monitoring))
        for place, name in enumerate(("c1", "c2")):
            ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
            arguments = [*engine, "--cluster-log-size=64MiB", "--cells=2", f"--cell={name}"]
            self._cells[name] = CellNode(folder, name, arguments, ports, machine=machines[place])


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_nothing_is_lost_while_the_link_between_two_leaders_is_cut(tmp_path: Path) -> None:
    """In both directions, then in one."""
    faults = [Fault(make, between, loses_links=True) for make in (cut_both_ways, cut_from_first)]
    with Machines(3) as machines, machines.inside(), NatsServers(tmp_path, machines=[machines[2]] * 3) as servers:
        servers.start()
        cells = Leaders(tmp_path, servers, machines)
        try:
            cells.start()
            report = asyncio.run(FaultedLinks(machines, cells, Random(1)).run(faults, FAULT_SECONDS, notify=print))
            print(report)
            assert not report.violations, str(report)
            assert [cell.times_leading for cell in cells] == [1, 1]
        finally:
            cells.end()
