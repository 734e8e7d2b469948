"""Messages that wait on disk only, and how they come back.

Persistent messages are in the journal anyway: to page one out is to forget it in memory. Transient ones are put into a
*spill*, files of the same records that nobody syncs and that are thrown away at the next start. Either way an index
tells where they lie, and they come back in batches, read and checked in a worker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from leveret.logs import get_log
from leveret.message import Message
from leveret.store.disk import Disk, ReadableDisk
from leveret.store.journal import Journal
from leveret.store.lane_log import lane_key
from leveret.store.records import HEAD_SIZE, Damage, read_publish, read_record, record_size
from leveret.store.run_block import Run
from leveret.store.run_index import RunIndex
from leveret.store.spill import Spill
from leveret.store.writer import segment_path

READ_AHEAD = 1 << 20
ATTEMPTS = 3  # a segment may be reclaimed while we go to read it: its messages lie elsewhere then

InWorker = Callable[[Callable[[], object], Callable[[object], None]], None]


class Loaded(NamedTuple):
    sequence: int
    message: Message
    time: float  # wall time of its publish


Done = Callable[[list[Loaded]], None]


class Pages(Protocol):
    """Where a queue puts messages that it does not want to hold in memory."""

    def synced(self, queue: int, lane: int) -> int:
        """Below this sequence persistent messages are on disk already."""

    def size_of(self, queue: int, lane: int, sequence: int) -> int | None:
        """Bytes of a message that is on disk; None if it is not."""

    def next_sequence(self, queue: int, lane: int, sequence: int) -> int | None:
        """The first message on disk from ``sequence`` on."""

    def load(self, queue: int, lane: int, sequence: int, stop: int, most_bytes: int, done: Done) -> None:
        """Bring back messages from ``sequence`` on, in order; ``done`` gets at least one if there is one."""

    def spill(
        self, queue: int, lane: int, messages: Sequence[tuple[int, Message]], done: Callable[[bool], None]
    ) -> None:
        """Put transient messages (with their sequences) on disk; ``done(True)`` once they are there."""

    def drop(self, queue: int, lane: int, sequence: int, number: int) -> None:
        """These were loaded, or will not be any more: transient ones need no room on disk."""

    def forget(self, queue: int) -> None:
        """The queue is gone."""

    def tries(self, queue: int, lane: int, sequence: int) -> int:
        """How often the message came back to its queue, as far as the journal knows."""


class DiskPages:
    def __init__(self, journal: Journal, disk: Disk, in_worker: InWorker) -> None:
        self._journal = journal
        self._disk = disk
        self._in_worker = in_worker
        self._spill = Spill(disk, in_worker)
        self._log = get_log("store")

    def synced(self, queue: int, lane: int) -> int:
        log = self._journal.lanes.get(lane_key(queue, lane))
        return 0 if log is None else log.synced

    def tries(self, queue: int, lane: int, sequence: int) -> int:
        log = self._journal.lanes.get(lane_key(queue, lane))
        return 0 if log is None else log.tries.get(sequence, 0)

    def _indexes(self, queue: int, lane: int) -> list[tuple[bool, RunIndex]]:
        found: list[tuple[bool, RunIndex]] = []
        log = self._journal.lanes.get(lane_key(queue, lane))
        if log is not None:
            found.append((False, log.index))
        spilled = self._spill.index_of(queue, lane)
        if spilled is not None:
            found.append((True, spilled))
        return found

    def size_of(self, queue: int, lane: int, sequence: int) -> int | None:
        for _, index in self._indexes(queue, lane):
            for run in index.live(sequence, 1):
                return run.size
        return None

    def next_sequence(self, queue: int, lane: int, sequence: int) -> int | None:
        firsts = [run.sequence for _, index in self._indexes(queue, lane) for run in index.read(sequence, 1, 1)]
        return min(firsts, default=None)

    def spill(
        self, queue: int, lane: int, messages: Sequence[tuple[int, Message]], done: Callable[[bool], None]
    ) -> None:
        self._spill.put(queue, lane, messages, self._journal.wall_ahead(), done)

    def drop(self, queue: int, lane: int, sequence: int, number: int) -> None:
        self._spill.drop(queue, lane, sequence, number)

    def forget(self, queue: int) -> None:
        self._spill.forget(queue)

    def load(self, queue: int, lane: int, sequence: int, stop: int, most_bytes: int, done: Done) -> None:
        self._load(queue, lane, sequence, stop, most_bytes, done, 1)

    def _load(self, queue: int, lane: int, sequence: int, stop: int, most_bytes: int, done: Done, attempt: int) -> None:
        runs = [
            (is_spilled, run)
            for is_spilled, index in self._indexes(queue, lane)
            for run in index.read(sequence, stop - sequence, most_bytes)
            if run.sequence < stop
        ]
        runs.sort(key=lambda pair: pair[1].sequence)
        if not all(is_spilled or self._journal.is_written(run.segment, run.offset) for is_spilled, run in runs):
            self._journal.when_written(  # reclaim has just given them another place
                lambda: self._load(queue, lane, sequence, stop, most_bytes, done, attempt)
            )
            return
        ahead = self._journal.wall_ahead()

        def got(result: object) -> None:
            if isinstance(result, Exception):
                if attempt < ATTEMPTS:
                    self._load(queue, lane, sequence, stop, most_bytes, done, attempt + 1)
                    return
                self._log.error("messages cannot be read back and are lost", queue=queue, reason=str(result))
                result = Batch([], [run for _, run in runs])
            assert isinstance(result, Batch)
            for run in result.lost:
                self._journal.settle(queue, lane, run.sequence, run.number)
                self._spill.drop(queue, lane, run.sequence, run.number)
            done(result.loaded)

        self._in_worker(lambda: fetch(self._disk, queue, lane, runs, ahead), got)


class Batch(NamedTuple):
    loaded: list[Loaded]
    lost: list[Run]  # could not be believed


def fetch(disk: ReadableDisk, queue: int, lane: int, runs: Sequence[tuple[bool, Run]], wall_ahead: float) -> Batch:
    """Read runs of messages, checked. Runs that lie next to each other are read at once."""
    window = _Window(disk)
    batch = Batch([], [])
    for is_spilled, run in runs:
        path = Spill.path(run.segment) if is_spilled else segment_path(run.segment)
        try:
            data, at = window.record(path, run.offset)
            published = read_publish(data, read_record(data, at, run.segment, window.base))
            place = next(
                place
                for place in published.places
                if (place.queue, place.lane, place.sequence + run.skip) == (queue, lane, run.sequence)
            )
        except (Damage, StopIteration) as problem:
            get_log("store").error(
                "a message on disk is damaged and lost", segment=run.segment, offset=run.offset, reason=str(problem)
            )
            batch.lost.append(run)
            continue
        members = published.members(place)[run.skip : run.skip + run.number]
        messages = published.messages(data, members, wall_ahead, not is_spilled)
        batch.loaded.extend(
            [Loaded(sequence, message, published.time) for sequence, message in enumerate(messages, run.sequence)]
        )
    return batch


class _Window:
    """A stretch of one file that was read ahead."""

    def __init__(self, disk: ReadableDisk) -> None:
        self._disk = disk
        self._path = ""
        self._data = b""
        self.base = 0  # the offset of data[0] in the file

    def record(self, path: str, offset: int) -> tuple[bytes, int]:
        """The data, and where in it the record at ``offset`` of the file begins; all of the record is in the data."""
        if path != self._path or not self._holds(offset):
            self._path, self.base = path, offset
            self._data = self._disk.read(path, offset, READ_AHEAD)
            if len(self._data) >= HEAD_SIZE and not self._holds(offset):
                self._data = self._disk.read(path, offset, record_size(self._data, 0))
        return self._data, offset - self.base

    def _holds(self, offset: int) -> bool:
        at = offset - self.base
        return 0 <= at <= len(self._data) - HEAD_SIZE and at + record_size(self._data, at) <= len(self._data)
