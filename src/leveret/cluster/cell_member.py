"""A node of a cell: it follows the log, takes over when there is no leader, leads, and follows again when deposed.

    follow      apply the log; look at the lease now and then
    take over   the lease is free: acquire it, claim at the end of the log, wait until the claim is read
    lead        cut off what the log does not have, start the broker with a replicated journal
    step down   grant nothing more, stop the broker, follow from the last note

The lease is the proof that the leader of the current epoch is dead. It may be wrong, when a leader is stopped or cut
off for longer than its lease: the claim deposes that leader, and it grants nothing any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, Protocol

from leveret.cluster.cell_stream import CellStream
from leveret.cluster.engine import Engine, EngineConnection, EngineUnavailable, end
from leveret.cluster.leadership import Leadership
from leveret.cluster.lease import TTL, Lease, LeaseHolder
from leveret.cluster.log_append import append_claim
from leveret.cluster.standby import NOTE_EVERY, Standby
from leveret.errors import LeveretError
from leveret.logs import get_log
from leveret.replication.claims import Candidate, Claim, StaleProof
from leveret.replication.journal_replicator import JournalReplicator
from leveret.store.replica_note import ReplicaNote, keep_note

CLAIM_SECONDS = 2.0  # until an own claim must have been read
CLAIM_TRIES = 3  # with one lease


class LeaderNode(Protocol):
    """The broker that runs while this node leads. It owns the data directory between ``start`` and the end of ``stop``.
    When ``replicator`` is stopped, it grants nothing more, and a ``start`` that waits for a grant ends soon."""

    async def start(self, replicator: JournalReplicator) -> None:
        """Recover, and serve clients; every batch of the journal goes through ``replicator``. Is never cancelled: a
        worker may be reading the data directory."""

    async def stop(self) -> None:
        """Disconnect clients and release the data directory. The journal's last batch is the clean-shutdown record,
        unless the replicator is stopped."""


class Identity(NamedTuple):
    """``life`` is one run of this process: a random string."""

    node: str
    life: str


class CellMember:
    def __init__(
        self,
        engine: Engine,
        stream: CellStream,
        folder: Path,
        identity: Identity,
        new_node: Callable[[], LeaderNode],
        *,
        lease_seconds: int = TTL,
    ) -> None:
        self.leads = asyncio.Event()  # while this node leads and its broker has started
        self.claim: Claim | None = None  # of this node, while it leads
        self._engine = engine
        self._stream = stream
        self._folder = folder
        self._identity = identity
        self._candidate = Candidate(stream.id, identity.node, identity.life)
        self._new_node = new_node
        self._lease = Lease(stream, lease_seconds)
        self._is_stopping = asyncio.Event()
        self._has_started = False  # the broker of the leader
        self._notes = ThreadPoolExecutor(1, "leveret-notes")  # one: a note that was cancelled ends before the next
        self._log = get_log("cluster").bind(cell=stream.cell, node=identity.node)

    async def run(self) -> None:
        """Until ``stop``. Raises ClusterError or StoreError when this node cannot be a member."""
        try:
            while not self._is_stopping.is_set():
                won = await self._follow()
                if won is not None:
                    await self._lead(*won)
        finally:
            self._notes.shutdown(wait=False)

    def stop(self) -> None:
        """End ``run`` in good order."""
        self._is_stopping.set()

    # ---- follow

    async def _follow(self) -> tuple[Claim, int] | None:
        """Until this node has claimed; its claim and the revision of its lease. None: it is to stop."""
        standby = Standby(self._engine, self._stream, self._folder, self._candidate)
        await standby.open()
        jobs = [asyncio.create_task(job) for job in (standby.run(), self._take_over(standby), self._is_stopping.wait())]
        won: tuple[Claim, int] | None = None
        try:
            await asyncio.wait(jobs, return_when=asyncio.FIRST_COMPLETED)
            if jobs[0].done():
                jobs[0].result()  # raises: this node cannot follow
            if jobs[1].done():
                won = jobs[1].result()  # type: ignore[assignment]
            return won
        finally:
            for job in jobs:
                await end(job)
            await standby.close(None if won is None else won[0])

    async def _take_over(self, standby: Standby) -> tuple[Claim, int]:
        while True:
            try:
                connection = await self._engine.connect()
                try:
                    while True:
                        if standby.is_caught_up and (won := await self._try(connection, standby)) is not None:
                            return won
                        await asyncio.sleep(self._lease.look_every)
                finally:
                    await connection.close()
            except EngineUnavailable as problem:
                self._log.info("the lease cannot be read", reason=str(problem))
                await asyncio.sleep(self._lease.look_every)

    async def _try(self, connection: EngineConnection, standby: Standby) -> tuple[Claim, int] | None:
        """Acquire the lease, and claim; None if another node leads."""
        dead = standby.position.epoch
        holder = LeaseHolder(self._identity.node, self._identity.life, dead + 1)
        revision = await self._lease.acquire(connection, holder)
        if revision is None:
            return None
        for _ in range(CLAIM_TRIES):
            try:
                attempt = self._candidate.attempt(standby.position, dead)
            except StaleProof:
                if not standby.won.done():  # another node has claimed: it is alive
                    await self._lease.release(connection, holder, revision)
                    return None
            else:
                await append_claim(connection, self._stream, attempt)
            try:
                async with asyncio.timeout(CLAIM_SECONDS):
                    claim = await asyncio.shield(standby.won)
            except TimeoutError:
                continue
            self._log.info("claimed", epoch=claim.epoch, record=claim.sequence)
            return claim, revision
        raise EngineUnavailable("the claim is not in the log")

    # ---- lead

    async def _lead(self, claim: Claim, revision: int) -> None:
        leadership = Leadership(self._engine, self._stream, claim, self._lease, revision)
        node = self._new_node()
        running = asyncio.create_task(leadership.run())
        notes = asyncio.create_task(self._note(leadership.replicator))
        stopping = asyncio.create_task(self._is_stopping.wait())
        try:
            await self._start(node, leadership, claim)
            await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.leads.clear()
            self.claim = None
            await end(notes)
            is_deposed = running.done()
            if is_deposed:
                reason = running.result() if running.exception() is None else repr(running.exception())
                self._log.warning("stepping down", reason=reason)
            if self._has_started:
                await node.stop()
            await end(running)
            await end(stopping)
            if not is_deposed:
                await leadership.release()
            await self._write_note(leadership.replicator)

    async def _start(self, node: LeaderNode, leadership: Leadership, claim: Claim) -> None:
        self._has_started = False
        try:
            await node.start(leadership.replicator)
        except LeveretError as problem:
            if not leadership.replicator.is_stopped:
                raise
            self._log.info("deposed before the broker had started", reason=str(problem))
            return
        self._has_started = True
        if not leadership.replicator.is_stopped:
            self.claim = claim
            self.leads.set()
            self._log.info("leading", epoch=claim.epoch)

    async def _note(self, replicator: JournalReplicator) -> None:
        """The leader's directory follows the log too: note up to where, for a start after a crash."""
        while True:
            await asyncio.sleep(NOTE_EVERY)
            await self._write_note(replicator)

    async def _write_note(self, replicator: JournalReplicator) -> None:
        applied = replicator.applied
        if applied is None:
            return
        note = ReplicaNote(self._stream.cell, *applied.position, *applied.end)
        try:
            await asyncio.get_running_loop().run_in_executor(self._notes, keep_note, self._folder, note)
        except OSError as problem:  # an older note only means that more of the log is applied again
            self._log.warning("position in the replicated log not noted", reason=str(problem))
