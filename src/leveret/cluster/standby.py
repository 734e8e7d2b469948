"""A member that follows: what the log completes is applied to the data directory, in a worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from leveret.cluster.cell_stream import CellStream
from leveret.cluster.engine import Engine
from leveret.cluster.log_tail import LogTail
from leveret.errors import ClusterError
from leveret.replication.batches import decode_batch
from leveret.replication.claims import Candidate, Claim, Position
from leveret.replication.log_reader import Completed, LogReader
from leveret.store.replica import Replica

NOTE_EVERY = 1.0  # seconds

T = TypeVar("T")


class Standby:
    """``open``, then ``run`` until the own claim is in the log (``won``), then ``close``."""

    def __init__(self, engine: Engine, stream: CellStream, folder: Path, candidate: Candidate) -> None:
        self.won: asyncio.Future[Claim] = asyncio.get_running_loop().create_future()
        self._engine = engine
        self._stream = stream
        self._candidate = candidate
        self._replica = Replica(folder, stream.cell)
        self._tail: LogTail | None = None
        self._noted_at = 0.0
        self._worker = ThreadPoolExecutor(1, "leveret-replica")  # one: a job that was cancelled ends before the next

    async def open(self) -> None:
        note = await self._in_worker(self._replica.open)
        reader = LogReader(self._stream.id, Position(note.sequence, note.epoch, note.batch))
        self._tail = LogTail(self._engine, self._stream, reader, self)

    @property
    def position(self) -> Position:
        assert self._tail is not None
        return self._tail.reader.position

    @property
    def is_caught_up(self) -> bool:
        """Whether everything was applied that the delivering server has. It may be behind the others: a claim succeeds
        only at the end of the log."""
        return self._tail is not None and self._tail.behind == 0

    async def run(self) -> None:
        """Raises ClusterError or StoreError when this node cannot follow."""
        assert self._tail is not None
        await self._tail.run()

    # ---- from the tail

    async def claimed(self, claim: Claim) -> None:
        if self._candidate.has_won(claim) and not self.won.done():
            self.won.set_result(claim)

    async def completed(self, batch: Completed) -> None:
        if self.won.done():
            return  # of a later leader: read again after this node has been deposed
        try:
            await self._in_worker(partial(self._replica.apply, *decode_batch(batch.body)))
            if asyncio.get_running_loop().time() - self._noted_at > NOTE_EVERY:
                self._noted_at = asyncio.get_running_loop().time()
                await self._in_worker(partial(self._replica.keep, *batch.position))
        except OSError as problem:
            raise ClusterError(
                f"this node cannot apply batch {batch.position.batch} of the replicated log ({problem}): free space on "
                "its disk, and start it again"
            ) from problem

    async def close(self, claim: Claim | None) -> None:
        """Release the data directory. With a claim, it is ready for the leader: it ends where the log ends."""
        if claim is not None:
            await self._in_worker(self._replica.cut)
            await self._in_worker(partial(self._replica.keep, claim.sequence, claim.epoch, claim.batch - 1))
        await self._in_worker(self._replica.close)
        self._worker.shutdown(wait=False)

    async def _in_worker(self, job: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._worker, job)
