"""A node of a cell: it follows the log, takes over when there is no leader, leads, and follows again when deposed.

    follow      apply the log; look at the lease now and then, and when the link to the leader is lost
    take over   the leader has failed or has released the lease: acquire it, claim at the end of the log, wait until the
                claim is read
    lead        cut off what the log does not have, start the broker with a replicated journal
    step down   grant nothing more, stop the broker, follow from the last note

A lease that is over, or the watch (cluster/leader_watch.py), proves that the leader of the current epoch is dead. The
proof may be wrong, when a leader is stopped or cut off: the claim deposes that leader, and it grants nothing any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from leveret.cluster.cell_stream import CellStream
from leveret.cluster.checkpoint_copy import CheckpointCopy
from leveret.cluster.engine import Engine, EngineConnection, EngineUnavailable, end
from leveret.cluster.leader_watch import Beats, LeaderWatch
from leveret.cluster.leadership import LeaderNode, Leadership
from leveret.cluster.lease import TTL, Lease, LeaseHolder
from leveret.cluster.link import Frame, Peer
from leveret.cluster.log_append import append_claim
from leveret.cluster.log_faults import SnapshotNeeded
from leveret.cluster.members import Members, find_log
from leveret.cluster.snapshot_copy import SnapshotCopy
from leveret.cluster.standby import NOTE_EVERY, Standby
from leveret.cluster.status import TakeOver
from leveret.cluster.succession import Succession, choose_successor
from leveret.errors import ClusterError, DamagedJournal, LeveretError
from leveret.logs import LogInterval, get_log
from leveret.replication.claims import Candidate, Claim, Position, StaleProof
from leveret.replication.journal_replicator import JournalReplicator
from leveret.store.checkpoint import Checkpoint
from leveret.store.replica_note import ReplicaNote, keep_note

CLAIM_SECONDS = 2.0  # until an own claim must have been read
CLAIM_TRIES = 3  # with one lease
LOOK_FOR_LEADER = 0.1  # seconds between two reads of the lease, while there is no leader
CALM = 0.02  # seconds between two reads of the lease, at least
ENGINE_SECONDS = 60.0  # for the list of members
START_SECONDS = 5.0  # that a hand-over waits for the end of a take-over
CHECKPOINT_SECONDS = 5.0  # until the node that this one hands over to must have a new checkpoint
LOOK_FOR_CHECKPOINT = 0.02
BETWEEN_WAITS = 2.0  # seconds between two log lines of a standby that is not ready to take over
T = TypeVar("T")


class ClaimLost(Exception):
    """The own claim was stored late, and another node has claimed since: follow again, from before both."""


class Identity(NamedTuple):
    """``life`` is one run of this process: a random string. ``host`` and ``port``: of its cluster port."""

    node: str
    life: str
    host: str = ""
    port: int = 0


class CellMember:
    loaded: Checkpoint | None = None  # for the broker, when this node begins to lead: it may change it

    def __init__(
        self,
        engine: Engine,
        stream: CellStream,
        folder: Path,
        identity: Identity,
        new_node: Callable[[], LeaderNode],
        *,
        secret: bytes = b"",
        lease_seconds: int = TTL,
    ) -> None:
        self.leads = asyncio.Event()  # while this node leads and its broker has started
        self.claim: Claim | None = None  # of this node, while it leads
        self.leader: LeaseHolder | None = None  # the node that leads, as far as this node knows
        self.leadership: Leadership | None = None  # while this node leads
        self.take_over: TakeOver | None = None  # the last one of this node
        self.standby: Standby | None = None  # while this node follows
        peer = Peer(stream.cell, identity.node, secret)
        self.watch = LeaderWatch(peer, lambda: self.position, lambda: self._checkpoints.copied[1])
        self.beats = Beats(identity.life, self._describe)
        self._succession = Succession(identity.node, identity.life, self.watch)
        self._changed = asyncio.Event()  # the leader
        self._engine = engine
        self._stream = stream
        self._folder = folder
        self._identity = identity
        self._candidate = Candidate(stream.id, identity.node, identity.life)
        self._new_node = new_node
        self._members = Members(stream)
        self._lease = Lease(stream, lease_seconds)
        self.copy = SnapshotCopy(engine, self._lease, peer, folder, self._set_leader)
        self._checkpoints = CheckpointCopy(peer, self.watch, folder)
        self._node: LeaderNode | None = None  # while this node leads
        self._is_stopping = asyncio.Event()
        self._successor: asyncio.Future[str] | None = None  # while this node leads: to whom it hands over
        self._waits = LogInterval(BETWEEN_WAITS)
        self._accepts_damage = False  # in the journal of this node, when it leads the next time
        self._has_started = False  # the broker of the leader
        self._notes: ThreadPoolExecutor | None = None
        self._log = get_log("cluster").bind(cell=stream.cell, node=identity.node)

    async def run(self) -> None:
        """Until ``stop``. Raises ClusterError or StoreError when this node cannot be a member."""
        self._notes = ThreadPoolExecutor(1, "leveret-notes")  # one: a note that was cancelled ends before the next
        try:
            while not self._is_stopping.is_set():
                try:
                    won = await self._follow()
                    if won is not None:
                        await self._lead(*won)
                except ClaimLost as lost:
                    self._candidate.forget()
                    self._log.info("following again", reason=str(lost))
                except SnapshotNeeded as need:
                    await self._unless_stopped(self.copy.run(need))
                except DamagedJournal as problem:
                    await self._unless_stopped(self._replace_journal(problem))
        finally:
            self._notes.shutdown(wait=False)

    def stop(self) -> None:
        """End ``run`` in good order."""
        self._is_stopping.set()

    async def hand_over(self, node: str = "") -> str:
        """Stop leading, in favour of this node or of the one that is most advanced; returns its name. A node that is
        still taking over finishes that first. Raises ClusterError if there is none."""
        if self._successor is not None and not self._successor.done() and not self.leads.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self.leads.wait(), START_SECONDS)
        if self.leadership is None or self._successor is None or not self.leads.is_set():
            raise ClusterError("this node does not lead: ask the leader to hand over")
        now, batch = asyncio.get_running_loop().time(), self.leadership.position.batch
        successor = choose_successor(self.beats.reports, batch, node, now)
        if self._successor.done():
            raise ClusterError(f"this node is handing over to {self._successor.result()!r} already")
        self._successor.set_result(successor)
        return successor

    async def leader_change(self) -> None:
        """Until ``leader`` may be another one."""
        await self._changed.wait()

    def _set_leader(self, leader: LeaseHolder | None) -> None:
        self.leader = leader
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    @property
    def position(self) -> Position:
        """Up to where this node has the log, as far as it leads or follows."""
        if self.leadership is not None:
            return self.leadership.position
        return Position() if self.standby is None else self.standby.position

    def _describe(self) -> Frame:
        """For a beat."""
        checkpoint = 0 if self._node is None else self._node.checkpoint
        return {"leads": self.leadership is not None, "position": list(self.position), "checkpoint": checkpoint}

    # ---- follow

    async def _follow(self) -> tuple[Claim, int] | None:
        """Until this node has claimed; its claim and the revision of its lease. None: it is to stop."""
        log = await self._unless_stopped(find_log(self._engine, self._stream))
        if log is None:
            return None
        self._stream = log.stream
        standby = Standby(self._engine, log, self._folder, self._candidate)
        try:
            await standby.open()
        except BaseException:
            await standby.close(None)
            raise
        self.standby = standby
        jobs = [asyncio.create_task(job) for job in (standby.run(), self._take_over(standby), self._is_stopping.wait())]
        copying = asyncio.create_task(self._checkpoints.run(standby, lambda: self.leader))
        won: tuple[Claim, int] | None = None
        try:
            await asyncio.wait(jobs, return_when=asyncio.FIRST_COMPLETED)
            if jobs[0].done():
                jobs[0].result()  # raises: this node cannot follow
            if jobs[1].done():
                won = jobs[1].result()  # type: ignore[assignment]
            return won
        finally:
            for job in (*jobs, copying):
                await end(job)
            self.watch.close()
            self.standby = None
            await standby.close(None if won is None else won[0])
            self.loaded = None if won is None else standby.loaded

    async def _unless_stopped(self, work: Coroutine[Any, Any, T]) -> T | None:
        """The result, or None when this node is to stop."""
        task, stopping = asyncio.create_task(work), asyncio.create_task(self._is_stopping.wait())
        try:
            await asyncio.wait((task, stopping), return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            await end(task)
            await end(stopping)

    async def _take_over(self, standby: Standby) -> tuple[Claim, int]:
        while True:
            try:
                connection = await self._engine.connect()
                try:
                    while True:
                        if (won := await self._look(connection, standby)) is not None:
                            return won
                        await self._pause()
                finally:
                    await connection.close()
            except EngineUnavailable as problem:
                self._log.info("the lease cannot be read", reason=str(problem))
                await asyncio.sleep(self._lease.look_every)

    async def _pause(self) -> None:
        """Until the lease should be read again."""
        seconds = self._lease.look_every if self.leader is not None else LOOK_FOR_LEADER
        with suppress(TimeoutError):
            await asyncio.wait_for(self.watch.wake.wait(), seconds)
            await asyncio.sleep(CALM)  # at most so often
        self.watch.wake.clear()

    async def _look(self, connection: EngineConnection, standby: Standby) -> tuple[Claim, int] | None:
        held = await self._lease.read(connection)
        self.watch.look(held)
        is_gone = held is None or held.holder.is_released or self.watch.is_dead(held)
        self._set_leader(None if held is None or is_gone else held.holder)
        if standby.is_caught_up:
            self.copy.has_copied = False
        now = asyncio.get_running_loop().time()
        if standby.won.done() and standby.won.result().epoch != standby.position.epoch:
            raise ClaimLost(f"epoch {standby.won.result().epoch} of this node is over before it has led")
        if not self._succession.may_lead(held, standby.position.epoch, now):
            return None
        if not standby.may_claim:
            if self._waits.is_due(now):
                self._log.info("not taking over yet: the log is not read to its end", behind=standby.behind)
            return None
        return await self._try(connection, standby, "" if held is None else held.holder.life)

    async def _try(self, connection: EngineConnection, standby: Standby, dead_life: str) -> tuple[Claim, int] | None:
        """Acquire the lease, and claim; None if another node leads."""
        dead = standby.position.epoch
        holder = LeaseHolder(*self._identity[:2], dead + 1, host=self._identity.host, port=self._identity.port)
        revision = await self._lease.acquire(connection, holder, dead_life)
        if revision is None:
            return None
        await self._members.follow(connection, self._stream.log)
        if standby.won.done():  # a claim of an earlier attempt, stored late
            return standby.won.result(), revision
        for _ in range(CLAIM_TRIES):
            if not standby.won.done():  # else an earlier claim was stored late: one more would depose this node
                try:
                    attempt = self._candidate.attempt(standby.position, dead, standby.has_base)
                except StaleProof:  # another node has claimed: it is alive
                    await self._lease.release(connection, holder, revision)
                    return None
                await append_claim(connection, self._stream, attempt)
            try:
                async with asyncio.timeout(CLAIM_SECONDS):
                    claim = await asyncio.shield(standby.won)
            except TimeoutError:
                continue
            self._log.info("claimed", epoch=claim.epoch, record=claim.sequence)
            return claim, revision
        await self._lease.release(connection, holder, revision)  # others may read more of the log
        self._succession.stepped_down(asyncio.get_running_loop().time())
        raise EngineUnavailable("the claim is not in the log")

    # ---- lead

    async def _lead(self, claim: Claim, revision: int) -> None:
        self._node = node = self._new_node()
        leadership = Leadership(self._engine, self._stream, claim, self._lease, revision, node, self._identity[2:])
        leadership.replicator.accepts_damage = self._accepts_damage or claim.has_base
        self.leadership, self._successor = leadership, asyncio.get_running_loop().create_future()
        running = asyncio.create_task(leadership.run())
        notes = asyncio.create_task(self._note(leadership.replicator))
        stopping = asyncio.create_task(self._is_stopping.wait())
        try:
            await self._start(node, leadership, claim)
            await asyncio.wait((running, stopping, self._successor), return_when=asyncio.FIRST_COMPLETED)
            if self._successor.done() and node.take_checkpoint():
                await self._send_checkpoint(node, self._successor.result(), running)
        finally:
            self.leads.clear()
            self.claim = None
            successor = self._successor.result() if self._successor.done() else ""
            await end(notes)
            is_deposed = running.done()
            if is_deposed:
                self._log.warning("stepping down", reason=str(running.exception() or running.result()))
            else:
                self._log.info("stepping down", reason=f"hand-over to {successor}" if successor else "this node stops")
            try:
                if self._has_started:
                    await node.stop()
            finally:  # whatever happens: a node that does not lead must not renew its lease
                leadership.step_down("this node does not lead any more")
                await asyncio.wait((running,))
                await end(stopping)
                await self._step_down(leadership, successor, is_deposed)
        if leadership.replicator.damage is not None:
            raise DamagedJournal(leadership.replicator.damage)

    async def _send_checkpoint(self, node: LeaderNode, successor: str, running: asyncio.Task[str]) -> None:
        """Until the successor has copied the checkpoint that was begun. It only saves time: do not wait for long."""
        before, deadline = node.checkpoint, asyncio.get_running_loop().time() + CHECKPOINT_SECONDS
        while node.checkpoint == before or self.beats.reports[successor].checkpoint < node.checkpoint:
            if running.done() or asyncio.get_running_loop().time() > deadline:
                return
            await asyncio.sleep(LOOK_FOR_CHECKPOINT)

    async def _step_down(self, leadership: Leadership, successor: str, is_deposed: bool) -> None:
        if not is_deposed or leadership.has_failed:
            await leadership.release(successor)
        self.leadership = self._successor = self._node = None
        self._set_leader(None)
        self._succession.stepped_down(asyncio.get_running_loop().time(), is_unfit=leadership.has_failed)
        self.beats.send_now()
        await self._write_note(leadership.replicator)

    async def _start(self, node: LeaderNode, leadership: Leadership, claim: Claim) -> None:
        self._has_started = False
        try:
            await node.start(leadership.replicator)
        except DamagedJournal:
            raise
        except LeveretError as problem:
            if not leadership.replicator.is_stopped:
                raise
            self._log.info("leadership lost before the broker had started", reason=str(problem))
            return
        self._has_started, self._accepts_damage = True, False
        if not leadership.replicator.is_stopped:
            self.claim = claim
            self.take_over = self._succession.taken_over(claim, asyncio.get_running_loop().time())
            self.leads.set()
            self._set_leader(leadership.holder)
            self._log.info("leading", epoch=claim.epoch)

    async def _replace_journal(self, problem: DamagedJournal) -> None:
        """Copy it from another member. What is damaged there as well is left out, and so is all damage if this node is
        the only member."""
        self._log.error("this node cannot lead", reason=str(problem))
        members = await self._engine.perform(self._members.all, ENGINE_SECONDS)
        if any(member.node != self._identity.node for member in members):
            await self.copy.run(SnapshotNeeded(str(problem)))
        self._accepts_damage = True

    async def _note(self, replicator: JournalReplicator) -> None:
        """The leader's directory follows the log too: note up to where, for a start after a crash."""
        while True:
            await asyncio.sleep(NOTE_EVERY)
            await self._write_note(replicator)

    async def keep_note(self) -> None:
        """Note the position of the leader now."""
        if self.leadership is not None:
            await self._write_note(self.leadership.replicator)

    async def _write_note(self, replicator: JournalReplicator) -> None:
        applied = replicator.applied
        if applied is None:
            return
        note = ReplicaNote(self._stream.cell, *applied.position, *applied.end, self._stream.log)
        try:
            await asyncio.get_running_loop().run_in_executor(self._notes, keep_note, self._folder, note)
        except OSError as problem:  # an older note only means that more of the log is applied again
            self._log.warning("position in the replicated log not noted", reason=str(problem))
