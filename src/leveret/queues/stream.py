"""A stream: a queue that keeps its messages after they were read. Append-only, with offsets, for any number of readers.

Theory of operation. A publish gives each message the next offset and writes it to the journal, which confirms it.
Messages that the journal has granted are copied to the stream's own files (queues/stream_writer.py) and become visible:
readers (queues/stream_readers.py) read only below ``next_offset``, so they never get a message that a crash could lose.

    publish ──> pending ──granted──> writing ──written──> files, recent ──> readers
                (journal)                                  └─synced──> settled in the journal

The sequence of a message in the journal is its offset plus one. Retention removes whole segments of the files from the
front. The files of a deleted stream are removed once its deletion is on disk; after a crash in between, the next start
removes them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from leveret.backlog.backlog import Observer
from leveret.backlog.context import PER_MESSAGE
from leveret.backlog.counters import QueueCounters
from leveret.backlog.walk import START, Position, Visitor
from leveret.clock import TimeSlice
from leveret.delivery.consumer import Consumer
from leveret.delivery.consumer_ring import ConsumerRing
from leveret.message import Message
from leveret.queues.context import QueueContext
from leveret.queues.declared_queue import Declaration, DeclaredQueue, GetResult
from leveret.queues.options import QueueOptions
from leveret.queues.stream_options import Retention, checked_reader, get_unsupported, purge_unsupported
from leveret.queues.stream_readers import StreamReaders
from leveret.queues.stream_walk import StreamWalk
from leveret.queues.stream_writer import StreamWriter
from leveret.store.log import Placement
from leveret.store.stream_files import SEGMENT_BYTES, StreamFiles, StreamRun


class StreamQueue(DeclaredQueue):
    __slots__ = (
        "_arrival",
        "_latest",
        "_pending",
        "_watchers",
        "accounted",
        "alive",
        "arguments",
        "auto_delete",
        "bytes",
        "can_reject",
        "consumers",
        "context",
        "counters",
        "counts_deliveries",
        "dirty",
        "durable",
        "files",
        "held",
        "id",
        "name",
        "next_offset",
        "observers",
        "options",
        "owner",
        "readers",
        "retention",
        "returning",
        "stored",
        "synced",
        "tail",
        "unacked",
        "vhost",
        "writer",
    )

    keeps_all = True
    has_offsets = True

    def __init__(self, declared: Declaration, context: QueueContext) -> None:
        assert context.stream_disk is not None
        self.id, self.name, self.vhost, self.options = declared[:4]
        self.context = context
        self.arguments = dict(declared.arguments)
        self.durable = self.stored = self.synced = self.alive = True
        self.auto_delete = self.dirty = self.can_reject = self.counts_deliveries = False
        self.owner: object | None = None
        self.returning = 0
        self.consumers = ConsumerRing()
        self.counters = QueueCounters()
        self.observers: list[Observer] = []
        self.unacked = self.bytes = self.held = self.accounted = 0
        self.files = StreamFiles(context.stream_disk, self.id, self.options.segment_bytes or SEGMENT_BYTES)
        self.retention = Retention()
        self.tail = 0  # the offset of the next message
        self.next_offset = 0  # messages below this are visible
        self._pending: deque[StreamRun] = deque()  # not granted yet
        self._latest: list[Message] = []  # messages of the last run
        self._arrival = 0  # arrival time of the last run; 0: later messages are in a run of their own
        self._watchers: list[tuple[int, Callable[[], None]]] = []  # (offset, callback when it is visible)
        self.readers = StreamReaders(self)
        self.writer = StreamWriter(self)
        self.apply(self.options)
        context.log.streams.add(self.id)

    def apply(self, options: QueueOptions) -> None:
        self.options = options
        self.synced = options.durability != "os"
        self.retention = Retention(options.max_bytes, options.max_age)
        self.writer.trim()
        self.writer.watch_age()

    # ---- counting

    @property
    def stream(self) -> StreamQueue:
        return self

    @property
    def total_bytes(self) -> int:
        return self.bytes + self.files.bytes + self.held

    def first_message(self) -> Message | None:
        run = self._first_run()
        return None if run is None else run.messages[0]

    def first_age(self) -> float | None:
        """Seconds since the first message arrived, if it is in memory."""
        run = self._first_run()
        return None if run is None else max(0.0, (self.wall_time() - run.time) / 1_000_000)

    def _first_run(self) -> StreamRun | None:
        recent, first = self.readers.recent, self.first_offset
        return recent.since(first, 1)[0] if self.ready and recent.covers(first) else None

    @property
    def first_offset(self) -> int:
        """The oldest offset that is kept."""
        return min(self.files.first, self.next_offset)

    @property
    def end_offset(self) -> int:
        """Messages below this are confirmed; some may not be in the files yet."""
        return max(self.next_offset, self._granted)

    @property
    def ready(self) -> int:
        return self.end_offset - self.first_offset

    @property
    def _granted(self) -> int:
        """Messages below this offset are in the journal or in the files."""
        pages = self.context.pages
        return self.tail if pages is None else pages.synced(self.id, 0) - 1

    def wall_time(self) -> int:
        """The wall time in microseconds since 1970."""
        return int((self.context.now() + self.context.wall_ahead()) * 1_000_000)

    # ---- messages in

    def publish(self, run: list[Message], size: int, timed: bool) -> None:
        """Publish without waiting for the log. A stream stores all messages, including transient ones."""
        placements = self.place(run, size, timed)
        if placements:
            self.context.log.append(run, placements, self.synced)

    def place(self, run: list[Message], size: int, timed: bool) -> list[Placement]:
        if not self.alive:
            return []
        first = self.tail
        self.tail = first + len(run)
        arrival = self.context.log.streams.arrival() or self._arrival or self.wall_time()
        if arrival == self._arrival and self._latest[-1][1] is run[0][1]:
            self._latest += run  # the run has one time and one address
        else:
            self._arrival = arrival
            self._latest = run[:]
            self._pending.append(StreamRun(first, self._arrival, self._latest))
        self.bytes += size
        self._await_grant()
        self.touch()  # to count the waiting messages
        return [Placement(self.id, 0, first + 1, len(run))]

    def _await_grant(self) -> None:
        if self.context.pages is not None:  # a log in memory grants at once
            self.context.unsynced[self] = None

    def _write_granted(self) -> None:
        self._arrival = 0  # later messages are in a run of their own
        granted, pending = self._granted, self._pending
        runs: list[StreamRun] = []
        while pending and pending[0].first + len(pending[0].messages) <= granted:
            runs.append(pending.popleft())
        if pending:
            self._await_grant()
        if runs:
            self.writer.take(runs)

    def written(self, runs: list[StreamRun], size: int) -> None:
        """These runs were written to the files."""
        self.next_offset = runs[-1].first + len(runs[-1].messages)
        self.bytes -= size
        self.readers.written(runs, size)
        self.touch()
        if self._watchers:
            self._tell_watchers()

    def when_visible(self, call: Callable[[], None]) -> None:
        """Call back when all messages that are confirmed now are visible, or can no longer become visible."""
        if self.next_offset >= self._granted or not self.alive or self.writer.failure is not None:
            call()
        else:
            self._watchers.append((self._granted, call))

    def _tell_watchers(self, all_of_them: bool = False) -> None:
        watchers, self._watchers = self._watchers, []
        for offset, call in watchers:
            if all_of_them or offset <= self.next_offset:
                call()
            else:
                self._watchers.append((offset, call))

    # ---- after a start

    def restore(self, tail: int) -> None:
        """Called when the files are open; messages below ``tail`` in the journal are passed to ``take_left``."""
        self.next_offset = self.files.next
        self.tail = max(tail, self.files.next)
        self.writer.begin(self.files.next, self.tail)

    def take_left(self, runs: list[StreamRun]) -> None:
        """Take messages from before the start that are in the journal only."""
        self.bytes += sum([len(message[0]) for run in runs for message in run.messages])
        self.writer.take_left(runs)

    # ---- messages out

    def touch(self) -> None:
        if not self.dirty and self.alive:
            self.dirty = True
            self.context.dirty.append(self)

    def drain(self) -> None:
        self.dirty = False
        if not self.alive:
            return
        self._write_granted()
        if not self.consumers.paused:
            self.readers.serve()
        self.account()
        for observer in self.observers:
            observer(self)

    def delivered(self, number: int, size: int, consumer: Consumer, first: int) -> None:
        """Record the delivery of ``number`` messages, from the offset ``first`` on."""
        self.counters.delivered += number
        self.unacked += number
        self.held += size

    def catch_up(self) -> None:
        self.context.deliveries.check()
        self.drain()
        self.dirty = True  # it is still in the list of dirty queues; the next drain finds nothing to do

    def settle_down(self, time_slice: TimeSlice | None = None) -> bool:
        if self.dirty:
            self.context.deliveries.check()
            self.drain()
        return True

    def account(self) -> None:
        gauge = self.context.gauge
        if gauge.is_short:
            self.readers.recent.clear()
        messages = self.unacked + self.tail - self.next_offset
        held = self.bytes + self.held + self.readers.memory + messages * PER_MESSAGE
        if self.context.pages is None:
            held += self.files.bytes  # without a disk the files are in memory
        gauge.used += held - self.accounted
        self.accounted = held
        self.counters.received = self.tail

    def get(self, no_ack: bool, by: object | None = None) -> GetResult | None:
        raise get_unsupported(self._title)

    def purge(self) -> int:
        raise purge_unsupported(self._title)

    @property
    def _title(self) -> str:
        return f"queue '{self.name}' in vhost '{self.vhost}'"

    # ---- acks

    def settle(self, lane: int, sequence: int, messages: list[Message]) -> None:
        self._settle(lane, sequence, messages, is_read=True)

    def requeue(self, lane: int, sequence: int, messages: list[Message], count: int, tried: bool = True) -> None:
        """Nothing is requeued: a named reader gets the messages again when it is restarted."""
        self._settle(lane, sequence, messages, is_read=False)

    def drop(self, lane: int, sequence: int, messages: list[Message]) -> None:
        self._settle(lane, sequence, messages, is_read=True)

    def _settle(self, lane: int, sequence: int, messages: list[Message], is_read: bool) -> None:
        if not self.alive:
            return
        self.unacked -= len(messages)
        self.held -= sum([len(message[0]) for message in messages])
        if is_read:
            self.counters.acked += len(messages)
        self.readers.settled(lane, sequence - 1, len(messages), is_read)
        self.touch()

    # ---- readers

    def add_consumer(self, consumer: Consumer) -> None:
        options = checked_reader(consumer, self._title, self.context.now() + self.context.wall_ahead())
        self.refuse_second(consumer)
        self.readers.bookmarks.refuse_reader(options.name)
        self.consumers.add(consumer)
        self.context.callbacks.count_memory(consumer.memory)
        self.readers.add(consumer, options)
        self.touch()

    def remove_consumer(self, consumer: Consumer) -> None:
        self.readers.remove(consumer)
        if self.consumers.remove(consumer):
            self.context.callbacks.count_memory(-consumer.memory)
            self.touch()

    def walk(self, visit: Visitor, on_progress: Callable[[], None], after: Position = START) -> StreamWalk:
        return StreamWalk(self, visit, on_progress, after)

    # ---- deletion

    def close(self) -> None:
        """Stop the stream at shutdown."""
        self._tell_watchers(all_of_them=True)
        self.readers.bookmarks.keep_all()
        self.writer.stop()

    def die(self) -> int:
        self.alive = False
        number = self.ready
        self.context.gauge.used -= self.accounted
        self.unacked = self.bytes = self.held = self.accounted = 0
        self.context.log.forget(self.id)
        self.cancel_consumers()
        self.writer.stop()
        self.readers.stop()
        self._tell_watchers(all_of_them=True)
        self._pending.clear()
        context, files = self.context, self.files
        context.callbacks.when_granted(lambda: context.stream_workers.write(files.remove, lambda result: None))
        return number
