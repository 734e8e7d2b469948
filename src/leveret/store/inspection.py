"""Reads a data directory that no broker uses. Nothing in it is changed, not even a timestamp.

The journal is read completely, without checkpoints and repairs, and so are the files of streams. SQLite would make
files beside ``meta.db`` merely to read it, so a copy of that is read.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from itertools import chain, islice
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import NamedTuple

import apsw

from leveret.errors import StoreError
from leveret.message import Message
from leveret.store.checkpoint import checkpoint_path, checkpoints_on
from leveret.store.comparison import differences
from leveret.store.data_dir import FORMAT, FORMAT_FILE, META, read_format, read_lineage
from leveret.store.definitions import Definitions
from leveret.store.definitions_db import DefinitionsDb
from leveret.store.files import Files
from leveret.store.lane_log import lane_key
from leveret.store.pages import fetch
from leveret.store.recovery import Damaged, Progress, Recovered, recover
from leveret.store.returns import unpack_return
from leveret.store.segments import Segment
from leveret.store.stream_files import left_streams
from leveret.store.stream_inspection import LeftStream, StreamDamaged

INCOMPLETE = "incomplete"  # a file in a folder whose files are still on their way (store/backup.py)
META_FILES = (META, f"{META}-wal", f"{META}-journal")
MOST_FAULTS = 20  # of the definitions, that are listed one by one
SLICE = 1 << 20  # bytes of messages read at a time
LANES = 256


class Stored(NamedTuple):
    """A live message of a queue."""

    lane: int
    sequence: int
    message: Message
    published: float  # wall time
    tries: int
    redelivered: bool | None  # None: the last shutdown was not clean


class Contents:
    """Everything in the directory. ``faults`` are those of the definitions."""

    def __init__(self, path: Path, definitions: Definitions, faults: list[str], recovered: Recovered) -> None:
        self.definitions = definitions
        self.faults = faults
        self.recovered = recovered
        self._disk = Files(path)
        known = {queue.id for queue in definitions.queues}
        self.streams = {id_: LeftStream(self._disk, id_) for id_ in left_streams(self._disk) if id_ in known}

    @property
    def stream_damages(self) -> list[StreamDamaged]:
        """Including an incomplete write at the end."""
        return [damage for stream in self.streams.values() for damage in stream.damages]

    @property
    def damages(self) -> list[Damaged]:
        """Without an incomplete write at the end: every crash may leave one, and nothing in it was confirmed."""
        return [damage for damage in self.recovered.damages if not damage.is_tail]

    @property
    def is_sound(self) -> bool:
        return not (self.faults or self.damages or any(not damage.is_tail for damage in self.stream_damages))

    def messages(self, queue: int, most: int | None = None) -> Iterator[Stored]:
        """The live messages of a queue in the order of delivery, read slice by slice. Of a stream: what its files have,
        and behind that what only the journal has; a sequence is an offset plus one."""
        stream = self.streams.get(queue)
        if stream is None:
            return self._in_journal(queue, most)
        written = (Stored(0, each.offset + 1, each.message, each.time, 0, False) for each in stream.read())
        behind = (stored for stored in self._in_journal(queue, None) if stored.sequence > stream.next)
        return islice(chain(written, behind), most)

    def _in_journal(self, queue: int, most: int | None) -> Iterator[Stored]:
        left = 1 << 62 if most is None else most
        for lane in range(LANES - 1, -1, -1):
            found = self.recovered.lanes.get(lane_key(queue, lane))
            sequence = found.first() if found is not None else None
            while found is not None and sequence is not None and left > 0:
                runs = found.index.read(sequence, left, SLICE)
                if not runs:
                    break
                batch = fetch(self._disk, queue, lane, [(False, run) for run in runs], 0.0)
                if batch.lost:
                    where = f"segment {batch.lost[0].run.segment} at {batch.lost[0].run.offset}"
                    raise StoreError(f"{where} changed while it was read: is a broker running? run the command again")
                for number, message, time in batch.loaded:
                    again = number < found.redelivered_below if self.recovered.clean else None
                    tries, _ = unpack_return(found.tries.get(number, (0, 0))[0])
                    yield Stored(lane, number, message, time, tries, again)
                left -= len(batch.loaded)
                sequence = runs[-1].sequence + runs[-1].number


def read_contents(path: Path, progress: Progress = lambda done, of: None, *, all_queues: bool = False) -> Contents:
    """``all_queues``: with the messages of queues that were deleted. StoreError if there is nothing we could read."""
    require_format(path)
    definitions, faults = read_definitions(path)
    known: Container[int] = {queue.id for queue in definitions.queues}
    queues = Every() if all_queues else known
    recovered = recover(Files(path), queues, 1, progress=progress, repair=False, lineage=None)
    if not definitions.vhosts and not faults and recovered.highest_queue:
        faults = [f"{META} is empty or missing, but the journal has messages"]
    return Contents(path, definitions, faults, recovered)


class Every:
    """Contains all queues."""

    def __contains__(self, queue: object) -> bool:
        return True


def require_format(path: Path) -> None:
    """StoreError unless it is a whole data directory, or a backup of one, of a format that we know."""
    if not path.is_dir():
        raise StoreError(f"there is no folder {path}: name the data directory that the broker was started with")
    if not (path / FORMAT_FILE).exists():
        if (path / INCOMPLETE).exists():
            raise StoreError(f"{path} is a copy that was never finished: remove it, and make it again")
        raise StoreError(
            f"{path} is not a Leveret data directory (no file '{FORMAT_FILE}'): name the folder that the broker was "
            "started with, or a backup"
        )
    found = read_format(path)
    if found > FORMAT:
        raise StoreError(f"{path} has format {found}, this Leveret reads up to {FORMAT}: upgrade Leveret")


def read_definitions(path: Path, folder: Path | None = None) -> tuple[Definitions, list[str]]:
    """What can be read, and what is wrong with it. ``folder``: where to put a temporary copy."""
    nothing = Definitions([], [], [], [], [], [], [], [], 0)
    with TemporaryDirectory(prefix="leveret-", dir=folder) as scratch:
        for name in META_FILES:
            if (path / name).exists():
                copyfile(path / name, Path(scratch) / name)
        copy = Path(scratch) / META
        try:
            db = DefinitionsDb(copy, synced=False)
            try:
                return db.load(), _integrity_faults(copy)
            finally:
                db.close()
        except StoreError as problem:
            if isinstance(problem.__cause__, apsw.CorruptError | apsw.NotADBError):
                return nothing, [f"{META} cannot be read: {problem.__cause__}"]
            raise StoreError(str(problem).replace(str(copy), str(path / META))) from problem


def _integrity_faults(path: Path) -> list[str]:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        found = [str(row[0]) for row in connection.execute(f"PRAGMA integrity_check({MOST_FAULTS})")]
    except apsw.CorruptError as problem:
        found = [str(problem)]
    finally:
        connection.close()
    return [] if found == ["ok"] else [f"{META}: {line}" for text in found for line in text.splitlines()]


# ---- figures


class QueueFigures(NamedTuple):
    """``vhost`` and ``name`` are None for a queue that was deleted: its messages are removed with their file."""

    id: int
    vhost: str | None
    name: str | None
    messages: int
    bytes: int


class SegmentFigures(NamedTuple):
    id: int
    bytes: int
    messages: int
    live: float  # the part of the file that live messages take


class Inspection:
    """The result of ``leveret check``."""

    def __init__(self, contents: Contents) -> None:
        self.contents = contents
        counts = _counts(contents.recovered) | _stream_counts(contents)
        rows = contents.definitions.queues
        self.queues = [QueueFigures(row.id, row.vhost, row.name, *counts.pop(row.id, (0, 0))) for row in rows]
        self.deleted = [QueueFigures(id_, None, None, *counts[id_]) for id_ in sorted(counts) if counts[id_][0]]
        _leave_out(contents.recovered, {queue.id for queue in self.deleted})
        self.segments = [_segment_figures(segment) for segment in contents.recovered.segments]

    @property
    def definitions(self) -> dict[str, int]:
        """How many rows of each kind."""
        rows = self.contents.definitions._asdict()
        return {name: len(found) for name, found in rows.items() if isinstance(found, list)}

    @property
    def messages(self) -> int:
        return sum(queue.messages for queue in self.queues)

    @property
    def bytes(self) -> int:
        return sum(queue.bytes for queue in self.queues)


def inspect(path: Path, progress: Progress = lambda done, of: None) -> Inspection:
    """Read and check every record of every segment, the definitions, and whether the checkpoint agrees with them."""
    contents = read_contents(path, progress, all_queues=True)
    contents.faults += _checkpoint_faults(path, {queue.id for queue in contents.definitions.queues})
    return Inspection(contents)


def _checkpoint_faults(path: Path, queues: Container[int]) -> list[str]:
    """What is wrong with the checkpoint that the next start would use, if there is one."""
    disk, lineage = Files(path), read_lineage(path)
    if lineage is None or not checkpoints_on(disk):
        return []
    found = recover(disk, queues, 1, repair=False, lineage=lineage)
    if found.checkpoint is None:
        return []
    problems = differences(found, recover(disk, queues, 1, repair=False, lineage=None))
    name = checkpoint_path(found.checkpoint)
    return [f"{name} disagrees with the journal ({problem}): remove the file" for problem in problems]


def _counts(recovered: Recovered) -> dict[int, tuple[int, int]]:
    """Messages and bytes, by queue."""
    found: dict[int, tuple[int, int]] = {}
    for lane in recovered.lanes.values():
        messages, size = found.get(lane.queue, (0, 0))
        found[lane.queue] = (messages + lane.number(), size + lane.size())
    return found


def _stream_counts(contents: Contents) -> dict[int, tuple[int, int]]:
    found: dict[int, tuple[int, int]] = {}
    for id_, stream in contents.streams.items():
        lane = contents.recovered.lanes.get(lane_key(id_, 0))
        behind = [] if lane is None else lane.index.live(stream.next + 1, 1 << 62)  # only the journal has these
        messages, size = sum([run.number for run in behind]), sum([run.size for run in behind])
        found[id_] = (stream.messages + messages, stream.bytes + size)
    return found


def _leave_out(recovered: Recovered, queues: Container[int]) -> None:
    """Messages of these queues are nothing that keeps a segment alive."""
    for lane in recovered.lanes.values():
        if lane.queue in queues:
            for id_, (number, size) in lane.index.totals().items():
                recovered.segments[id_].lose(number, size)


def _segment_figures(segment: Segment) -> SegmentFigures:
    live = (segment.size - segment.marks) * segment.live_content / max(segment.content, 1) / max(segment.size, 1)
    return SegmentFigures(segment.id, segment.size, segment.live, live)
