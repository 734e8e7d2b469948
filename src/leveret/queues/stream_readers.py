"""All readers of a stream: where they start, what is read for them, and how they are served.

A reader at the end of the stream is served from memory. For the others the files are read in a worker, a little ahead,
and only when the consumer has room: a slow reader holds only what was delivered to it and what was read once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from leveret.backlog.context import PER_MESSAGE
from leveret.delivery.consumer import Consumer
from leveret.logs import get_log
from leveret.queues.stream_bookmarks import Bookmarks
from leveret.queues.stream_offset_header import OffsetHeaders
from leveret.queues.stream_options import ReaderOptions
from leveret.queues.stream_reader import StreamReader
from leveret.queues.stream_recent import Recent
from leveret.store.stream_files import StreamRun

if TYPE_CHECKING:
    from leveret.queues.stream import StreamQueue

BURST = 4096  # messages delivered to one reader before others are served
LOOKS = 1000  # messages that a filtered reader may check before that
AHEAD = 2048  # messages taken from memory at once
MOST_READ, LEAST_READ = 1 << 20, 64 << 10  # bytes read from the files at once
READ_PER_ROOM = 1 << 10  # bytes, for each message that the consumer has room for
TRY_AGAIN = 1.0  # seconds, when the files cannot be read


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
        """Bytes of memory, about."""
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
        """Deliver to one reader; False if it has room for more, but others are to be served first."""
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
        """Read ahead; whether there is something to deliver already."""
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
            reader.cursor = stop  # the missing messages were damaged, and that was logged
        queue.touch()

    def _not_loaded(self, reader: StreamReader, offset: int, problem: Exception) -> None:
        queue = self._queue
        if queue.first_offset > offset:  # removed by retention: continue with the first one that is kept
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
