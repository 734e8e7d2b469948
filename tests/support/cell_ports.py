"""Ports for the nodes and servers of a cell: each is given out once, and each worker process of pytest has its own."""

from __future__ import annotations

import os

from leveret.cluster import local_processes

FIRST, RANGE, RANGES = 20_000, 1_500, 8  # above those of `leveret cluster demo`, which looks for free ones itself
_GIVEN: set[int] = set()


def free_ports(number: int) -> list[int]:
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    low = FIRST + int(worker) % RANGES * RANGE
    found: list[int] = []
    while len(found) < number:
        (port,) = local_processes.free_ports(1, low, low + RANGE)
        if port not in _GIVEN:
            _GIVEN.add(port)
            found.append(port)
    return found
