"""The messages of a lease, or of one slice of it, read from the journal in order. Missing ones are an error."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from typing import NamedTuple

from leveret.backlog.lease_builder import LeasedRun
from leveret.broker.leases import Lease
from leveret.http.awaited import awaited
from leveret.http.errors import Gone
from leveret.pipeline.arrow_batches import Job
from leveret.queues.declared_queue import DeclaredQueue
from leveret.store.pages import LoadedRun

READ_BYTES = 2 << 20
SMALL_GAP = 64  # sequences: reading these unnecessarily is cheaper than a second read
MOST_APART = 8_192  # sequences of one read that has gaps


class Part(NamedTuple):
    """The leased part of a run that was read."""

    run: LoadedRun
    first: int
    stop: int
    redelivered: bool


def slice_of(runs: Sequence[LeasedRun], number: int, index: int, of: int) -> Iterator[LeasedRun]:
    """Slice ``index`` of ``of`` slices of ``number`` messages: contiguous, with sizes that differ by one at most."""
    start, stop = number * index // of, number * (index + 1) // of
    at = 0
    for run in runs:
        first, end = max(at, start), min(at + run.number, stop)
        if first < end:
            yield run._replace(sequence=run.sequence + first - at, number=end - first)
        at += run.number


async def jobs_of_lease(
    lease: Lease, runs: Iterable[LeasedRun], partition: int, columns: Sequence[str]
) -> AsyncGenerator[Job]:
    """Each job makes record batches of a bounded piece, which is read only when the job is requested."""
    left, queue = deque(runs), lease.queue
    while left:
        lane, first, stop = left[0].lane, left[0].sequence, _read_stop(left)
        parts = list(_leased(left, lane, await _read(queue, lane, first, stop)))
        if not parts:
            raise _lost(lease)

        def job(parts: list[Part] = parts) -> Sequence[object]:
            from leveret.pipeline.arrow_leases import batches_of

            return batches_of(parts, queue.name, partition, columns)

        yield job


def _read_stop(left: deque[LeasedRun]) -> int:
    """The end of a read that starts with the first run: runs that are close together are read at once."""
    lane, first = left[0].lane, left[0].sequence
    stop = first
    for run in left:
        if run.lane != lane or not 0 <= run.sequence - stop <= SMALL_GAP or stop - first > MOST_APART:
            break
        stop = run.sequence + run.number
    return stop


def _leased(left: deque[LeasedRun], lane: int, loaded: Sequence[LoadedRun]) -> Iterator[Part]:
    """Remove what was read from ``left``, up to the first message that is missing."""
    for read in loaded:
        stop = read.sequence + len(read.starts)
        while left and left[0].lane == lane and left[0].sequence < stop:
            run = left[0]
            if run.sequence < read.sequence:
                return
            left.popleft()
            end = min(run.sequence + run.number, stop)
            yield Part(read, run.sequence - read.sequence, end - read.sequence, run.redelivered)
            if end < run.sequence + run.number:
                left.appendleft(run._replace(sequence=end, number=run.sequence + run.number - end))


async def _read(queue: DeclaredQueue, lane: int, first: int, stop: int) -> list[LoadedRun]:
    pager = None if queue.backlog is None else queue.backlog.pager
    if not queue.alive or pager is None:
        return []
    pages = pager.pages
    return await awaited(lambda done: pages.load_runs(queue.id, lane, first, stop, READ_BYTES, done))


def _lost(lease: Lease) -> Gone:
    queue = lease.queue
    return Gone(
        f"messages of lease {lease.number} of consumer '{lease.consumer}' on queue '{queue.name}' in vhost "
        f"'{queue.vhost}' no longer exist: it was committed or released, or the disk is damaged (see the log); "
        "release it to lease the remaining messages again"
    )
