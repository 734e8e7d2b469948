"""Copies messages of a stream from the journal to its files.

A publish to a stream is confirmed by the journal, like every publish. Messages that the journal has granted are then
written to the stream's own files, in a worker, and are visible from then on. Once the files are synced, the copy in the
journal is settled and its space can be reclaimed. After a crash, unsettled messages are read from the journal; messages
that are already in the files are skipped by their offsets.

If the disk is full, or there are no file descriptors, the write is retried every second: nothing is lost, since the
journal has the messages. After any other failure the stream is no longer written. In both cases an alarm blocks
publishers, because unwritten messages wait in memory. After a failure the files are not touched again before a restart,
which then continues with the copy in the journal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from leveret.logs import get_log
from leveret.store.disk import NO_FILES_REASON, is_shortage, lacks_files
from leveret.store.stream_files import StreamRun

if TYPE_CHECKING:
    from leveret.backlog.context import Cancellable
    from leveret.queues.stream import StreamQueue

SYNC_BYTES = 16 << 20  # written and not synced, before a sync is forced
SYNC_AFTER = 0.5  # seconds between a write and its sync
TRY_AGAIN = 1.0  # seconds, when the disk is full or there are no file descriptors
SMALLEST_LOOK, LARGEST_LOOK = 1.0, 60.0  # seconds between two checks of the age of the oldest messages


class StreamWriter:
    __slots__ = (
        "_age_timer",
        "_first",
        "_is_busy",
        "_is_over",
        "_is_short",
        "_left",
        "_queue",
        "_sync_timer",
        "_synced",
        "_unsynced",
        "_waiting",
        "failure",
        "left_below",
    )

    def __init__(self, queue: StreamQueue) -> None:
        self._queue = queue
        self._waiting: list[StreamRun] = []
        self._left: list[StreamRun] | None = None  # messages from before the start, until all are loaded
        self._is_busy = False  # a job is in the worker, or the disk is full
        self._is_short = False
        self._is_over = False
        self._unsynced = 0  # bytes
        self._synced = 0  # below this offset everything is on disk, and settled in the journal
        self._first = 0  # the first offset that the log was told
        self._sync_timer: Cancellable | None = None
        self._age_timer: Cancellable | None = None
        self.left_below = 0  # the end of the stream before the start
        self.failure: str | None = None

    @property
    def is_idle(self) -> bool:
        """Whether everything that was granted is in the files."""
        return not self._is_busy and not self._waiting and not self._left

    # ---- after a start

    def begin(self, synced: int, tail: int) -> None:
        """The files have everything below ``synced``, and the journal has the rest. Nothing is written before
        ``left_is_here``."""
        self._synced = synced
        self._left = []
        self.left_below = tail

    def take_left(self, runs: list[StreamRun]) -> None:
        assert self._left is not None
        self._left += runs

    def left_is_here(self) -> None:
        """All messages from before the start are loaded; those published meanwhile follow them."""
        left, self._left = self._left or [], None
        if self._synced < self.left_below:
            left.append(StreamRun(self.left_below, 0, ()))  # readers skip damaged messages at the end
        self._waiting = left + self._waiting
        self._go()

    # ---- writing

    def take(self, runs: list[StreamRun]) -> None:
        self._waiting += runs
        self._go()

    def _go(self) -> None:
        if self._is_busy or not self._waiting or self.failure is not None or self._left is not None or self._is_over:
            return
        runs, self._waiting = self._waiting, []
        size = sum([len(message[0]) for run in runs for message in run.messages])
        self._unsynced += size
        syncs = self._unsynced >= SYNC_BYTES
        self._is_busy = True
        files, trim = self._queue.files, self._trimming()

        def write() -> int:
            files.append(runs)
            trim()
            return files.sync() if syncs else 0

        self._queue.context.stream_workers.write(write, lambda result: self._written(result, runs, size))

    def _written(self, result: object, runs: list[StreamRun], size: int) -> None:
        self._is_busy = False
        if not self._queue.alive:
            return
        if isinstance(result, Exception):
            self._waiting = runs + self._waiting
            self._unsynced -= size
            self._failed(result)
            return
        if self._is_short:
            self._is_short = False
            self._alarm(None)
        assert isinstance(result, int)
        self._report_first()
        self._queue.written(runs, size)
        if result:
            self._settle(result)
        elif self._sync_timer is None and not self._is_over:
            self._sync_timer = self._after(SYNC_AFTER, self._sync)
        self._go()

    def _after(self, seconds: float, call: Callable[[], None]) -> Cancellable:
        context = self._queue.context
        return context.schedule(context.now() + seconds, call)

    # ---- syncing

    def _sync(self) -> None:
        self._sync_timer = None
        if self._queue.alive and self.failure is None and not self._is_over:
            self._queue.context.stream_workers.write(self._queue.files.sync, self._is_synced)

    def _is_synced(self, result: object) -> None:
        if isinstance(result, Exception):
            self._failed(result)
        elif self._queue.alive:
            assert isinstance(result, int)
            self._settle(result)

    def _settle(self, synced: int) -> None:
        """Settle messages in the journal that are in the files."""
        queue = self._queue
        self._unsynced = 0
        if synced > self._synced:
            queue.context.log.settle(queue.id, 0, self._synced + 1, synced - self._synced)
            self._synced = synced

    # ---- failures

    def _failed(self, problem: Exception) -> None:
        queue = self._queue
        if self._is_over or self.failure is not None:
            return
        log = get_log("streams")
        facts = {"queue": queue.name, "vhost": queue.vhost, "reason": str(problem)}
        if isinstance(problem, OSError) and is_shortage(problem):
            if not self._is_short:
                self._is_short = True
                why = NO_FILES_REASON if lacks_files(problem) else "disk full"
                log.warning(f"{why}, stream is blocked", **facts)
                self._alarm(f"{why}: stream '{queue.name}' is blocked")
            self._is_busy = True
            self._rewind()
            return
        self.failure = str(problem)
        log.error("stream cannot be written until a restart, confirmed messages are in the journal", **facts)
        self._alarm(f"stream '{queue.name}' cannot be written: {problem}")

    def _rewound(self, result: object) -> None:
        if isinstance(result, OSError) and is_shortage(result):
            self._after(TRY_AGAIN, self._rewind)
        elif isinstance(result, Exception):
            self._failed(OSError(None, f"cannot be repaired after the disk was full: {result}"))
        else:
            self._after(TRY_AGAIN, self._try_again)

    def _rewind(self) -> None:
        self._queue.context.stream_workers.write(self._queue.files.rewind, self._rewound)

    def _try_again(self) -> None:
        self._is_busy = False
        self._go()

    def _alarm(self, reason: str | None) -> None:
        self._queue.context.callbacks.set_alarm(f"stream {self._queue.id}", reason)

    # ---- retention

    def _trimming(self) -> Callable[[], object]:
        """The job of the worker that applies retention."""
        queue = self._queue
        retention, files = queue.retention, queue.files
        if retention.max_bytes is None and retention.max_age is None:
            return lambda: None
        before = None if retention.max_age is None else queue.wall_time() - int(retention.max_age * 1_000_000)
        keep_from = queue.readers.bookmarks.pinned_at()
        return lambda: files.trim(max_bytes=retention.max_bytes, before=before, keep_from=keep_from)

    def trim(self) -> None:
        """Apply retention now, without a write."""
        queue = self._queue
        if queue.alive and self.failure is None and not self._is_over and queue.files.bytes:
            queue.context.stream_workers.write(self._trimming(), self._trimmed)

    def _trimmed(self, result: object) -> None:
        self._report_first()
        self._queue.touch()

    def _report_first(self) -> None:
        queue = self._queue
        first = queue.files.first
        if first != self._first and queue.alive:
            self._first = first
            queue.context.log.streams.trimmed(queue.id, first)

    def watch_age(self) -> None:
        """Remove old messages even if no new messages are published."""
        if self._age_timer is not None:
            self._age_timer.cancel()
            self._age_timer = None
        seconds = self._queue.retention.max_age
        if seconds is not None and self._queue.alive and not self._is_over:
            self._age_timer = self._after(min(max(seconds / 10, SMALLEST_LOOK), LARGEST_LOOK), self._check_age)

    def _check_age(self) -> None:
        self._age_timer = None
        self.trim()
        self.watch_age()

    # ---- stopping

    def stop(self) -> None:
        """Send no more jobs to the worker."""
        self._is_over = True
        for timer in (self._sync_timer, self._age_timer):
            if timer is not None:
                timer.cancel()
        self._sync_timer = self._age_timer = None
        self._waiting.clear()
        self._left = None
        if self._is_short or self.failure is not None:
            self._alarm(None)
