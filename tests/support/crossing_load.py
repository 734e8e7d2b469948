"""The load of tests/support/cell_load.py on several cells: its queues live in different ones, and its clients connect
to any cell of any node."""

from __future__ import annotations

from itertools import count
from random import Random

from leveret.wire.methods import BasicDeliver, BasicGetOk
from tests.support.cell_load import CellLoad
from tests.support.cell_machines import CellMachines
from tests.support.links import Heard


class CrossingLoad(CellLoad):
    def __init__(self, machines: CellMachines, random: Random, *, rate: float, homes: dict[str, str]) -> None:
        """``homes``: the cell of each queue."""
        super().__init__(machines.nodes, random, rate=rate)
        self._times = count(1)
        with machines.clients(machines.nodes[0].name, *set(homes.values())) as clients:
            for queue, home in homes.items():
                clients[home].channel.queue_declare(queue, durable=True)

    def _note(self, consumer: str, queue: str, heard: Heard) -> str:
        """A consumer outlives the link to the home of its queue, and gets again, marked, what it had not acked."""
        assert isinstance(heard.method, BasicDeliver | BasicGetOk), heard.method
        by = f"{consumer}, again {next(self._times)}" if heard.method.redelivered else consumer
        return super()._note(by, queue, heard)
