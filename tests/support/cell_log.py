"""Leaders and members of one cell over real servers of the engine, without brokers.

async with CellLog(servers, "cell name") as cell:
    leader = await cell.lead("a")
    leader.append(b"one")
    await leader.settled()
    assert (await cell.all_batches()) == [b"one"]
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any

from leveret.cluster.cell_stream import CellStream, bucket_configuration, facts_of, prepare_stream
from leveret.cluster.engine import Engine, EngineConnection, EngineOptions, EngineRefusal, EngineUnavailable, end
from leveret.cluster.log_append import LogAppender, append_claim
from leveret.cluster.log_tail import LogTail
from leveret.errors import ClusterError
from leveret.replication.append_window import AppendWindow
from leveret.replication.claims import Candidate, Claim, Position
from leveret.replication.log_reader import Completed, LogReader
from tests.support.nats_servers import NatsServers

PATIENCE = 60.0
NOTHING = Position()


async def until(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Wait for something that has no event of its own."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


class Member:
    """Reads the log, and keeps what it reads."""

    def __init__(self, cell: CellLog, name: str, position: Position) -> None:
        self.batches: list[bytes] = []
        self.claims: list[Claim] = []
        self.failure: str | None = None
        self.candidate = Candidate(cell.stream.id, name, f"life of {name}")
        self.tail = LogTail(Engine(cell.options, name), cell.stream, LogReader(cell.stream.id, position), self)

    async def claimed(self, claim: Claim) -> None:
        self.claims.append(claim)

    async def completed(self, batch: Completed) -> None:
        self.batches.append(bytes(batch.body))

    async def run(self) -> None:
        try:
            await self.tail.run()
        except ClusterError as problem:
            self.failure = str(problem)

    @property
    def is_caught_up(self) -> bool:
        return self.tail.behind == 0

    def own_claim(self) -> Claim | None:
        return next((claim for claim in self.claims if self.candidate.has_won(claim)), None)


class Leader:
    """Appends, and keeps what is granted."""

    def __init__(self, cell: CellLog, claim: Claim) -> None:
        self.acknowledged: list[bytes] = []
        self.reason: str | None = None  # why it was deposed
        self.window = AppendWindow[bytes](cell.stream.id, claim)
        self.appender = LogAppender(Engine(cell.options, claim.node), cell.stream, self.window, self)

    def granted(self, tokens: list[bytes]) -> None:
        self.acknowledged += tokens

    def deposed(self, reason: str) -> None:
        self.reason = reason

    def append(self, *bodies: bytes) -> None:
        for body in bodies:
            self.appender.append(body, body)

    async def settled(self, seconds: float = PATIENCE) -> None:
        """Until all that was appended is granted, or nothing more will be."""
        await until(lambda: self.appender.is_idle or self.reason is not None, seconds)


class CellLog:
    def __init__(self, servers: NatsServers, cell: str, ring_bytes: int = 64 << 20) -> None:
        self.servers = servers
        self.stream = CellStream.of(cell)
        self.options = EngineOptions(tuple(servers.urls), tuple(servers.monitoring))
        self._ring_bytes = ring_bytes
        self.tasks: list[asyncio.Task[None]] = []
        self._connections: list[EngineConnection] = []

    async def __aenter__(self) -> CellLog:
        connection = await self.connect()
        info = await prepare_stream(connection, self.stream.configuration(3, self._ring_bytes))
        self.stream = facts_of(self.stream.cell, info).stream
        await prepare_stream(connection, bucket_configuration(3))
        return self

    async def __aexit__(self, kind: type | None, problem: BaseException | None, trace: TracebackType | None) -> None:
        for task in self.tasks:
            await end(task)
        for connection in self._connections:
            await connection.close()

    async def connect(self) -> EngineConnection:
        connection = await Engine(self.options, "test").connect_within(PATIENCE)
        self._connections.append(connection)
        return connection

    async def _info(self) -> Any:
        """Asked again while the engine has no leader for the stream."""
        connection = await self.connect()
        async with asyncio.timeout(PATIENCE):
            while True:
                with suppress(EngineUnavailable, EngineRefusal):
                    info = await connection.request(f"$JS.API.STREAM.INFO.{self.stream.name}")
                    if info["cluster"].get("leader"):
                        return info
                await asyncio.sleep(0.02)

    async def stream_leader(self) -> int:
        """The place of the server that leads the stream."""
        info = await self._info()
        return self.servers.place_of(info["cluster"]["leader"])

    def run(self, member: Member | LogAppender[bytes]) -> None:
        self.tasks.append(asyncio.create_task(member.run()))

    def member(self, name: str, position: Position = NOTHING) -> Member:
        member = Member(self, name, position)
        self.run(member)
        return member

    async def claim(self, member: Member) -> Claim:
        """Claim the leadership, whatever the leader does; the claim as read in the log."""
        connection = await self.connect()
        async with asyncio.timeout(PATIENCE):
            while (claim := member.own_claim()) is None:
                position = member.tail.reader.position
                stored = await append_claim(connection, self.stream, member.candidate.attempt(position, position.epoch))
                if stored:
                    await until(lambda: member.own_claim() is not None)
                await asyncio.sleep(0.02)
        return claim

    async def lead(self, name: str) -> Leader:
        member = self.member(name)
        await until(lambda: member.is_caught_up)
        leader = Leader(self, await self.claim(member))
        self.run(leader.appender)
        return leader

    async def all_batches(self) -> list[bytes]:
        """What the log holds, read from its beginning."""
        info = await self._info()
        member = self.member("reader")
        await until(lambda: member.tail.reader.position.sequence >= info["state"]["last_seq"])
        return member.batches
