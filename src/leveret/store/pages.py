"""Messages that are on disk only, and how they are loaded.

Persistent messages of durable queues are in the journal anyway: to page one out is to drop it from memory. All others
are written to the spill (store/spill.py). In both cases an index shows where they are, and they are loaded in batches,
read and checked in a worker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from errno import EIO, ENOENT
from typing import NamedTuple, Protocol, TypeVar

from leveret.logs import get_log
from leveret.message import Message
from leveret.store.disk import Disk, ReadableDisk
from leveret.store.journal import Journal
from leveret.store.lane_log import lane_key
from leveret.store.records import HEAD_SIZE, Damage, Published, read_publish, read_record, record_size
from leveret.store.run_block import Run
from leveret.store.run_index import RunIndex
from leveret.store.spill import InWorker, Spill, SpillIndex, cut
from leveret.store.writer import segment_path

READ_AHEAD = 1 << 20
GAP = 64 << 10  # bytes between two runs that are read at once: of a queue among thousands, each run lies alone
RECORD_SLACK = 4 << 10  # bytes of a record besides content, at a guess
ATTEMPTS = 3  # to read a message, before waiting
GONE = (EIO, ENOENT)  # errors that do not pass

T = TypeVar("T")
Read = Callable[[int, int, int], bytes]  # segment, offset, size
Pieces = list[tuple[bool, Run]]  # whether it is spilled


class Loaded(NamedTuple):
    sequence: int
    message: Message
    time: float  # wall time of its publish


class LoadedRun(NamedTuple):
    """Messages with consecutive sequences, as they lie in what was read; ascending."""

    sequence: int
    starts: Sequence[int]  # where the content of each begins in the data
    stops: Sequence[int]
    data: bytes  # several runs may share it
    addresses: Sequence[tuple[str, str]]  # exchange and key
    which: Sequence[int]  # of these each has; empty: all have the first
    time: float  # wall time of their publish


Done = Callable[[list[Loaded]], None]
RunsDone = Callable[[list[LoadedRun]], None]


class Stretch(NamedTuple):
    """Messages with consecutive sequences that are on disk."""

    sequence: int
    number: int
    size: int  # of content; the share of a run that is cut
    is_spilled: bool  # the journal does not keep them


class OnDisk(Protocol):
    """The messages of each lane that are on disk, and how to read them."""

    def synced(self, queue: int, lane: int) -> int:
        """Below this sequence, what goes to the journal is there."""

    def size_of(self, queue: int, lane: int, sequence: int) -> int | None:
        """Bytes of a message that is on disk; None if it is not."""

    def next_sequence(self, queue: int, lane: int, sequence: int) -> int | None:
        """The first message on disk from ``sequence`` on."""

    def stretches(self, queue: int, lane: int, sequence: int, stop: int, most_bytes: int) -> list[Stretch]:
        """Which messages are there from ``sequence`` on, in order, without reading them; one at least, if any."""

    def load(self, queue: int, lane: int, sequence: int, stop: int, most_bytes: int, done: Done) -> None:
        """Bring back messages from ``sequence`` on, in order and without leaving any out.

        ``done`` gets at least one, unless all that was read is damaged. As long as the disk cannot be read, it waits.
        """

    def load_runs(self, queue: int, lane: int, sequence: int, stop: int, most_bytes: int, done: RunsDone) -> None:
        """The same without an object for each message."""

    def tries(self, queue: int, lane: int, sequence: int) -> int:
        """The delivery count of the message in the journal."""

    def has_tries(self, queue: int, lane: int) -> bool:
        """Whether any message of the lane came back."""


class SpillListener(Protocol):
    def spill_refused(self, size: int) -> None:
        """Bytes that the disk had no room for stay in memory; below 0: they have left it."""


class Pages(OnDisk, Protocol):
    """Where a queue puts messages that should not stay in memory."""

    listener: SpillListener | None

    def spill(self, queue: int, lane: int, messages: Sequence[tuple[int, Message]]) -> None:
        """Take messages that the journal does not keep, with their sequences, in order."""

    def drop(self, queue: int, lane: int, sequence: int, number: int) -> None:
        """These were loaded, or never will be: their space in the spill can be freed."""

    def forget(self, queue: int) -> None:
        """The queue was deleted."""


class DiskPages:
    def __init__(self, journal: Journal, disk: Disk, in_worker: InWorker) -> None:
        self._journal = journal
        self._disk = disk
        self._in_worker = in_worker
        self.listener: SpillListener | None = None
        self.on_damage: Callable[[str], None] | None = None  # of the journal, if other nodes have it too
        self._spill = Spill(disk, in_worker, self._spill_refused)
        self._failed: list[Callable[[], None]] = []
        self._log = get_log("store")

    def _spill_refused(self, size: int) -> None:
        if self.listener is not None:
            self.listener.spill_refused(size)

    def synced(self, queue: int, lane: int) -> int:
        log = self._journal.lanes.get(lane_key(queue, lane))
        return 0 if log is None else log.synced

    def tries(self, queue: int, lane: int, sequence: int) -> int:
        log = self._journal.lanes.get(lane_key(queue, lane))
        return 0 if log is None else log.tries.get(sequence, (0, 0))[0]

    def has_tries(self, queue: int, lane: int) -> bool:
        log = self._journal.lanes.get(lane_key(queue, lane))
        return log is not None and bool(log.tries)

    def _indexes(self, queue: int, lane: int) -> list[tuple[bool, RunIndex | SpillIndex]]:
        self._journal.settle_now()
        found: list[tuple[bool, RunIndex | SpillIndex]] = []
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

    def stretches(self, queue: int, lane: int, sequence: int, stop: int, most_bytes: int) -> list[Stretch]:
        found: list[Stretch] = []
        for is_spilled, (first, number, _, _, _, size) in self._pieces(_Span(queue, lane, sequence, stop, most_bytes)):
            last = found[-1] if found else None
            if last is not None and (last.sequence + last.number, last.is_spilled) == (first, is_spilled):
                found[-1] = Stretch(last.sequence, last.number + number, last.size + size, is_spilled)
            else:
                found.append(Stretch(first, number, size, is_spilled))
        return found

    def spill(self, queue: int, lane: int, messages: Sequence[tuple[int, Message]]) -> None:
        self._spill.put(queue, lane, messages, self._journal.clock.wall_ahead())

    def drop(self, queue: int, lane: int, sequence: int, number: int) -> None:
        self._spill.drop(queue, lane, sequence, number)

    def forget(self, queue: int) -> None:
        self._spill.forget(queue)

    def load(self, queue: int, lane: int, sequence: int, stop: int, most_bytes: int, done: Done) -> None:
        ahead = self._journal.clock.wall_ahead()
        self._load(
            _Span(queue, lane, sequence, stop, most_bytes),
            lambda found: [each for read in found for each in read.messages(ahead)],
            done,
            1,
        )

    def load_runs(self, queue: int, lane: int, sequence: int, stop: int, most_bytes: int, done: RunsDone) -> None:
        self._load(
            _Span(queue, lane, sequence, stop, most_bytes), lambda found: [read.run() for read in found], done, 1
        )

    def _load(self, span: _Span, shape: Shape[T], done: Callable[[list[T]], None], attempt: int) -> None:
        """``shape`` makes of what was read what ``done`` is to get, in the worker."""
        pieces = self._pieces(span)
        if not all(
            is_spilled or self._journal.batches.is_written(run.segment, run.offset) for is_spilled, run in pieces
        ):
            # reclaim has just moved them
            self._journal.batches.when_written(lambda: self._load(span, shape, done, attempt))
            return

        def got(result: object) -> None:
            if isinstance(result, tuple):
                found, lost = result
                if not self._may_be_elsewhere(lost):
                    self._give_up(span, lost)
                    done(found)
            elif self._pieces(span) != pieces:  # reclaimed meanwhile: it has another place now
                self._load(span, shape, done, attempt)
            elif attempt < ATTEMPTS:
                self._load(span, shape, done, attempt + 1)
            elif self.on_damage is not None and isinstance(result, OSError) and result.errno in GONE:
                self.on_damage(f"its journal cannot be read: {result}")
            else:
                self._log.error("messages cannot be read, will retry", queue=span.queue, reason=str(result))
                self._failed.append(lambda: self._load(span, shape, done, attempt))

        def job() -> tuple[list[T], list[Lost]]:
            lost: list[Lost] = []
            return shape(_read(readers, span.queue, span.lane, pieces, lost)), lost

        readers = (_reader(self._disk), self._spill.read)
        self._in_worker(job, got)

    def _may_be_elsewhere(self, lost: list[Lost]) -> bool:
        """Whether other nodes have what is damaged here: then it is not given up, and one of them has to lead."""
        first = next((each for each in lost if not each.is_spilled), None)
        if self.on_damage is None or first is None:
            return False
        self.on_damage(f"segment {first.run.segment} of its journal is damaged at {first.run.offset} ({first.reason})")
        return True

    def _give_up(self, span: _Span, lost: list[Lost]) -> None:
        for run, _, reason in lost:
            facts = {"segment": run.segment, "offset": run.offset, "messages": run.number, "reason": reason}
            self._log.error("message on disk is damaged and lost", queue=span.queue, **facts)
            self._journal.settle(span.queue, span.lane, run.sequence, run.number)
            self._spill.drop(span.queue, span.lane, run.sequence, run.number)

    def _pieces(self, span: _Span) -> Pieces:
        """The runs to read, in order; no index may reach beyond where another was cut."""
        pieces: Pieces = []
        stop = span.stop
        for is_spilled, index in self._indexes(span.queue, span.lane):
            runs = index.read(span.sequence, stop - span.sequence, span.most_bytes)
            pieces += [(is_spilled, run) for run in runs]
            if runs:
                end = runs[-1].sequence + runs[-1].number
                if index.read(end, 1, 1):
                    stop = min(stop, end)
        pieces = [(is_spilled, cut(run, 0, stop)) for is_spilled, run in pieces if run.sequence < stop]
        return sorted(pieces, key=lambda pair: pair[1].sequence)

    def try_again(self) -> None:
        """Some time has passed: what could not be read before may be read now."""
        failed, self._failed = self._failed, []
        for call in failed:
            call()


class _Span(NamedTuple):
    queue: int
    lane: int
    sequence: int
    stop: int
    most_bytes: int


class _Read(NamedTuple):
    """A run that was read, and the record that it is in."""

    piece: Run
    members: Sequence[int]
    published: Published
    data: bytes

    def messages(self, wall_ahead: float) -> list[Loaded]:
        published = self.published
        messages = published.messages(self.data, self.members, wall_ahead)
        first = self.piece.sequence
        return [Loaded(sequence, message, published.time) for sequence, message in enumerate(messages, first)]

    def run(self) -> LoadedRun:
        published, members, contents = self.published, self.members, self.published.contents
        if isinstance(members, range):
            starts: Sequence[int] = contents[members.start : members.stop]
            stops: Sequence[int] = contents[members.start + 1 : members.stop + 1]
        else:
            starts, stops = [contents[n] for n in members], [contents[n + 1] for n in members]
        which = [published.which[n] for n in members] if published.which else ()
        return LoadedRun(self.piece.sequence, starts, stops, self.data, published.addresses, which, published.time)


Shape = Callable[[Iterator[_Read]], list[T]]


class Lost(NamedTuple):
    """Damaged messages."""

    run: Run
    is_spilled: bool
    reason: str


class Fetched(NamedTuple):
    loaded: list[Loaded]
    lost: list[Lost]


def fetch(disk: ReadableDisk, queue: int, lane: int, pieces: Pieces, wall_ahead: float) -> Fetched:
    """Read messages out of the journal alone, checked."""
    read, lost = _reader(disk), list[Lost]()
    found = [each for one in _read((read, read), queue, lane, pieces, lost) for each in one.messages(wall_ahead)]
    return Fetched(found, lost)


def _reader(disk: ReadableDisk) -> Read:
    return lambda segment, offset, size: disk.read(segment_path(segment), offset, size)


def _read(readers: tuple[Read, Read], queue: int, lane: int, pieces: Pieces, lost: list[Lost]) -> Iterator[_Read]:
    """Out of the journal and the spill. Runs that lie next to each other are read at once."""
    windows = [_Window(read) for read in readers]
    for at, (is_spilled, run) in enumerate(pieces):
        window = windows[is_spilled]
        try:
            if not window.has(run.segment, run.offset):
                window.move(run.segment, run.offset, _reach(pieces, at))
            data, published = window.published(run.segment, run.offset)
            place = next(
                place
                for place in published.places
                if (place.queue, place.lane, place.sequence + run.skip) == (queue, lane, run.sequence)
            )
        except (Damage, StopIteration) as problem:
            lost.append(Lost(run, is_spilled, str(problem) or "another queue's message is there"))
            continue
        yield _Read(run, published.members(place)[run.skip : run.skip + run.number], published, data)


def _reach(pieces: Pieces, at: int) -> int:
    """Bytes to read at once for the run ``at`` and those close behind it."""
    is_spilled, first = pieces[at]
    end = first.offset + first.size + RECORD_SLACK
    for place in range(at + 1, len(pieces)):
        is_elsewhere, run = pieces[place][0] is not is_spilled, pieces[place][1]
        if is_elsewhere or run.segment != first.segment or not first.offset <= run.offset <= end + GAP:
            break
        end = max(end, run.offset + run.size + RECORD_SLACK)
        if end - first.offset >= READ_AHEAD:
            break
    return min(end - first.offset, READ_AHEAD)


class _Window:
    """A stretch of one file that was read ahead."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._segment = 0
        self._data = b""
        self._last: tuple[int, int, Published] | None = None  # many runs may lie in one record
        self.base = 0  # the offset of data[0] in the file

    def has(self, segment: int, offset: int) -> bool:
        """Whether all of the record there was read."""
        return segment == self._segment and self._holds(offset)

    def move(self, segment: int, offset: int, size: int) -> None:
        """Read so much from ``offset`` on, and the whole record there at least."""
        self._segment, self.base, self._last = segment, offset, None
        self._data = self._read(segment, offset, size)
        if len(self._data) >= HEAD_SIZE and not self._holds(offset):
            self._data = self._read(segment, offset, record_size(self._data, 0))

    def published(self, segment: int, offset: int) -> tuple[bytes, Published]:
        """The record at ``offset`` of the file, checked, and the data that it lies in."""
        if self._last is None or self._last[:2] != (segment, offset):
            self._last = None
            record = read_record(self._data, offset - self.base, segment, self.base)
            self._last = (segment, offset, read_publish(self._data, record))
        return self._data, self._last[2]

    def _holds(self, offset: int) -> bool:
        at = offset - self.base
        return 0 <= at <= len(self._data) - HEAD_SIZE and at + record_size(self._data, at) <= len(self._data)
