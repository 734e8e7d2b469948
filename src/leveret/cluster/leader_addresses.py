"""Where replicated cells are: at their leaders, whose addresses are in their leases.

They are read once per second, and ten times per second while a caller tries to reach a cell more often than that.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress

from leveret.cluster.cell_addresses import Address
from leveret.cluster.cell_stream import CellStream
from leveret.cluster.engine import Engine, EngineConnection, EngineUnavailable
from leveret.cluster.lease import Lease, LeaseHolder
from leveret.errors import ClusterError
from leveret.logs import LogInterval, get_log

LOOK_EVERY = 1.0  # seconds
SOUGHT_EVERY = 0.1  # while a cell cannot be reached
BETWEEN_LINES = 60.0  # seconds between two log lines


class LeaderAddresses:
    """``await run()`` until it is cancelled. While the engine does not answer, the last addresses stay. ``nodes``: the
    node that leads each cell, or has led it last."""

    def __init__(self, engine: Engine) -> None:
        self.nodes: dict[str, str] = {}
        self._engine = engine
        self._known: dict[str, Address | None] = {}
        self._sought: Counter[str] = Counter()
        self._wake = asyncio.Event()
        self._change = asyncio.Event()
        self._lines = LogInterval(BETWEEN_LINES)

    def of(self, cell: str) -> Address | None:
        return self._known.setdefault(cell, None)

    def reported(self, cells: Mapping[str, Address]) -> None:
        """The engine knows better."""

    async def changed(self, cell: str, known: Address | None, seconds: float | None = None) -> None:
        is_urgent = seconds is not None and seconds < LOOK_EVERY
        self._sought[cell] += is_urgent
        self._wake.set()
        try:
            async with asyncio.timeout(seconds):
                while self.of(cell) == known:
                    await self._change.wait()
        except TimeoutError:
            return
        finally:
            self._sought[cell] -= is_urgent

    async def run(self) -> None:
        while True:
            try:
                connection = await self._engine.connect()
                try:
                    while True:
                        await self._look(connection)
                        await self._pause()
                finally:
                    await connection.close()
            except (EngineUnavailable, ClusterError) as problem:
                if self._lines.is_due(asyncio.get_running_loop().time()):
                    get_log("cells").warning("the leaders of other cells cannot be read", reason=str(problem))
                await asyncio.sleep(LOOK_EVERY)

    async def _look(self, connection: EngineConnection) -> None:
        before = dict(self._known)
        for cell in before:
            held = await Lease(CellStream(cell)).read(connection)
            self._known[cell] = None if held is None else self._address(cell, held.holder)
        if any(self._known[cell] != address for cell, address in before.items()):
            change, self._change = self._change, asyncio.Event()
            change.set()

    def _address(self, cell: str, holder: LeaseHolder) -> Address | None:
        if holder.is_released:
            return None
        self.nodes[cell] = holder.node
        return holder.host, holder.port

    async def _pause(self) -> None:
        """Until the next look: soon if a cell is sought."""
        if self._sought.total():
            self._wake.clear()
            await asyncio.sleep(SOUGHT_EVERY)
        else:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), LOOK_EVERY)
            self._wake.clear()
