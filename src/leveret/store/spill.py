"""Transient messages that are paged out to disk. Of no use after the process has ended.

The files hold PUBLISH records as in the journal, with one place each. They are neither synced nor recovered; those of
previous runs are removed at the start. A file is removed when all of its messages were loaded again or dropped.

A message is spilled the moment that ``put`` returns. The writing follows in the worker, whose jobs run in order, so a
load that is asked for later finds it written. If the disk refuses, the bytes stay in memory and are read from there.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from operator import attrgetter

from leveret.logs import get_log
from leveret.message import NEVER, Message
from leveret.store.disk import Disk
from leveret.store.lane_log import lane_key
from leveret.store.log import Placement
from leveret.store.records import END_OF_GROUP, PUBLISH, publish_body, sealed
from leveret.store.run_block import Run

FOLDER = "spill"
FILE_SIZE = 64 << 20
NO_END = 1 << 62

InWorker = Callable[[Callable[[], object], Callable[[object], None]], None]


class SpillFile:
    """``live`` messages in it are still to be loaded. Handle and ``rescued`` are touched by the worker only."""

    def __init__(self, id_: int) -> None:
        self.id = id_
        self.size = 0
        self.live = 0
        self.handle: int | None = None
        self.rescued: dict[int, bytes] = {}  # by offset: what the disk refused

    @property
    def path(self) -> str:
        return f"{FOLDER}/{self.id:010d}.seg"


class SpillIndex:
    """Where the spilled messages of one lane lie: runs by sequence. They may come in any order."""

    def __init__(self) -> None:
        self.runs: list[Run] = []

    def add(self, run: Run) -> None:
        insort(self.runs, run)

    def live(self, sequence: int, number: int) -> list[Run]:
        first, last = self._overlap(sequence, sequence + number)
        return [cut(run, sequence, sequence + number) for run in self.runs[first:last]]

    def read(self, sequence: int, most_messages: int, most_bytes: int) -> list[Run]:
        """From ``sequence`` on; at least one message if there is one."""
        found: list[Run] = []
        for run in self.runs[self._overlap(sequence, sequence + 1)[0] :]:
            if found and (most_messages <= 0 or most_bytes <= 0):
                break
            piece = cut(run, sequence, max(run.sequence, sequence) + most_messages)
            if piece.size > most_bytes:
                fitting = most_bytes * piece.number // piece.size
                piece = cut(piece, sequence, piece.sequence + max(fitting, 0 if found else 1))
            if not piece.number:
                break
            found.append(piece)
            most_messages -= piece.number
            most_bytes -= piece.size
            if piece.sequence + piece.number < run.sequence + run.number:
                break
        return found

    def take(self, sequence: int, number: int) -> list[Run]:
        """Remove whatever is there of [sequence, sequence + number)."""
        end = sequence + number
        first, last = self._overlap(sequence, end)
        taken = self.runs[first:last]
        rest = [cut(run, 0, sequence) for run in taken] + [cut(run, end, NO_END) for run in taken]
        self.runs[first:last] = sorted(run for run in rest if run.number)
        return [cut(run, sequence, end) for run in taken]

    def _overlap(self, sequence: int, end: int) -> tuple[int, int]:
        first = bisect_left(self.runs, sequence, key=_behind)
        return first, bisect_left(self.runs, end, first, key=attrgetter("sequence"))


def _behind(run: Run) -> int:
    """Its last sequence."""
    return run.sequence + run.number - 1


def cut(run: Run, start: int, stop: int) -> Run:
    """The part of the run in [start, stop)."""
    first = max(run.sequence, start)
    number = max(min(run.sequence + run.number, stop) - first, 0)
    if number == run.number:
        return run
    before = run.size * (first - run.sequence) // run.number
    size = run.size * (first - run.sequence + number) // run.number - before
    return Run(first, number, run.segment, run.offset, run.skip + first - run.sequence, size)


class Spill:
    def __init__(self, disk: Disk, in_worker: InWorker, on_refused: Callable[[int], None]) -> None:
        self._disk = disk
        self._in_worker = in_worker
        self._files: dict[int, SpillFile] = {}
        self._current: SpillFile | None = None
        self._next_id = 1
        self._was_refused = False
        self._indexes: dict[int, SpillIndex] = {}
        self._on_refused = on_refused  # called with the bytes that stay in memory, or (< 0) have left it

    def index_of(self, queue: int, lane: int) -> SpillIndex | None:
        return self._indexes.get(lane_key(queue, lane))

    def put(self, queue: int, lane: int, messages: Sequence[tuple[int, Message]], wall_ahead: float) -> None:
        """Messages with their sequences, in order."""
        file = self._file()
        index = self._indexes.setdefault(lane_key(queue, lane), SpillIndex())
        start, buffers = file.size, list[bytes]()
        for run in _alike(messages):
            first, contents = run[0][0], [message for _, message in run]
            place = Placement(queue, lane, first, len(contents), lane)
            parts = publish_body(contents, [place], NEVER, wall_ahead)  # the queue's TTL is in their deadlines already
            record = sealed(PUBLISH, END_OF_GROUP, 0, 0, parts, file.id, file.size)
            index.add(Run(first, len(contents), file.id, file.size, 0, sum([len(m[0]) for m in contents])))
            buffers += record
            file.size += sum([len(part) for part in record])
        file.live += len(messages)
        self._in_worker(lambda: self._write(file, start, buffers), self._written)

    def _file(self) -> SpillFile:
        file = self._current
        if file is None or file.size >= FILE_SIZE or self._was_refused:
            self._was_refused = False
            before, file = file, SpillFile(self._next_id)
            self._current = self._files[file.id] = file
            self._next_id += 1
            if before is not None:
                self._lose(before, 0)
        return file

    def _written(self, refused: object) -> None:
        if isinstance(refused, int) and refused:
            self._was_refused = self._was_refused or refused > 0  # the next file may be taken
            self._on_refused(refused)

    def _write(self, file: SpillFile, start: int, buffers: list[bytes]) -> int:
        """In the worker: how many bytes the disk did not take."""
        try:
            if file.rescued:
                raise OSError("an earlier write to it failed")
            if file.handle is None:
                file.handle = self._disk.create(file.path)
            self._disk.append(file.handle, buffers)
            return 0
        except OSError as problem:
            if not file.rescued:
                get_log("store").warning("no disk space to page messages out, they stay in memory", reason=str(problem))
            file.rescued[start] = b"".join(buffers)
            return len(file.rescued[start])

    def read(self, id_: int, offset: int, size: int) -> bytes:
        """In the worker: bytes of a file, fewer at its end."""
        file = self._files[id_]
        for start, data in file.rescued.items():
            if start <= offset < start + len(data):
                return data[offset - start : offset - start + size]
        return self._disk.read(file.path, offset, size)

    def drop(self, queue: int, lane: int, sequence: int, number: int) -> None:
        key = lane_key(queue, lane)
        index = self._indexes.get(key)
        if index is None:
            return
        for run in index.take(sequence, number):
            self._lose(self._files[run.segment], run.number)
        if not index.runs:
            del self._indexes[key]

    def forget(self, queue: int) -> None:
        for lane in range(256) if self._indexes else ():
            index = self._indexes.pop(lane_key(queue, lane), None)
            for run in () if index is None else index.runs:
                self._lose(self._files[run.segment], run.number)

    def _lose(self, file: SpillFile, number: int) -> None:
        file.live -= number
        if not file.live and file is not self._current:
            self._in_worker(lambda: self._remove(file), self._written)

    def _remove(self, file: SpillFile) -> int:
        """In the worker, after all reads that were asked for before."""
        self._files.pop(file.id, None)
        if file.handle is not None:
            self._disk.close(file.handle)
            self._disk.remove(file.path)
        return -sum(map(len, file.rescued.values()))


def _alike(messages: Sequence[tuple[int, Message]]) -> list[list[tuple[int, Message]]]:
    """Cut where the sequence jumps or the address changes: a record has one of each."""
    found: list[list[tuple[int, Message]]] = []
    for sequence, message in messages:
        if found:
            before, last = found[-1][-1]
            if before + 1 == sequence and last[1] is message[1]:
                found[-1].append((sequence, message))
                continue
        found.append([(sequence, message)])
    return found
