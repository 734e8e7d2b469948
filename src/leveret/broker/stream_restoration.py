"""Restores streams at the start: their files are opened, then messages that only the journal has are added.

open_streams      opens the files in a worker, before the broker does anything: dead letters may go to a stream at once
restore_streams   restores the offsets
load_streams      reads messages that were granted but not yet written from the journal, and writes them first
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from leveret.backlog.backlog import LeftLane
from leveret.broker.broker import Broker
from leveret.errors import StoreError
from leveret.logs import get_log
from leveret.queues.stream import StreamQueue
from leveret.queues.stream_options import SEGMENT_BYTES
from leveret.store.disk import Disk
from leveret.store.pages import Loaded
from leveret.store.stream_files import StreamFiles, StreamRun, left_streams

READ_BYTES = 4 << 20


def streams_of(broker: Broker) -> list[StreamQueue]:
    queues = [queue for vhost in broker.vhosts.values() for queue in vhost.queues.values()]
    return [stream for queue in queues if (stream := queue.stream) is not None]


def open_streams(broker: Broker) -> None:
    """Blocks: call it in a worker. StoreError if a stream cannot be opened."""
    for queue in streams_of(broker):
        try:
            queue.files.open()
        except OSError as problem:
            raise StoreError(
                f"stream '{queue.name}' in vhost '{queue.vhost}' cannot be opened: {problem}; restore a backup, or "
                f"move the folder streams/{queue.id} of the data directory away"
            ) from problem


def remove_orphans(disk: Disk, queues: Collection[int]) -> None:
    """Blocks: call it in a worker. Remove the files of deleted streams that a crash left behind."""
    for id_ in left_streams(disk):
        if id_ not in queues:
            get_log("streams").info("removing files of a deleted stream", stream=id_)
            try:
                StreamFiles(disk, id_, SEGMENT_BYTES).remove()
            except OSError as problem:  # they only take space
                get_log("streams").warning(
                    "files of a deleted stream cannot be removed", stream=id_, reason=str(problem)
                )


def restore_streams(broker: Broker, lanes: Iterable[LeftLane]) -> int:
    """The number of messages in all streams."""
    tails = {left.queue: left.tail for left in lanes}
    total = 0
    for vhost in broker.vhosts.values():
        vhost.stream_offsets.restore()
    for queue in streams_of(broker):
        queue.restore(tails.get(queue.id, 1) - 1)
        total += queue.tail - queue.first_offset
    return total


def load_streams(broker: Broker, done: Callable[[], None]) -> None:
    waiting = streams_of(broker)

    def next_one() -> None:
        if waiting:
            _Loading(waiting.pop(), next_one).start()
        else:
            done()

    next_one()


def close_streams(broker: Broker) -> None:
    """The last job of the worker: sync and close the files."""
    for stream in streams_of(broker):
        stream.close()
        broker.stream_workers.write(stream.files.close, lambda result: None)


class _Loading:
    """Loads the messages of one stream that are in the journal but not in its files."""

    def __init__(self, queue: StreamQueue, done: Callable[[], None]) -> None:
        self._queue = queue
        self._stop = queue.writer.left_below + 1
        self._done = done

    def start(self) -> None:
        queue = self._queue
        there = queue.files.next  # sequences up to this are in the files
        pages = queue.context.pages
        first = None if pages is None else pages.next_sequence(queue.id, 0, 0)
        if first is not None and first <= there:
            queue.context.log.settle(queue.id, 0, first, there + 1 - first)
        self._load(there + 1)

    def _load(self, sequence: int) -> None:
        queue = self._queue
        pages = queue.context.pages
        first = None if pages is None or not queue.alive else pages.next_sequence(queue.id, 0, sequence)
        if pages is None or first is None or first >= self._stop:
            queue.writer.left_is_here()
            self._done()
            return
        pages.load(queue.id, 0, first, self._stop, READ_BYTES, lambda loaded: self._loaded(loaded, first))

    def _loaded(self, loaded: list[Loaded], first: int) -> None:
        if loaded and self._queue.alive:
            self._queue.take_left(runs_of(loaded))
        self._load(loaded[-1].sequence + 1 if loaded else first + 1)


def runs_of(loaded: list[Loaded]) -> list[StreamRun]:
    """Consecutive messages with the same address and time form a run."""
    runs: list[StreamRun] = []
    begin = 0
    for at, (sequence, message, time) in enumerate(loaded):
        following = loaded[at + 1] if at + 1 < len(loaded) else None
        if (
            following is None
            or following.sequence != sequence + 1
            or following.time != time
            or following.message[1] is not message[1]
        ):
            part = loaded[begin : at + 1]
            runs.append(StreamRun(part[0].sequence - 1, int(time * 1_000_000), tuple(each.message for each in part)))
            begin = at + 1
    return runs
