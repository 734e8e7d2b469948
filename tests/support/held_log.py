"""A node whose journal is replicated, with a log in the test's hands."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from leveret.config import Settings
from leveret.node import Node
from leveret.replication.claims import Position
from leveret.replication.journal_replicator import JournalReplicator, ReplicatedBatch


class HeldLog:
    """Grants what it is told to."""

    def __init__(self) -> None:
        self.is_held = False
        self.bodies: list[bytes] = []
        self.reasons: list[str] = []
        self.replicator = JournalReplicator(self, self.reasons.append)
        self._waiting: list[ReplicatedBatch] = []

    @property
    def position(self) -> Position:
        return Position(len(self.bodies), 1, len(self.bodies))

    def has_room(self, size: int) -> bool:
        return True

    def append(self, body: bytes, token: ReplicatedBatch) -> None:
        self.bodies.append(body)
        self._waiting.append(token)
        if not self.is_held:
            asyncio.get_running_loop().call_soon(self.grant)

    def grant(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            self.replicator.granted(waiting)


Story = Callable[[Node, HeldLog], Awaitable[None]]


def play(folder: Path, story: Story) -> HeldLog:
    async def run() -> HeldLog:
        log = HeldLog()
        node = Node(Settings(data_dir=folder, amqp_port=0, http_port=None, shutdown_timeout=2.0))
        assert node.store is not None
        node.store.replicator = log.replicator
        await node.start()
        try:
            await story(node, log)
        finally:
            await node.stop()
        return log

    return asyncio.run(run())


def url_of(node: Node) -> str:
    return node.endpoints["amqp"].replace("amqp://", "amqp://guest:guest@")


def journal_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "journal").glob("*.seg")}
