"""All readers of a stream: their start offsets, reading ahead, and the order in which they are served.

A reader at the end of the stream is served from memory. For the others the files are read in a worker, a little ahead,
and only when the consumer has room: a slow reader keeps in memory only its deliveries and the result of one read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from leveret.backlog.context import PER_MESSAGE
from leveret.delivery.consumer import Consumer
from leveret.errors import AccessRefused, PreconditionFailed, ResourceFault
from leveret.logs import get_log
from leveret.queues.stream_offset_header import OffsetHeaders
from leveret.queues.stream_options import ReaderOptions
from leveret.queues.stream_reader import StreamReader
from leveret.store.stream_files import StreamRun

if TYPE_CHECKING:
    from leveret.backlog.context import Cancellable
    from leveret.queues.stream import StreamQueue

KEEP_AFTER = 1.0  # seconds
BURST = 4096  # messages delivered to one reader before others are served
LOOKS = 1000  # messages that a filtered reader may check before others are served
AHEAD = 2048  # messages taken from memory at once
MOST_READ, LEAST_READ = 1 << 20, 64 << 10  # bytes read from the files at once
READ_PER_ROOM = 1 << 10  # bytes, for each message that the consumer has room for
TRY_AGAIN = 1.0  # seconds, when the files cannot be read
MOST_BYTES = 2 << 20
SWEEP_FROM = 1024  # runs at the front that are gone before the lists are cut


class Bookmarks:
    """The positions of named readers, stored under their names so that they continue there after a restart.

    The acknowledged offset is stored a moment later: one write for many acks. After a crash, messages that a reader
    acknowledged in that moment are redelivered. A reader that was cancelled may still acknowledge its messages: these
    acks count until all messages are settled, or until another reader uses its name.
    """

    __slots__ = ("_gone", "_here", "_queue", "_timer")

    def __init__(self, queue: StreamQueue) -> None:
        self._queue = queue
        self._here: dict[str, StreamReader] = {}
        self._gone: dict[int, StreamReader] = {}  # by number: cancelled readers with unacknowledged messages
        self._timer: Cancellable | None = None

    def refuse_reader(self, name: str | None) -> None:
        """Refuse too many names, and a second reader of a name, which would skip messages not read by the first."""
        if name in self._here:
            queue = self._queue
            raise AccessRefused(
                f"consumer '{name}' of stream '{queue.name}' in vhost '{queue.vhost}' in exclusive use: cancel it, or "
                "take another x-stream-consumer"
            )
        book = self._queue.context.stream_offsets
        if name is not None and book is not None:
            book.refuse_too_many(self._queue.name, name)

    def enter(self, reader: StreamReader) -> int | None:
        """Add a reader; returns its stored offset, or None."""
        name, book = reader.options.name, self._queue.context.stream_offsets
        if name is None or book is None:
            return None
        self._here[name] = reader
        self._gone = {number: gone for number, gone in self._gone.items() if gone.options.name != name}
        found = book.get(self._queue.name, name)
        # A power failure may have lost the end of the stream.
        return None if found is None else min(found, self._queue.tail)

    def leave(self, reader: StreamReader) -> None:
        name = reader.options.name
        if name is not None and self._here.pop(name, None) is not None:
            self.keep(reader)
            if reader.unacked:
                self._gone[reader.number] = reader

    def find_gone(self, number: int) -> StreamReader | None:
        return self._gone.get(number)

    def moved(self, reader: StreamReader) -> None:
        """Called when the reader has settled messages."""
        if reader.options.name is None:
            return
        if not reader.unacked and self._gone.pop(reader.number, None) is not None:
            self.keep(reader)
        elif self._timer is None:
            context = self._queue.context
            self._timer = context.schedule(context.now() + KEEP_AFTER, self.keep_all)

    def keep_all(self) -> None:
        self._timer = None
        for reader in (*self._here.values(), *self._gone.values()):
            self.keep(reader)

    def keep(self, reader: StreamReader) -> None:
        queue, name, safe = self._queue, reader.options.name, reader.safe
        book = queue.context.stream_offsets
        if name is None or book is None or safe is None or safe == reader.stored or not queue.alive:
            return
        try:
            book.put(queue.name, name, safe, reader.options.pinned)
            reader.stored = safe
        except (
            ResourceFault,
            PreconditionFailed,
        ) as refusal:  # no client waits for an answer: the reader gets these messages again
            get_log("streams").warning(
                "offset of a stream consumer cannot be stored", consumer=name, reason=refusal.text
            )

    def pinned_at(self) -> int | None:
        """The lowest offset of a pinned reader."""
        book = self._queue.context.stream_offsets
        return None if book is None else book.pinned(self._queue.name)

    def stop(self) -> None:
        """The stream is deleted."""
        if self._timer is not None:
            self._timer.cancel()
        self._here.clear()
        self._gone.clear()
        if self._queue.context.stream_offsets is not None:
            self._queue.context.stream_offsets.forget(self._queue.name)


class Read(NamedTuple):
    runs: list[StreamRun]
    size: int  # of their contents


class StreamReaders:
    __slots__ = ("_headers", "_number", "_queue", "_readers", "bookmarks", "recent")

    def __init__(self, queue: StreamQueue) -> None:
        self._queue = queue
        self._readers: dict[int, StreamReader] = {}
        self._number = 0
        self._headers = OffsetHeaders()
        self.recent = Recent()
        self.bookmarks = Bookmarks(queue)

    def __len__(self) -> int:
        return len(self._readers)

    def __iter__(self) -> Iterator[StreamReader]:
        return iter(self._readers.values())

    @property
    def memory(self) -> int:
        """Approximate bytes of memory."""
        ahead = sum([reader.ahead_bytes for reader in self._readers.values()])
        return ahead + self.recent.bytes + self.recent.number * PER_MESSAGE

    # ---- adding and removing

    def add(self, consumer: Consumer, options: ReaderOptions) -> None:
        self._number += 1
        reader = self._readers[self._number] = StreamReader(self._number, consumer, options)
        stored = self.bookmarks.enter(reader)
        start = options.start if stored is None else stored
        if isinstance(start, float):
            files, time = self._queue.files, int(start * 1_000_000)
            reader.is_loading = True
            in_worker = self._queue.context.stream_workers.read
            in_worker(lambda: files.offset_at(time), lambda found: self._found(reader, found))
        else:
            self._begin(reader, self._offset_of(start))

    def _offset_of(self, start: str | int) -> int:
        queue = self._queue
        if isinstance(start, int):
            return start
        if start == "first":
            return queue.first_offset
        return queue.end_offset - 1 if start == "last" else queue.end_offset

    def _found(self, reader: StreamReader, offset: object) -> None:
        reader.is_loading = False
        if self._readers.get(reader.number) is reader:
            self._begin(reader, offset if isinstance(offset, int) else self._queue.first_offset)
            self._queue.touch()

    def _begin(self, reader: StreamReader, offset: int) -> None:
        """Start reading; a named reader has a stored offset from now on, even if it never acknowledges."""
        reader.cursor = max(offset, self._queue.first_offset)
        reader.consumer.starts_at(reader.cursor)
        self.bookmarks.keep(reader)

    def remove(self, consumer: Consumer) -> None:
        for number, reader in list(self._readers.items()):
            if reader.consumer is consumer:
                del self._readers[number]
                self.bookmarks.leave(reader)
        if not self._readers:
            self.recent.clear()

    def settled(self, number: int, offset: int, messages: int, is_read: bool) -> None:
        reader = self._readers.get(number) or self.bookmarks.find_gone(number)
        if reader is not None:
            reader.settled(offset, messages, is_read)
            self.bookmarks.moved(reader)

    def stop(self) -> None:
        """The stream is deleted."""
        self._readers.clear()
        self.recent.clear()
        self.bookmarks.stop()

    # ---- serving

    def written(self, runs: list[StreamRun], size: int) -> None:
        """These runs are visible from now on."""
        if self._readers:
            self.recent.add(runs, size)

    def serve(self) -> None:
        for reader in list(self._readers.values()):
            reader.looks = LOOKS
            if not self._serve(reader):
                self._queue.touch()

    def _serve(self, reader: StreamReader) -> bool:
        """Deliver to one reader; False if it has room for more, but others must be served first."""
        queue, consumer, left = self._queue, reader.consumer, BURST
        while left > 0:
            room = consumer.room()
            if room <= 0 or not (reader.ahead or self._read_ahead(reader, room)):
                return True
            most = 1 if consumer.one_shot else min(left, room)
            choose = reader.next_chosen if reader.is_filtered else reader.next_stretch
            first, stretch = choose(self._headers, most)
            if stretch:
                number, size = consumer.take(stretch, reader.number, first + 1, len(stretch))
                reader.given(first, number)
                queue.delivered(number, size, consumer, first)
                left -= number
                if consumer.one_shot:
                    queue.dismiss(consumer)
                    return True
            if reader.is_filtered and reader.looks <= 0:
                return False
        return False

    def _read_ahead(self, reader: StreamReader, room: int) -> bool:
        """Read ahead; returns whether there are messages to deliver already."""
        queue, cursor = self._queue, reader.cursor
        if reader.is_loading or cursor is None or cursor >= queue.next_offset:
            return False
        if self.recent.covers(cursor):
            runs = self.recent.since(cursor, AHEAD)
            reader.take_in(runs, 0)  # counted in ``recent``
            return bool(reader.ahead)
        reader.is_loading = True
        files, offset, stop = queue.files, max(cursor, queue.first_offset), queue.next_offset
        most = min(max(room * READ_PER_ROOM, LEAST_READ), MOST_READ)

        def read() -> Read:
            runs = files.read(offset, stop, most)
            return Read(runs, sum([len(message[0]) for run in runs for message in run.messages]))

        queue.context.stream_workers.read(read, lambda result: self._loaded(reader, offset, stop, result))
        return bool(reader.ahead)

    def _loaded(self, reader: StreamReader, offset: int, stop: int, result: object) -> None:
        reader.is_loading = False
        queue = self._queue
        if not queue.alive or self._readers.get(reader.number) is not reader:
            return
        if isinstance(result, Exception):
            self._not_loaded(reader, offset, result)
            return
        assert isinstance(result, Read)
        reader.cursor = offset
        reader.take_in(*result)
        if not reader.ahead:
            reader.cursor = stop  # the missing messages were damaged, which was logged
        queue.touch()

    def _not_loaded(self, reader: StreamReader, offset: int, problem: Exception) -> None:
        queue = self._queue
        if queue.first_offset > offset:  # removed by retention: continue with the oldest message that is kept
            reader.cursor = queue.first_offset
            queue.touch()
            return
        facts = {"queue": queue.name, "vhost": queue.vhost, "offset": offset, "reason": str(problem)}
        get_log("streams").error("stream cannot be read, will retry", **facts)
        reader.is_loading = True
        queue.context.schedule(queue.context.now() + TRY_AGAIN, lambda: self._try_again(reader))

    def _try_again(self, reader: StreamReader) -> None:
        reader.is_loading = False
        self._queue.touch()


class Recent:
    """The newest messages of a stream, in memory, for readers at its end: runs in the order of their offsets, without
    gaps up to the end of the stream."""

    __slots__ = ("_firsts", "_runs", "_start", "bytes", "number")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._runs: list[StreamRun] = []
        self._start = 0  # runs before this index are gone
        self.bytes = 0
        self.number = 0  # of messages

    def covers(self, offset: int) -> bool:
        return self._start < len(self._firsts) and self._firsts[self._start] <= offset

    def add(self, runs: Sequence[StreamRun], size: int) -> None:
        self._firsts += [run.first for run in runs]
        self._runs += runs
        self.bytes += size
        self.number += sum([len(run.messages) for run in runs])
        while self.bytes > MOST_BYTES:
            gone = self._runs[self._start].messages
            self._start += 1
            self.bytes -= sum([len(message[0]) for message in gone])
            self.number -= len(gone)
        if self._start > max(SWEEP_FROM, len(self._runs) // 2):
            del self._runs[: self._start], self._firsts[: self._start]
            self._start = 0

    def since(self, offset: int, most: int) -> list[StreamRun]:
        """Runs with the messages from ``offset`` on, about ``most``; ``offset`` must be covered."""
        found: list[StreamRun] = []
        at = bisect_right(self._firsts, offset) - 1
        number = self._firsts[at] - offset
        while number < most and at < len(self._runs):
            found.append(self._runs[at])
            number += len(self._runs[at].messages)
            at += 1
        return found

    def clear(self) -> None:
        self._firsts.clear()
        self._runs.clear()
        self._start = self.bytes = self.number = 0
