"""A member that follows: what the log completes is applied to the data directory, in a worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from leveret.cluster.cell_stream import LogFacts
from leveret.cluster.engine import Engine
from leveret.cluster.log_faults import REFOUND, OtherLog, SnapshotNeeded
from leveret.cluster.log_tail import LogTail, check_log
from leveret.errors import ClusterError, StoreError
from leveret.replication.batches import decode_batch
from leveret.replication.claims import Candidate, Claim, Position
from leveret.replication.log_reader import Completed, LogReader
from leveret.store.checkpoint import Checkpoint
from leveret.store.replica import Replica

NOTE_EVERY = 1.0  # seconds

T = TypeVar("T")


class Standby:
    """``open``, then ``run`` until the own claim is in the log (``won``), then ``close``."""

    def __init__(self, engine: Engine, log: LogFacts, folder: Path, candidate: Candidate) -> None:
        """``log``: as the engine has it now."""
        self.won: asyncio.Future[Claim] = asyncio.get_running_loop().create_future()
        self.has_base = False  # the log begins with this directory: the first claim is this node's
        self._engine = engine
        self._log = log
        self._folder = folder
        self._candidate = candidate
        self._replica = Replica(folder, log.stream.cell)
        self._is_blank = False
        self._tail: LogTail | None = None
        self._noted_at = 0.0
        self._worker = ThreadPoolExecutor(1, "leveret-replica")  # one: a job that was cancelled ends before the next

    async def open(self) -> None:
        """Raises LogFault or SnapshotNeeded if the data directory cannot follow this log, and StoreError if it cannot
        be used. ``close`` follows in any case."""
        stream, founder = self._log.stream, self._log.founding.founder
        is_founder = self._log.is_empty and founder in ("", self._candidate.node)
        note = await self._in_worker(partial(self._replica.open, may_found=is_founder))
        self._is_blank = note.is_blank
        if note.log not in ("", stream.log):
            self._check_founding(note.log, is_founder)
            note = note._replace(is_base=True, log="")
        if note.is_base and not note.log:
            note = await self._in_worker(partial(self._replica.found, stream.log, self._log.founding.epoch))
        check_log(self._log, stream, note.sequence)
        self._replica.follow(stream.log)
        self.has_base = note.is_base
        reader = LogReader(stream.id, Position(note.sequence, note.epoch, note.batch))
        self._tail = LogTail(self._engine, stream, reader, self)

    def _check_founding(self, log: str, is_founder: bool) -> None:
        """The data directory belongs to another log. Only the founder of one that continues it may go on."""
        if not self._log.continues(log):
            raise OtherLog(
                f"the log of the cell is {self._log.stream.log}, but data directory {self._folder} belongs to {log}: "
                f"start the NATS servers with the data directories that they had, or {REFOUND}. To drop this node's "
                "data and join the cell as it is now, choose an empty directory with --data-dir"
            )
        if not is_founder:
            raise SnapshotNeeded(f"the cell was founded again, its log is {self._log.stream.log}")

    @property
    def position(self) -> Position:
        assert self._tail is not None
        return self._tail.reader.position

    @property
    def is_caught_up(self) -> bool:
        """Whether everything was applied that the delivering server has. It may be behind the others: a claim succeeds
        only at the end of the log."""
        return self._tail is not None and self._tail.behind == 0

    @property
    def behind(self) -> int | None:
        """Records to apply; None while nothing is read."""
        return None if self._tail is None else self._tail.behind

    @property
    def may_claim(self) -> bool:
        """Not while an empty log waits for its founder."""
        return self.is_caught_up and (self.has_base or self.position.epoch > 0 or not self._log.founding.founder)

    async def run(self) -> None:
        """Raises ClusterError or StoreError when this node cannot follow."""
        assert self._tail is not None
        await self._tail.run()

    async def install_checkpoint(self, epoch: int, following: int, data: bytes | Path) -> bool:
        """Keep the checkpoint that the leader of this epoch has written in front of the segment ``following``: its
        bytes or a file, which stays. Whether it is taken; not if another node leads meanwhile."""
        if self.won.done():
            return False
        return await self._in_worker(partial(self._replica.install_checkpoint, epoch, following, data))

    @property
    def loaded(self) -> Checkpoint | None:
        """The newest checkpoint, if it is in memory: for the broker of this node, after ``close``."""
        return self._replica.loaded

    # ---- from the tail

    async def claimed(self, claim: Claim) -> None:
        if claim.has_base and self._is_blank:
            raise SnapshotNeeded(f"the log begins with the data of node {claim.node}")
        if self.has_base and claim.node != self._candidate.node:
            await self._in_worker(self._replica.leave)
            raise StoreError(
                f"node {claim.node} has founded the cell, and the data directory {self._folder} has other data: choose "
                "an empty one with --data-dir, the node will copy the cell's data"
            )
        self.has_base = False
        if self.won.done():  # by a claim that is over now, and under which this node has appended nothing
            self.won = asyncio.get_running_loop().create_future()
        if self._candidate.has_won(claim):
            self.won.set_result(claim)
        else:
            await self._in_worker(partial(self._replica.claimed, claim.epoch))
            await self._keep(self.position)  # at once: a new log begins with the member that has the highest epoch

    async def completed(self, batch: Completed) -> None:
        if self.won.done():
            return  # void, or of an epoch that this node begins to lead
        try:
            await self._in_worker(partial(self._replica.apply, *decode_batch(batch.body)))
        except OSError as problem:
            raise ClusterError(
                f"this node cannot apply batch {batch.position.batch} of the replicated log ({problem}): free space on "
                "its disk, and start it again"
            ) from problem
        if asyncio.get_running_loop().time() - self._noted_at > NOTE_EVERY:
            await self._keep(batch.position)

    async def _keep(self, position: Position) -> None:
        self._noted_at = asyncio.get_running_loop().time()
        try:
            await self._in_worker(partial(self._replica.keep, *position))
        except OSError as problem:
            raise ClusterError(
                f"this node cannot note its position in the replicated log ({problem}): free space on its disk, and "
                "start it again"
            ) from problem

    async def close(self, claim: Claim | None) -> None:
        """Release the data directory, also after ``open`` has failed. With a claim, it is ready for the leader: it ends
        where the log ends."""
        try:
            if claim is not None:
                await self._in_worker(self._replica.cut)
                await self._in_worker(partial(self._replica.keep, claim.sequence, claim.epoch, claim.batch - 1))
        finally:
            await self._in_worker(self._replica.close)
            self._worker.shutdown(wait=False)

    async def _in_worker(self, job: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._worker, job)
