"""The lease of a cell's leader: a key of the engine's bucket that goes away when it is not renewed.

The lease shows which node leads and that it is alive. It is no fence: only the log decides which batches count.
"""

from __future__ import annotations

import base64
from typing import NamedTuple

import msgspec

from leveret.cluster.cell_stream import BUCKET, CellStream
from leveret.cluster.engine import NO_MESSAGE, WRONG_SEQUENCE, EngineConnection, EngineRefusal
from leveret.errors import ClusterError

TTL = 15  # seconds; the engine's own elections take up to 9
EXPECTED = "Nats-Expected-Last-Subject-Sequence"
TIME_TO_LIVE = "Nats-TTL"


class LeaseHolder(NamedTuple):
    """``life`` is one run of the node's process; ``is_released``: the node has stopped leading by itself."""

    node: str
    life: str
    epoch: int
    is_released: bool = False


class HeldLease(NamedTuple):
    holder: LeaseHolder
    revision: int


class Lease:
    """All methods raise EngineUnavailable when the engine does not answer: what they did is then not known."""

    def __init__(self, stream: CellStream, ttl: int = TTL) -> None:
        self._subject = f"$KV.{BUCKET}.{stream.cell}.leader"
        self._ttl = ttl
        self.renew_every = ttl / 5
        self.step_down_after = ttl * 0.8  # without an answer of the engine: before another node can have the lease
        self.look_every = ttl / 15

    async def read(self, connection: EngineConnection) -> HeldLease | None:
        """The lease, if there is one that is not over."""
        try:
            answer = await connection.request(f"$JS.API.STREAM.MSG.GET.KV_{BUCKET}", {"last_by_subj": self._subject})
        except EngineRefusal as refusal:
            if refusal.code == NO_MESSAGE:
                return None
            raise _unusable(refusal) from refusal
        message = answer["message"]
        data = base64.b64decode(message.get("data", ""))
        try:
            return HeldLease(msgspec.json.decode(data, type=LeaseHolder), message["seq"])
        except msgspec.MsgspecError as problem:
            raise ClusterError(
                f"the key {self._subject} of the engine's bucket {BUCKET} was not written by Leveret ({problem}): "
                "delete it"
            ) from problem

    async def acquire(self, connection: EngineConnection, holder: LeaseHolder) -> int | None:
        """The revision of the lease, or None if another node has it. A node whose request was not answered calls this
        again: it finds its own lease."""
        held = await self.read(connection)
        if held is not None and held.holder.life != holder.life and not held.holder.is_released:
            return None
        return await self._write(connection, holder, 0 if held is None else held.revision)

    async def renew(self, connection: EngineConnection, holder: LeaseHolder, revision: int) -> int | None:
        """The new revision, or None if the lease was lost."""
        return await self._write(connection, holder, revision)

    async def release(self, connection: EngineConnection, holder: LeaseHolder, revision: int) -> bool:
        """Let other nodes take over at once; whether the lease was still held."""
        return await self._write(connection, holder._replace(is_released=True), revision) is not None

    async def _write(self, connection: EngineConnection, holder: LeaseHolder, revision: int) -> int | None:
        headers = {EXPECTED: str(revision), TIME_TO_LIVE: f"{self._ttl}s"}
        try:
            return await connection.append(self._subject, msgspec.json.encode(holder), headers)
        except EngineRefusal as refusal:
            if refusal.code in WRONG_SEQUENCE:
                return None
            raise _unusable(refusal) from refusal


def _unusable(refusal: EngineRefusal) -> ClusterError:
    return ClusterError(
        f"the engine refuses the lease of the leader: {refusal}; check the bucket {BUCKET} with 'nats kv info {BUCKET}'"
    )
