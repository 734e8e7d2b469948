"""The leader's journal and the replicated log, side by side.

Batches go to the log in the order of the journal; those that wait while the log is busy are packed into one record.
The local writer gets them when they go to the log, so that its sync runs beside the engine's. Two kinds of batches
wait for the log first, and with them all that follow: those that change definitions, and those that remove segments.
Neither could be undone if the log did not take them, while a write that the log did not take is only a tail to be cut
off.

A batch is done when the local writer and the log have both done it, and everything before it.

The files of streams are written after that. The note of the data directory must not claim more of the log than these
files have, because a member that follows writes them only from the batches behind its note. So ``applied`` is a
position up to which the files of all streams are synced.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from leveret.errors import ClusterError
from leveret.replication.batches import SegmentEnd, encode_batches
from leveret.replication.claims import Position
from leveret.replication.records import PART_SIZE
from leveret.store.batch import Batch
from leveret.store.replicator import LocalWriter, StreamProgress

MOST_BYTES = PART_SIZE - (4 << 10)  # of the writes that are packed: with the table, one part


class ReplicatedBatch:
    __slots__ = ("batch", "is_granted", "is_written", "position", "size")

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.is_granted = False
        self.is_written = False
        self.position: Position | None = None  # of the log, if this batch ends one of the log's
        self.size = sum([len(buffer) for _, buffers in batch.writes for buffer in buffers])

    @property
    def must_wait(self) -> bool:
        """For the log, before anything of it is done here."""
        return bool(self.batch.changes or self.batch.removals) and not self.is_granted


class Applied(NamedTuple):
    """The data directory has the log up to ``position``; its journal ends there at ``end``, a segment and an offset."""

    position: Position
    end: tuple[int, int]


class BatchLog(Protocol):
    """Where batches are appended: cluster/log_append.py. ``granted`` or ``stop`` follows."""

    def has_room(self, size: int) -> bool:
        """Whether a record with so many bytes is to be appended now, and not later together with what follows."""

    @property
    def position(self) -> Position:
        """Of the last batch that was granted."""

    def append(self, body: bytes, token: ReplicatedBatch) -> None: ...


class JournalReplicator:
    """``stepped_down`` is called when this node's disk fails, when its journal is damaged, or when a batch does not fit
    into the log: another node has to lead."""

    def __init__(self, log: BatchLog, stepped_down: Callable[[str], None]) -> None:
        self._log = log
        self._stepped_down = stepped_down
        self._writer: LocalWriter | None = None
        self._end = SegmentEnd()
        self._in_flight: deque[ReplicatedBatch] = deque()
        self._gathered: deque[ReplicatedBatch] = deque()  # not in the log yet
        self._gathered_bytes = 0
        self._to_write: deque[ReplicatedBatch] = deque()  # not passed to the writer yet
        self._stopped: str | None = None  # why nothing more is granted
        self._trims: dict[int, int] = {}  # by stream: its first offset, for the next batch
        self._streams: StreamProgress | None = None
        self._done: Applied | None = None  # what the journal has for sure
        self._awaited: tuple[Applied, dict[int, int]] | None = None  # the same earlier, and what streams had to write
        self._applied: Applied | None = None
        self.accepts_damage = False
        self.damage: str | None = None  # of the journal, found while it was read

    # ---- for the store (store/replicator.py)

    def start(self, writer: LocalWriter, streams: StreamProgress) -> None:
        self._writer, self._streams = writer, streams
        if self._stopped is not None:
            writer.give_up(self._stopped)

    def submit(self, batch: Batch) -> None:
        if self._stopped is not None:
            return
        entry = ReplicatedBatch(batch)
        self._in_flight.append(entry)
        self._gathered.append(entry)
        self._gathered_bytes += entry.size
        self._pack()
        self._write()

    def submit_later(self) -> None:
        assert self._writer is not None
        self._writer.submit_later()

    def wait_for_acks(self) -> None:
        assert self._writer is not None
        self._writer.wait_for_acks()

    def written(self, batch: Batch) -> None:
        for entry in self._in_flight:
            entry.is_written = True
            if entry.batch is batch:
                break
        self._finish()

    def trimmed(self, queue: int, first: int) -> None:
        self._trims[queue] = first

    def failed(self, problem: OSError) -> None:
        reason = f"the disk of this node failed ({problem.strerror or problem})"
        self.stop(reason)
        self._stepped_down(reason)

    def damaged(self, reason: str) -> None:
        self.damage = self.damage or reason
        self.stop(reason)
        self._stepped_down(reason)

    # ---- for the log

    def granted(self, tokens: list[ReplicatedBatch]) -> None:
        """The log has these, and all before them."""
        tokens[-1].position = self._log.position
        for entry in self._in_flight:
            entry.is_granted = True
            if entry is tokens[-1]:
                break
        self._pack()
        self._write()
        self._finish()

    def stop(self, reason: str) -> None:
        """Grant nothing more: another node leads, or will. The first reason counts."""
        if self._stopped is not None:
            return
        self._stopped = reason
        self._gathered.clear()
        self._to_write.clear()
        if self._writer is not None:
            self._writer.give_up(reason)

    @property
    def is_stopped(self) -> bool:
        return self._stopped is not None

    @property
    def applied(self) -> Applied | None:
        """What the data directory has for sure, with the files of its streams: for its note. Each call looks again how
        far the streams are."""
        if self._streams is not None and self._done is not None:
            if self._awaited is None:
                self._awaited = self._done, self._streams.granted()
            if self._streams.are_synced(self._awaited[1]):
                self._applied, self._awaited = self._awaited[0], None
        return self._applied

    def _pack(self) -> None:
        while self._gathered and self._log.has_room(self._gathered_bytes):
            packed = [self._gathered.popleft()]
            size = packed[0].size
            while self._gathered and size + self._gathered[0].size <= MOST_BYTES:
                packed.append(self._gathered.popleft())
                size += packed[-1].size
            self._gathered_bytes -= size
            self._to_write.extend(packed)
            trims, self._trims = self._trims, {}
            body = encode_batches([entry.batch for entry in packed], self._end, trims.items())
            try:
                self._log.append(body, packed[-1])
            except ClusterError as problem:  # too large: without it, nothing that follows may be granted
                self.stop(str(problem))
                self._stepped_down(str(problem))

    def _write(self) -> None:
        assert self._writer is not None
        while self._to_write and not self._to_write[0].must_wait:
            self._writer.submit(self._to_write.popleft().batch)

    def _finish(self) -> None:
        done: Batch | None = None
        while self._stopped is None and self._in_flight:
            first = self._in_flight[0]
            if not (first.is_granted and first.is_written):
                break
            done = self._in_flight.popleft().batch
            if first.position is not None:
                self._done = Applied(first.position, done.end)
        if done is not None:
            assert self._writer is not None
            self._writer.finish(done)
