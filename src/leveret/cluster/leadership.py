"""One leader epoch of this node: its appends, its lease, when to pause, and when to step down.

A leader steps down when another node has claimed, when it has lost its lease, when its disk fails, or when the engine
has not answered for most of the time that the lease lives: soon another node may hold it. Deliveries are paused much
earlier, after 3 of these 12 seconds.

The engine answers if it stores what it is sent. An idle leader sends nothing but the renewals of its lease, so these
are frequent: each is a write that takes a majority of the engine's servers. An answer counts from the time of its
request: a leader that was stopped may find an old one when it continues.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from leveret.cluster.cell_stream import CellStream, read_log
from leveret.cluster.engine import Engine, EngineConnection, EngineUnavailable, end
from leveret.cluster.lease import Lease, LeaseHolder
from leveret.cluster.log_append import LogAppender
from leveret.cluster.log_faults import LogFault
from leveret.cluster.log_tail import check_log
from leveret.errors import ClusterError
from leveret.logs import LogInterval, get_log
from leveret.replication.append_window import AppendWindow
from leveret.replication.claims import Claim, Position
from leveret.replication.journal_replicator import JournalReplicator, ReplicatedBatch

PAUSE = 0.2
LOOK_EVERY = 0.25
CHECK_LOG_EVERY = 3.0
RELEASES = 3  # attempts
BETWEEN_LINES = 5.0  # seconds between two log lines about a lease that is not renewed


class PausableDeliveries(Protocol):
    """The deliveries of the leader's broker, also while it is starting. Times are those of the event loop."""

    def pause(self, reason: str) -> None:
        """Deliver nothing, and block publishers, until ``resume``. May be called again."""

    def resume(self, until: float) -> None:
        """Deliver, and pause at ``until`` unless this is called again before. Called several times per second."""


class LeaderNode(PausableDeliveries, Protocol):
    """The broker that runs while this node leads. It owns the data directory between ``start`` and the end of ``stop``.
    When ``replicator`` is stopped, it grants nothing more, and a ``start`` that waits for a grant ends soon."""

    async def start(self, replicator: JournalReplicator) -> None:
        """Recover, and serve clients; every batch of the journal goes through ``replicator``. Is never cancelled: a
        worker may be reading the data directory."""

    @property
    def checkpoint(self) -> int:
        """The newest checkpoint, by the number of the segment that follows; 0 if there is none."""

    def take_checkpoint(self) -> bool:
        """Begin a checkpoint now; False if there is little behind the last one."""

    async def stop(self) -> None:
        """Disconnect clients and release the data directory. The journal's last batch is the clean-shutdown record,
        unless the replicator is stopped."""


class Leadership:
    """``await run()`` until this node must step down; returns the reason. End it with ``step_down``, as a cancellation
    may reach it while it ends its own tasks: the lease would be renewed by a node that does not lead."""

    def __init__(
        self,
        engine: Engine,
        stream: CellStream,
        claim: Claim,
        lease: Lease,
        revision: int,
        deliveries: PausableDeliveries,
        address: tuple[str, int] = ("", 0),
    ) -> None:
        """``address``: of this node's cluster port."""
        self._engine = engine
        self._stream = stream
        self._lease = lease
        self.holder = LeaseHolder(claim.node, claim.life, claim.epoch, host=address[0], port=address[1])
        self._revision = revision
        self._renewed = asyncio.get_running_loop().time()  # when the last renewal that was answered was sent
        self._deliveries = deliveries
        self._appender = LogAppender[ReplicatedBatch](engine, stream, AppendWindow(stream.id, claim), self)
        self._over: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._connection: EngineConnection | None = None
        self._log_fault: LogFault | None = None  # found when the log was looked at last
        self._lines = LogInterval(BETWEEN_LINES)
        self._log = get_log("cluster").bind(cell=stream.cell, epoch=claim.epoch)
        self.has_failed = False  # the disk of this node: another one must lead
        self.replicator = JournalReplicator(self._appender, self._fail)

    async def run(self) -> str:
        jobs = (self._appender.run(), self._keep_lease(), self._watch(), self._watch_log())
        tasks = [asyncio.create_task(job) for job in jobs]
        try:
            futures: list[asyncio.Future[Any]] = [self._over, *tasks]
            await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done() and (problem := task.exception()) is not None:
                    self._log.error("internal error of the leader", reason=repr(problem))
                    self.step_down(f"internal error ({problem!r})")
            return await self._over
        finally:
            self.step_down("this node does not lead any more")
            for task in tasks:
                await end(task)
            await self._disconnect()

    def step_down(self, reason: str) -> None:
        """Grant nothing more."""
        self.replicator.stop(reason)
        if not self._over.done():
            self._over.set_result(reason)

    def _fail(self, reason: str) -> None:
        self.has_failed = True
        self.step_down(reason)

    async def _watch_log(self) -> None:
        """An idle leader appends nothing, and would not notice that the engine has lost the log."""
        while not self._over.done():
            await asyncio.sleep(CHECK_LOG_EVERY)
            await self.look_at_log()

    async def look_at_log(self) -> None:
        """Step down if the log is lost, found twice in a row: a server that has just become the leader of the stream
        may lack records for a moment."""
        connection, granted = self._connection, self.position.sequence  # before the log is read: it grows meanwhile
        if connection is None:
            return  # the lease is not renewed either
        try:
            check_log(await read_log(connection, self._stream), self._stream, granted)
            self._log_fault = None
        except EngineUnavailable:
            return  # the renewals of the lease find out
        except LogFault as problem:
            if self._log_fault is not None:
                self.step_down(str(problem))
            self._log_fault = problem

    # ---- from the appender

    def granted(self, tokens: list[ReplicatedBatch]) -> None:
        self.replicator.granted(tokens)

    def deposed(self, reason: str) -> None:
        self.step_down(reason)

    # ---- the lease

    async def _keep_lease(self) -> None:
        while not self._over.done():
            pause = PAUSE
            try:
                await self.renew()
                pause = self._lease.renew_every
            except EngineUnavailable as problem:
                if self._lines.is_due(asyncio.get_running_loop().time()):
                    self._log.warning("lease not renewed", reason=str(problem))
                await self._disconnect()
            except ClusterError as problem:
                self.step_down(str(problem))
            await asyncio.sleep(pause)

    async def renew(self) -> None:
        """Raises EngineUnavailable or ClusterError."""
        connection = self._connection or await self._engine.connect()
        begun = asyncio.get_running_loop().time()
        if self._connection is None:
            self._connection = connection
            # A renewal that was not answered may have been done: this finds out, and renews.
            revision = await self._lease.acquire(connection, self.holder)
        else:
            revision = await self._lease.renew(connection, self.holder, self._revision)
        if revision is None:
            await self._lost(connection)
        else:
            self._revision, self._renewed = revision, begun

    async def _lost(self, connection: EngineConnection) -> None:
        """The revision of the lease is another one: by another node, or by a renewal of this one that was not answered
        and is stored late."""
        held = await self._lease.read(connection)
        if held is not None and held.holder.life == self.holder.life:
            raise EngineUnavailable("an earlier renewal was stored late")
        self.step_down("the lease is over" if held is None else "another node has the lease")

    # ---- the engine

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._over.done():
            self.look(loop.time())
            await asyncio.sleep(min(LOOK_EVERY, self._lease.renew_every))

    def look(self, now: float) -> None:
        """Pause, resume or step down, by the time for which the engine has not answered."""
        answered, lease = self.answered_at, self._lease
        silent = now - answered
        if silent > lease.step_down_after:
            self.step_down(f"the engine has not answered for {silent:.0f} seconds")
        elif silent >= lease.pause_after:
            self._deliveries.pause("the replicated log does not answer")
        else:
            self._deliveries.resume(answered + lease.pause_after)

    @property
    def answered_at(self) -> float:
        """The engine has answered everything that was sent until then."""
        waiting = self._appender.waiting_since
        return self._renewed if waiting is None else min(self._renewed, waiting)

    # ---- the end

    @property
    def position(self) -> Position:
        """Of the last batch that was granted."""
        return self._appender.position

    @property
    def granted_bytes(self) -> int:
        return self._appender.granted_bytes

    async def release(self, successor: str = "") -> None:
        """After a clean stop: let another node take over at once."""
        try:
            connection = await self._engine.connect()
        except EngineUnavailable as problem:
            self._log.warning("lease not released", reason=str(problem))
            return
        try:
            for _ in range(RELEASES):
                held = await self._lease.read(connection)
                if held is None or held.holder.life != self.holder.life:
                    return
                # Not released: a renewal was under way when this node stopped to renew, and is stored now.
                if await self._lease.release(connection, self.holder, held.revision, successor):
                    return
            self._log.warning("lease not released", reason="its revision changes")
        except (EngineUnavailable, ClusterError) as problem:
            self._log.warning("lease not released", reason=str(problem))
        finally:
            await connection.close()

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()
