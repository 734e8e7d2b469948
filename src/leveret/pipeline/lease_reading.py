"""The messages of a lease, or of one slice of it, read from the journal in order: all of them, or an error."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence

from leveret.broker.leases import Lease
from leveret.management.errors import Gone
from leveret.pipeline.arrow_batches import Rows
from leveret.pipeline.arrow_schema import MOST_ROWS
from leveret.queues.classic import ClassicQueue
from leveret.queues.leasing import LeasedRun
from leveret.store.pages import Loaded

READ_BYTES = 2 << 20
SMALL_GAP = 64  # sequences: reading so many in vain is cheaper than reading twice
MOST_APART = 8_192  # sequences of one read that has gaps


def slice_of(runs: Sequence[LeasedRun], number: int, index: int, of: int) -> Iterator[LeasedRun]:
    """The part ``index`` of ``of`` parts of so many messages: contiguous, and as large as the others or one larger."""
    start, stop = number * index // of, number * (index + 1) // of
    at = 0
    for run in runs:
        first, end = max(at, start), min(at + run.number, stop)
        if first < end:
            yield run._replace(sequence=run.sequence + first - at, number=end - first)
        at += run.number


async def rows_of(lease: Lease, runs: Iterable[LeasedRun], partition: int) -> AsyncIterator[Rows]:
    """Bounded pieces; nothing is read before the one before it was asked for."""
    queue, left = lease.queue, deque(runs)
    while left:
        lane, first, stop = left[0].lane, left[0].sequence, _read_stop(left)
        loaded = await _read(queue, lane, first, stop)
        reached = loaded[-1].sequence + 1 if loaded else first
        offsets: list[int] = []
        again: list[bool] = []
        for run in _below(left, lane, reached):
            offsets += range(run.sequence, run.sequence + run.number)
            again += [run.redelivered] * run.number
        if len(offsets) < len(loaded):
            wanted = set(offsets)
            loaded = [each for each in loaded if each.sequence in wanted]
        if not offsets or offsets != [each.sequence for each in loaded]:
            raise _lost(lease)
        for at in range(0, len(offsets), MOST_ROWS):
            some = slice(at, at + MOST_ROWS)
            times = [int(each.time * 1e6) for each in loaded[some]]
            messages = [each.message for each in loaded[some]]
            yield Rows(queue.name, partition, offsets[some], again[some], times, messages)


def _read_stop(left: deque[LeasedRun]) -> int:
    """Where the read that begins with the first run may end: runs that lie close together are read at once."""
    lane, first = left[0].lane, left[0].sequence
    stop = first
    for run in left:
        if run.lane != lane or not 0 <= run.sequence - stop <= SMALL_GAP or stop - first > MOST_APART:
            break
        stop = run.sequence + run.number
    return stop


def _below(left: deque[LeasedRun], lane: int, stop: int) -> Iterator[LeasedRun]:
    """Take off what was read."""
    while left and left[0].lane == lane and left[0].sequence < stop:
        run = left.popleft()
        number = min(run.number, stop - run.sequence)
        yield run._replace(number=number)
        if number < run.number:
            left.appendleft(run._replace(sequence=run.sequence + number, number=run.number - number))


async def _read(queue: ClassicQueue, lane: int, first: int, stop: int) -> list[Loaded]:
    if not queue.alive or queue.pager is None:
        return []
    answer: asyncio.Future[list[Loaded]] = asyncio.get_running_loop().create_future()

    def done(loaded: list[Loaded]) -> None:
        if not answer.done():
            answer.set_result(loaded)

    queue.pager.pages.load(queue.id, lane, first, stop, READ_BYTES, done)
    return await answer


def _lost(lease: Lease) -> Gone:
    queue = lease.queue
    return Gone(
        f"messages of lease {lease.number} of consumer '{lease.consumer}' on queue '{queue.name}' in vhost "
        f"'{queue.vhost}' are gone: it was committed or released meanwhile, or the disk is damaged (the log tells); "
        "release it to have what is left leased again"
    )
