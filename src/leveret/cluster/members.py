"""The members of a cell, in the engine's bucket: where each can be reached, and the secret that they share.

A node enters itself when it starts, and stays a member until it is removed. The secret proves to another node that one
belongs to the cell (cluster/link.py). It is as safe as the log: who can read the bucket can read all messages.
"""

from __future__ import annotations

import asyncio
import re
import secrets

import msgspec

from leveret.cluster import bucket
from leveret.cluster.cell_stream import CellStream, LogFacts, read_log
from leveret.cluster.engine import Engine, EngineConnection, EngineUnavailable
from leveret.cluster.log_faults import REFOUND, OtherLog
from leveret.errors import ClusterError
from leveret.logs import get_log

SECRET_SIZE = 32
OF_CLUSTER = "=cells.secret"  # no name of a cell begins with =
PAUSE = 1.0
NOT_IN_KEYS = re.compile(r"[^A-Za-z0-9_-]")


class Member(msgspec.Struct, frozen=True):
    """``host`` and ``port``: of its cluster port. ``endpoints``: its URLs for clients, by scheme. ``life``: one run of
    its process. ``life`` and ``version`` are those of its last start."""

    node: str
    host: str
    port: int
    life: str
    version: str
    endpoints: dict[str, str] = {}

    @property
    def address(self) -> tuple[str, int]:
        return self.host, self.port


class Members:
    """All methods raise EngineUnavailable when the engine does not answer."""

    def __init__(self, stream: CellStream) -> None:
        self._prefix = f"{stream.cell}.members."
        self._secret = f"{stream.cell}.secret"
        self._log = f"{stream.cell}.log"

    async def enter(self, connection: EngineConnection, member: Member, is_new: bool = False) -> None:
        """``is_new``: unless there is an entry already, which is newer."""
        revision = 0 if is_new else None
        await bucket.write(connection, self._key(member.node), msgspec.json.encode(member), revision)

    async def remove(self, connection: EngineConnection, node: str) -> None:
        await bucket.delete(connection, self._key(node))

    async def find(self, connection: EngineConnection, node: str) -> Member | None:
        return await self._read(connection, self._key(node))

    async def all(self, connection: EngineConnection) -> list[Member]:
        """By name."""
        found = [await self._read(connection, key) for key in await bucket.keys(connection, self._prefix)]
        return sorted((member for member in found if member is not None), key=lambda member: member.node)

    async def was_removed(self, connection: EngineConnection, node: str) -> bool:
        """Whether it was a member until it was removed."""
        return await bucket.is_deleted(connection, self._key(node))

    async def secret(self, connection: EngineConnection, known: bytes = b"") -> bytes:
        """The secret of the cell; the first node creates it. ``known``: as it was before the engine lost it."""
        return await _secret(connection, self._secret, known)

    async def log(self, connection: EngineConnection) -> str:
        """The id of the log that the members follow; empty if no node has led yet."""
        entry = await bucket.read(connection, self._log)
        return "" if entry is None else entry.value.decode()

    async def follow(self, connection: EngineConnection, log: str) -> None:
        """A node is about to lead with this log."""
        await bucket.write(connection, self._log, log.encode())

    def _key(self, node: str) -> str:
        """Names may have characters that keys may not have: they are written as numbers."""
        return self._prefix + NOT_IN_KEYS.sub(lambda found: f"={ord(found[0]):x}=", node)

    async def _read(self, connection: EngineConnection, key: str) -> Member | None:
        entry = await bucket.read(connection, key)
        if entry is None:
            return None
        try:
            return msgspec.json.decode(entry.value, type=Member)
        except msgspec.MsgspecError as problem:
            raise ClusterError(
                f"the key {key} of the engine's bucket was not written by this version of Leveret ({problem}): "
                "upgrade this node, or delete the key"
            ) from problem


async def cluster_secret(connection: EngineConnection, known: bytes = b"") -> bytes:
    """The secret of all cells of a cluster that has several, for links between them."""
    return await _secret(connection, OF_CLUSTER, known)


async def _secret(connection: EngineConnection, key: str, known: bytes) -> bytes:
    while True:
        entry = await bucket.read(connection, key)
        if entry is not None:
            return entry.value
        await bucket.write(connection, key, known or secrets.token_bytes(SECRET_SIZE), revision=0)


async def find_log(engine: Engine, stream: CellStream) -> LogFacts:
    """The log of the cell, as soon as the engine answers. Raises LogFault if there is none, or one that does not
    continue the log that the members follow."""
    while True:
        try:
            connection = await engine.connect()
            try:
                found = await read_log(connection, stream)
                followed = await Members(stream).log(connection)
                break
            finally:
                await connection.close()
        except EngineUnavailable as problem:
            get_log("cluster").info("the log of the cell is not known yet", cell=stream.cell, reason=str(problem))
            await asyncio.sleep(PAUSE)
    if followed and followed != found.stream.log and not found.continues(followed):
        raise OtherLog(
            f"the stream {stream.name} was created again: its log is {found.stream.log}, but the members follow "
            f"{followed}: {REFOUND}"
        )
    return found
