"""The lease of a cell's leader: a key of the engine's bucket that goes away when it is not renewed.

The lease shows which node leads and that it is alive. It is no fence: only the log decides which batches count.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from leveret.cluster import bucket
from leveret.cluster.cell_stream import BUCKET, CellStream
from leveret.cluster.engine import EngineConnection
from leveret.errors import ClusterError

TTL = 15  # seconds; the engine's own elections take up to 9


class LeaseHolder(NamedTuple):
    """``life`` is one run of the node's process; ``is_released``: the node has stopped leading by itself, perhaps in
    favour of a ``successor``. ``host`` and ``port`` are those of its cluster port."""

    node: str
    life: str
    epoch: int
    is_released: bool = False
    host: str = ""
    port: int = 0
    successor: str = ""


class HeldLease(NamedTuple):
    holder: LeaseHolder
    revision: int


class Lease:
    """All methods raise EngineUnavailable when the engine does not answer: what they did is then not known."""

    def __init__(self, stream: CellStream, ttl: int = TTL) -> None:
        self._key = f"{stream.cell}.leader"
        self._ttl = ttl
        self.renew_every = ttl / 15
        # Seconds without an answer of the engine, both before another node can have the lease:
        self.pause_after = ttl / 5  # until deliveries stop
        self.step_down_after = ttl * 0.8
        self.look_every = ttl / 15

    async def read(self, connection: EngineConnection) -> HeldLease | None:
        """The lease, if there is one that is not over."""
        entry = await bucket.read(connection, self._key)
        if entry is None:
            return None
        try:
            return HeldLease(msgspec.json.decode(entry.value, type=LeaseHolder), entry.revision)
        except msgspec.MsgspecError as problem:
            raise ClusterError(
                f"the key {self._key} of the engine's bucket {BUCKET} was not written by Leveret ({problem}): delete it"
            ) from problem

    async def acquire(self, connection: EngineConnection, holder: LeaseHolder, dead: str = "") -> int | None:
        """The revision of the lease, or None if another node has it. A node whose request was not answered calls this
        again: it finds its own lease. ``dead``: a life that has ended, whose lease may be replaced."""
        held = await self.read(connection)
        if held is not None and held.holder.life not in (holder.life, dead) and not held.holder.is_released:
            return None
        return await self._write(connection, holder, 0 if held is None else held.revision)

    async def renew(self, connection: EngineConnection, holder: LeaseHolder, revision: int) -> int | None:
        """The new revision, or None if the lease was lost."""
        return await self._write(connection, holder, revision)

    async def release(
        self, connection: EngineConnection, holder: LeaseHolder, revision: int, successor: str = ""
    ) -> bool:
        """Let other nodes take over at once, at first only the ``successor``; whether the lease was still held."""
        released = holder._replace(is_released=True, successor=successor)
        return await self._write(connection, released, revision) is not None

    async def _write(self, connection: EngineConnection, holder: LeaseHolder, revision: int) -> int | None:
        return await bucket.write(connection, self._key, msgspec.json.encode(holder), revision, self._ttl)
