"""Messages on disk that nobody promised to keep: room for what memory cannot hold, of no value after the process.

The files hold the journal's PUBLISH records, one place each. Nobody syncs or recovers them; what an earlier life left
is removed at the start. A file goes when the last message in it was loaded again or is not wanted any more.

A message is spilled the moment that ``put`` returns. The writing follows in the worker, whose jobs run in order, so a
load that is asked for later finds it written. If the disk refuses, the bytes stay in memory and are read from there.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Sequence
from operator import attrgetter

from leveret.logs import get_log
from leveret.message import NEVER, Message
from leveret.store.disk import Disk
from leveret.store.lane_log import lane_key
from leveret.store.log import Placement
from leveret.store.records import END_OF_GROUP, PUBLISH, publish_body, sealed
from leveret.store.run_block import Run
from leveret.store.run_index import RunIndex

FOLDER = "spill"
FILE_SIZE = 64 << 20

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


class Stretch:
    """The messages of one ``put``: no other has sequences between its first and its last."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.index = RunIndex()


class SpillIndex:
    """Where the spilled messages of one lane lie. Stretches may come in any order."""

    def __init__(self) -> None:
        self.stretches: list[Stretch] = []

    def live(self, sequence: int, number: int) -> list[Run]:
        return [run for stretch in self._from(sequence) for run in stretch.index.live(sequence, number)]

    def read(self, sequence: int, most_messages: int, most_bytes: int) -> list[Run]:
        found: list[Run] = []
        for stretch in self._from(sequence):
            if most_messages <= 0 or most_bytes <= 0:
                break
            runs = stretch.index.read(sequence, most_messages, most_bytes)
            found += runs
            most_messages -= sum([run.number for run in runs])
            most_bytes -= sum([run.size for run in runs])
        return found

    def take(self, sequence: int, number: int) -> list[Run]:
        taken = [run for stretch in self._from(sequence) for run in stretch.index.take(sequence, number)]
        self.stretches = [stretch for stretch in self.stretches if len(stretch.index)]
        return taken

    def _from(self, sequence: int) -> list[Stretch]:
        at = bisect_right(self.stretches, sequence, key=attrgetter("first")) - 1
        return self.stretches[max(at, 0) :]


class Spill:
    def __init__(self, disk: Disk, in_worker: InWorker) -> None:
        self._disk = disk
        self._in_worker = in_worker
        self._files: dict[int, SpillFile] = {}
        self._current: SpillFile | None = None
        self._next_id = 1
        self._indexes: dict[int, SpillIndex] = {}

    def index_of(self, queue: int, lane: int) -> SpillIndex | None:
        return self._indexes.get(lane_key(queue, lane))

    def put(self, queue: int, lane: int, messages: Sequence[tuple[int, Message]], wall_ahead: float) -> None:
        """Messages with their sequences, in order."""
        file = self._file()
        index = self._indexes.setdefault(lane_key(queue, lane), SpillIndex())
        stretch = Stretch(messages[0][0])
        start, buffers = file.size, list[bytes]()
        for run in _alike(messages):
            first, contents = run[0][0], [message for _, message in run]
            place = Placement(queue, lane, first, len(contents), lane)
            parts = publish_body(contents, [place], NEVER, wall_ahead)  # the queue's TTL is in their deadlines already
            record = sealed(PUBLISH, END_OF_GROUP, 0, 0, parts, file.id, file.size)
            stretch.index.append(first, len(contents), file.id, file.size, 0, sum([len(m[0]) for m in contents]))
            buffers += record
            file.size += sum([len(part) for part in record])
        insort(index.stretches, stretch, key=attrgetter("first"))
        file.live += len(messages)
        self._in_worker(lambda: self._write(file, start, buffers), lambda result: None)

    def _file(self) -> SpillFile:
        file = self._current
        if file is None or file.size >= FILE_SIZE:
            before, file = file, SpillFile(self._next_id)
            self._current = self._files[file.id] = file
            self._next_id += 1
            if before is not None:
                self._lose(before, 0)
        return file

    def _write(self, file: SpillFile, start: int, buffers: list[bytes]) -> None:
        """In the worker."""
        try:
            if file.rescued:
                raise OSError("an earlier write to it failed")
            if file.handle is None:
                file.handle = self._disk.create(file.path)
            self._disk.append(file.handle, buffers)
        except OSError as problem:
            if not file.rescued:
                get_log("store").warning("no room to page messages out, they stay in memory", reason=str(problem))
            file.rescued[start] = b"".join(buffers)

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
        if not index.stretches:
            del self._indexes[key]

    def forget(self, queue: int) -> None:
        for lane in range(256):
            index = self._indexes.pop(lane_key(queue, lane), None)
            for stretch in () if index is None else index.stretches:
                for id_, (number, _) in stretch.index.totals().items():
                    self._lose(self._files[id_], number)

    def _lose(self, file: SpillFile, number: int) -> None:
        file.live -= number
        if not file.live and file is not self._current:
            self._in_worker(lambda: self._remove(file), lambda result: None)

    def _remove(self, file: SpillFile) -> None:
        """In the worker: after all reads that were asked for before."""
        self._files.pop(file.id, None)
        if file.handle is not None:
            self._disk.close(file.handle)
            self._disk.remove(file.path)


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
