"""Two cells of one cluster in this process, each with ports of its own: a test chooses the cell of each connection.

with CellsInProcess(settings) as cells:
    cells.place("orders", "c2")
    RawClient.open(cells.url("c1", vhost="orders"))     # served by c2
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

import uvloop

from leveret.auth.permissions import EVERYTHING
from leveret.broker.broker import Broker
from leveret.broker.vhost_cells import place_vhost
from leveret.cells.definition_feed import Frame
from leveret.cells_node import CellNode, CellPlan
from leveret.config import Settings
from leveret.session.connection import Connection
from tests.support.raw_client import eventually

T = TypeVar("T")
SECRET = bytes(32)
SECONDS = 60.0


class CellsInProcess:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="cells", daemon=True)
        self.nodes: dict[str, CellNode] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        self.start("c1")
        self.start("c2")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for cell in ("c2", "c1"):
            if cell in self.nodes:
                self.stop(cell)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS)
        self._loop.close()

    def start(self, cell: str) -> None:
        async def start() -> CellNode:
            first = None if cell == "c1" else self.nodes["c1"].address
            node = CellNode(self._settings, CellPlan(cell, 2, SECRET, first))
            await node.start()
            return node

        self.nodes[cell] = self.run(start())

    def stop(self, cell: str) -> None:
        self.run(self.nodes.pop(cell).stop())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(SECONDS)

    def call(self, call: Callable[[], T]) -> T:
        """On the event loop of the cells."""

        async def run() -> T:
            return call()

        return self.run(run())

    # ---- the cells

    def broker(self, cell: str) -> Broker:
        return self.nodes[cell].node.broker

    def url(self, cell: str, scheme: str = "amqp", vhost: str = "", user: str = "guest:guest") -> str:
        where = urlsplit(self.nodes[cell].endpoints[scheme])
        return f"{scheme}://{user}@{where.hostname}:{where.port}/{vhost}"

    def place(self, vhost: str, cell: str, *users: str) -> None:
        """Create a virtual host that lives there; returns when both cells have it."""

        def place() -> None:
            broker = self.broker("c1")
            place_vhost(broker, broker.add_vhost(vhost), cell)
            for user in ("guest", *users):
                broker.permissions.set(user, vhost, EVERYTHING, EVERYTHING, EVERYTHING)
            broker.wake()

        self.call(place)
        eventually(lambda: self.call(lambda: all(self._has(each, vhost, *users) for each in self.nodes)))

    def _has(self, cell: str, vhost: str, *users: str) -> bool:
        broker = self.broker(cell)
        has_permissions = all(broker.permissions.permits_entry(user, vhost) for user in ("guest", *users))
        return vhost in broker.vhosts and bool(broker.vhosts[vhost].cell) and has_permissions

    @contextmanager
    def definitions_held(self, cell: str) -> Iterator[None]:
        """What the first cell reports to this one arrives after the block."""
        first = self.nodes[cell].cell.links._first
        assert first is not None
        receive, held = first.receive, list[Frame]()

        def hold() -> None:
            first.receive = held.append  # type: ignore[method-assign]

        def release() -> None:
            first.receive = receive  # type: ignore[method-assign]
            for frame in held:
                receive(frame)

        self.call(hold)
        try:
            yield
        finally:
            self.call(release)

    def connections(self, cell: str) -> list[Connection]:
        """Those of clients."""
        found = self.call(lambda: list(self.broker(cell).registry.connections))
        return [each for each in found if isinstance(each, Connection) and not each.is_link]
