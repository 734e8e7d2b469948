"""Transient messages on disk: room for what memory cannot hold, of no value after the process.

The files hold the journal's PUBLISH records, one place each. Nobody syncs or recovers them; what an earlier life left
is removed at the start. A file goes when the last message in it was loaded again or is not wanted any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from leveret.logs import get_log
from leveret.message import NEVER, Message
from leveret.store.disk import WritableDisk
from leveret.store.lane_log import lane_key
from leveret.store.log import Placement
from leveret.store.records import END_OF_GROUP, PUBLISH, publish_body, sealed
from leveret.store.run_index import RunIndex

FOLDER = "spill"
FILE_SIZE = 64 << 20

InWorker = Callable[[Callable[[], object], Callable[[object], None]], None]


class SpillFile:
    """``live`` messages in it are still to be loaded."""

    def __init__(self, id_: int) -> None:
        self.id = id_
        self.size = 0
        self.live = 0
        self.handle: int | None = None  # touched by the worker only


class Spill:
    def __init__(self, disk: WritableDisk, in_worker: InWorker) -> None:
        self._disk = disk
        self._in_worker = in_worker
        self._files: dict[int, SpillFile] = {}
        self._current: SpillFile | None = None
        self._next_id = 1
        self._indexes: dict[int, RunIndex] = {}

    @staticmethod
    def path(id_: int) -> str:
        return f"{FOLDER}/{id_:010d}.seg"

    def index_of(self, queue: int, lane: int) -> RunIndex | None:
        return self._indexes.get(lane_key(queue, lane))

    def put(
        self,
        queue: int,
        lane: int,
        messages: Sequence[tuple[int, Message]],
        wall_ahead: float,
        done: Callable[[bool], None],
    ) -> None:
        """They are in the index when ``done(True)`` is called, not before."""
        file = self._current
        if file is None or file.size >= FILE_SIZE:
            file = self._current = self._files[self._next_id] = SpillFile(self._next_id)
            self._next_id += 1
        buffers: list[bytes] = []
        runs: list[tuple[int, int, int, int]] = []  # sequence, number, offset, size
        for stretch in _stretches(messages):
            first, run = stretch[0][0], [message for _, message in stretch]
            place = Placement(queue, lane, first, len(run), lane)
            parts = publish_body(run, [place], NEVER, wall_ahead)  # TTL is in their deadlines already
            record = sealed(PUBLISH, END_OF_GROUP, 0, 0, parts, file.id, file.size)
            runs.append((first, len(run), file.size, sum([len(message[0]) for message in run])))
            buffers += record
            file.size += sum([len(part) for part in record])
        file.live += len(messages)  # or it would go before these are in the index

        def written(result: object) -> None:
            if isinstance(result, Exception):
                get_log("store").warning("no room to page messages out", reason=str(result))
                self._lose(file, len(messages))
                if self._current is file:
                    self._current = None  # offsets in it are void from here on
                done(False)
                return
            index = self._indexes.setdefault(lane_key(queue, lane), RunIndex())
            for first, number, offset, size in runs:
                index.append(first, number, file.id, offset, 0, size)
            done(True)

        self._in_worker(lambda: self._write(file, buffers), written)

    def _write(self, file: SpillFile, buffers: list[bytes]) -> None:
        if file.handle is None:
            file.handle = self._disk.create(self.path(file.id))
        self._disk.append(file.handle, buffers)

    def drop(self, queue: int, lane: int, sequence: int, number: int) -> None:
        key = lane_key(queue, lane)
        index = self._indexes.get(key)
        if index is None:
            return
        for run in index.take(sequence, number):
            self._lose(self._files[run.segment], run.number)
        if not len(index):
            del self._indexes[key]

    def forget(self, queue: int) -> None:
        for lane in range(256):
            index = self._indexes.pop(lane_key(queue, lane), None)
            for run in index or ():
                self._lose(self._files[run.segment], run.number)

    def _lose(self, file: SpillFile, number: int) -> None:
        file.live -= number
        if file.live or file is self._current:
            return
        del self._files[file.id]
        self._in_worker(lambda: self._remove(file), lambda result: None)

    def _remove(self, file: SpillFile) -> None:
        if file.handle is not None:
            self._disk.close(file.handle)
            self._disk.remove(self.path(file.id))


def _stretches(messages: Sequence[tuple[int, Message]]) -> list[list[tuple[int, Message]]]:
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
