"""Publishers that a test drives step by step, each on one connection, recorded like a ``CellLoad``."""

from __future__ import annotations

import time
from contextlib import suppress
from random import Random

from leveret.wire.methods import BasicAck
from tests.support.cell_load import PARKED, PERSISTENT, CellLoad, Lost, body_of
from tests.support.cell_node import Cell, CellNode
from tests.support.links import Link
from tests.support.operation_history import Kind, Outcome


class Publisher:
    """On one connection to one node, whatever happens to it."""

    def __init__(self, load: CellLoad, link: Link, name: str) -> None:
        self._history = load.history
        self._link = link
        self._name = name
        self._sent: list[str] = []
        self._confirmed = 0

    @property
    def is_blocked(self) -> bool:
        """As far as was received."""
        return self._link.is_blocked

    def send(self, number: int, size: int = 200) -> None:
        for _ in range(number):
            self._sent.append(f"{self._name}.{len(self._sent) + 1}")
            self._history.sent(self._sent[-1], PARKED, self._name, len(self._sent), time.monotonic())
            self._link.publish("", PARKED, body_of(self._sent[-1], size), PERSISTENT)

    async def take_confirms(self, number: int, seconds: float) -> int:
        """Until so many are confirmed in all, or no more come; how many it were."""
        with suppress(*Lost):
            while self._confirmed < number:
                method = (await self._link.next(seconds)).method
                if not isinstance(method, BasicAck):
                    break  # of a leader that stops
                for ident in self._sent[self._confirmed : method.delivery_tag]:
                    self._history.answered(ident, Outcome.CONFIRMED, time.monotonic())
                self._confirmed = method.delivery_tag
        return self._confirmed


class Publishers:
    """Those of a test, and what is found at its end."""

    def __init__(self, cell: Cell) -> None:
        self._load = CellLoad(cell.nodes, Random(1))
        self._links: list[Link] = []

    async def __aenter__(self) -> Publishers:
        await self._load.declare()
        return self

    async def __aexit__(self, *about: object) -> None:
        for link in self._links:
            link.cut()

    async def add(self, node: CellNode) -> Publisher:
        """Connected to this node."""
        self._links.append(await Link.open(node.url, confirms=True))
        return Publisher(self._load, self._links[-1], f"p{len(self._links)}")

    async def violations(self) -> list[Kind]:
        await self._load.drain()
        report = self._load.history.check()
        print(report)
        return sorted(report.counts)
