"""One leader epoch of this node: its appends, its lease, and when to step down.

A leader steps down when another node has claimed, when it has lost its lease, when its disk fails, or when the engine
has not answered for most of the time that the lease lives: soon another node may hold it.
"""

from __future__ import annotations

import asyncio
from typing import Any

from leveret.cluster.cell_stream import CellStream
from leveret.cluster.engine import Engine, EngineConnection, EngineUnavailable, end
from leveret.cluster.lease import Lease, LeaseHolder
from leveret.cluster.log_append import LogAppender
from leveret.errors import ClusterError
from leveret.logs import get_log
from leveret.replication.append_window import AppendWindow
from leveret.replication.claims import Claim
from leveret.replication.journal_replicator import JournalReplicator, ReplicatedBatch

PAUSE = 0.2


class Leadership:
    """``await run()`` until this node must step down; returns the reason."""

    def __init__(self, engine: Engine, stream: CellStream, claim: Claim, lease: Lease, revision: int) -> None:
        self._engine = engine
        self._lease = lease
        self._holder = LeaseHolder(claim.node, claim.life, claim.epoch)
        self._revision = revision
        self._appender = LogAppender[ReplicatedBatch](engine, stream, AppendWindow(stream.id, claim), self)
        self._over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._connection: EngineConnection | None = None
        self._log = get_log("cluster").bind(cell=stream.cell, epoch=claim.epoch)
        self.replicator = JournalReplicator(self._appender, self.step_down)

    async def run(self) -> str:
        tasks = [asyncio.create_task(job) for job in (self._appender.run(), self._renew())]
        try:
            futures: list[asyncio.Future[Any]] = [self._over, *tasks]
            await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done() and (problem := task.exception()) is not None:
                    self._log.error("internal error of the leader", reason=repr(problem))
                    self.step_down(f"internal error ({problem!r})")
            return await self._over
        finally:
            self.replicator.stop("this node does not lead any more")
            for task in tasks:
                await end(task)
            await self._disconnect()

    def step_down(self, reason: str) -> None:
        """Grant nothing more."""
        self.replicator.stop(reason)
        if not self._over.done():
            self._over.set_result(reason)

    # ---- from the appender

    def granted(self, tokens: list[ReplicatedBatch]) -> None:
        self.replicator.granted(tokens)

    def deposed(self, reason: str) -> None:
        self.step_down(reason)

    # ---- the lease

    async def _renew(self) -> None:
        loop = asyncio.get_running_loop()
        renewed = loop.time()
        while not self._over.done():
            begun = loop.time()
            try:
                await self._renew_once()
                renewed = begun
            except EngineUnavailable as problem:
                self._log.warning("lease not renewed", reason=str(problem))
                await self._disconnect()
            except ClusterError as problem:
                self.step_down(str(problem))
            waiting = self._appender.waiting_since
            silent = loop.time() - min(renewed, loop.time() if waiting is None else waiting)
            if silent > self._lease.step_down_after:
                self.step_down(f"the engine has not answered for {silent:.0f} seconds")
            await asyncio.sleep(self._lease.renew_every if renewed == begun else PAUSE)

    async def _renew_once(self) -> None:
        if self._connection is None:
            self._connection = await self._engine.connect()
            # A renewal that was not answered may have been done: this finds out, and renews.
            revision = await self._lease.acquire(self._connection, self._holder)
        else:
            revision = await self._lease.renew(self._connection, self._holder, self._revision)
        if revision is None:
            self.step_down("another node has the lease")
        else:
            self._revision = revision

    async def release(self) -> None:
        """After a clean stop: let another node take over at once."""
        try:
            connection = await self._engine.connect()
        except EngineUnavailable as problem:
            self._log.warning("lease not released", reason=str(problem))
            return
        try:
            await self._lease.release(connection, self._holder, self._revision)
        except EngineUnavailable as problem:
            self._log.warning("lease not released", reason=str(problem))
        finally:
            await connection.close()

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
