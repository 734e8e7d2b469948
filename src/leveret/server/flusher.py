"""The threads of the store: one that writes, one that reads, one that writes streams, one that writes checkpoints.

The writer takes all batches that wait, writes and syncs them at once, and reports to the loop. While it syncs, the
next batches accumulate: this is the group commit. The reader does blocking work for the loop: paged reads, reads of
segments for reclaim, checks of the free space, requests. Its jobs run one after the other. Streams are written after
the journal, and their syncs must not delay anything else: they have a thread of their own, and so do checkpoints.
"""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Callable
from errno import EIO
from queue import Empty, SimpleQueue

from leveret.broker.broker import Broker
from leveret.logs import get_log
from leveret.server.requests import Requests
from leveret.server.ticker import Ticker
from leveret.store.ack_wait import WAIT
from leveret.store.batch import Batch
from leveret.store.disk import NO_FILES_REASON, is_shortage, lacks_files
from leveret.store.store import Store
from leveret.store.writer import Writer

Job = tuple[Callable[[], object], Callable[[object], None]]
OnLoop = Callable[[Callable[[], None]], None]

LAZY = 0.1  # seconds that settles wait for other writes, if there is nothing else to write
LOOK_EVERY = 0.25  # seconds between checks of the free space, and for requests
NO_ERA = 1 << 62
DISK = "disk"
FILES = "files"
STORE = "store"


class Worker:
    """A thread that runs jobs one after the other. ``on_loop`` passes their results to the event loop."""

    def __init__(self, name: str, on_loop: OnLoop) -> None:
        self._on_loop = on_loop
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._is_abandoned = False
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        """End the thread after the jobs that are queued."""
        self._jobs.put(None)

    def abandon(self) -> None:
        """The running job hangs: run no other job after it."""
        self._is_abandoned = True

    def do(self, job: Callable[[], object], done: Callable[[object], None]) -> None:
        """``done`` gets the result on the loop, or the exception."""
        self._jobs.put((job, done))

    def _run(self) -> None:
        while (work := self._jobs.get()) is not None and not self._is_abandoned:
            job, done = work
            try:
                result = job()
            except Exception as problem:  # noqa: BLE001 - it is passed to the caller
                result = problem
            self._on_loop(lambda done=done, result=result: done(result))  # type: ignore[misc]


class Flusher:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        broker: Broker,
        ticker: Ticker,
        store: Store,
        disk_free_limit: Callable[[int], int],
    ) -> None:
        self._loop = loop
        self._broker = broker
        self._ticker = ticker
        self._store = store
        self._disk_free_limit = disk_free_limit  # computes the limit from the size of the disk
        self._batches: SimpleQueue[Batch | None] = SimpleQueue()
        self._void = -1  # eras up to this one have failed
        self._writer = threading.Thread(target=self._write, name="leveret-writer", daemon=True)
        self._reader = Worker("leveret-reader", self._on_loop)
        self._streams = Worker("leveret-streams", self._on_loop)
        self._checkpoints = Worker("leveret-checkpoints", self._on_loop)
        self._idle = asyncio.Event()
        self._watch: asyncio.TimerHandle | None = None
        self._is_looking = False
        self._lacks_files = False  # the store could not open a file
        self._requests = Requests(store, self._reader.do)
        self._log = get_log("store")

    def start(self) -> None:
        self._store.start(self)
        self._broker.stream_workers.attach(self._reader, self._streams)
        self._writer.start()
        self._reader.start()
        self._streams.start()
        self._checkpoints.start()
        self._requests.start()
        self._look()

    # ---- for the store (store.store.StoreThreads)

    def submit(self, batch: Batch) -> None:
        self._batches.put(batch)

    def submit_later(self) -> None:
        self._loop.call_later(LAZY, self._store.journal.hand_over)

    def wait_for_acks(self) -> None:
        self._loop.call_later(WAIT, self._ticker.run, self._store.journal.acks_awaited)

    def in_worker(self, job: Callable[[], object], done: Callable[[object], None]) -> None:
        self._reader.do(job, done)

    def in_background(self, job: Callable[[], object], done: Callable[[object], None]) -> None:
        self._checkpoints.do(job, done)

    async def stop(self, seconds: float) -> bool:
        """Write the clean-shutdown record, wait for the disk as long as allowed, and end the threads; whether they
        ended."""
        if self._watch is not None:
            self._watch.cancel()
        deadline = self._loop.time() + seconds
        journal = self._store.journal
        journal.stop()
        self._idle.clear()
        if journal.batches.in_flight:
            try:
                await asyncio.wait_for(self._idle.wait(), seconds)
            except TimeoutError:
                self._log.error(
                    "disk did not respond within the shutdown timeout, unconfirmed messages may be lost",
                    seconds=seconds,
                )
        self._requests.stop()
        self._batches.put(None)
        self._reader.stop()
        self._streams.stop()
        self._checkpoints.stop()
        patience = min(seconds, 1.0)
        await self._loop.run_in_executor(None, self._join, patience, max(deadline - self._loop.time(), patience))
        self._void = NO_ERA  # a hanging thread that continues later writes nothing more
        self._streams.abandon()
        return not self._writer.is_alive() and not self._streams.thread.is_alive()

    def _join(self, seconds: float, streams: float) -> None:
        """The streams' thread still has a sync to do."""
        for thread, patience in (
            (self._streams.thread, streams),
            (self._writer, seconds),
            (self._reader.thread, seconds),
            (self._checkpoints.thread, seconds),
        ):
            if thread.is_alive():
                thread.join(patience)

    # ---- the writer's thread

    def _write(self) -> None:
        writer = self._store.writer
        assert writer is not None
        while (batch := self._batches.get()) is not None:
            batches = [batch]
            ends = False
            try:
                while (more := self._batches.get_nowait()) is not None:
                    batches.append(more)
                ends = True
            except Empty:
                pass
            batches = [each for each in batches if each.era > self._void]
            if batches:
                self._run(writer, batches)
            if ends:
                return

    def _run(self, writer: Writer, batches: list[Batch]) -> None:
        try:
            writer.run(batches)
        except OSError as problem:
            self._void = max(self._void, batches[-1].era)
            try:
                writer.abandon(cut=is_shortage(problem))
            except OSError as second:
                problem = problem if is_shortage(second) else second
            self._on_loop(lambda failed=problem: self._failed(failed))  # type: ignore[misc]
        else:
            self._on_loop(lambda: self._done(batches[-1]))

    def _on_loop(self, call: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(self._ticker.run, call)
        except RuntimeError:
            self._log.debug("event loop closed before the write finished")  # stopping took too long

    # ---- back on the loop

    def _done(self, batch: Batch) -> None:
        if self._store.replicator is not None:
            self._store.replicator.written(batch)  # ``finish`` follows when the log has it too
        else:
            self.finish(batch)

    def finish(self, batch: Batch) -> None:
        journal = self._store.journal
        journal.done(batch)
        self._store.reclaim.consider()
        self._store.checkpoints.consider()
        if not journal.batches.in_flight:
            self._idle.set()

    def _failed(self, problem: OSError) -> None:
        journal = self._store.journal
        if self._store.replicator is not None:  # what the log has cannot be placed again elsewhere
            self._store.replicator.failed(problem)  # ``give_up`` follows
            return
        if lacks_files(problem):
            self._lacks_files = True
            self._log.error("out of file descriptors, publishers are blocked", reason=str(problem))
            self._broker.set_alarm(FILES, NO_FILES_REASON)
        elif is_shortage(problem):
            self._log.error("disk full, publishers are blocked", path=self._store.path)
            self._broker.set_alarm(DISK, "disk full")
        journal.failed(problem)
        self._requests.failed(problem)
        if journal.failure is not None:
            self._log.error("write or sync failed, the store is read-only until a restart", reason=str(problem))
            self._broker.set_alarm(STORE, f"store read-only: {problem.strerror or problem}")
            self._idle.set()

    def give_up(self, reason: str) -> None:
        """Write and grant nothing more: another node leads."""
        if self._void == NO_ERA:
            return  # stopped
        self._void = NO_ERA
        problem = OSError(EIO, reason)
        self._log.error("the journal is not written any more", reason=reason)
        self._store.journal.failed(problem)
        self._requests.failed(problem)
        self._broker.set_alarm(STORE, f"store read-only: {reason}")
        self._broker.stop_deliveries(reason)
        self._idle.set()

    def _look(self) -> None:
        """Measure the free space, in the reader's thread since even that may hang."""
        self._watch = self._loop.call_later(LOOK_EVERY, self._look)
        if not self._is_looking:
            self._is_looking = True
            self._reader.do(self._measure, self._looked)
            self._requests.look()

    def _measure(self) -> tuple[int, int, bool]:
        """Total bytes, free bytes, and whether there are file descriptors to spare."""
        usage = shutil.disk_usage(self._store.path)
        return usage.total, usage.free, self._store.spare.refill()

    def _looked(self, result: object) -> None:
        self._is_looking = False
        if not isinstance(result, tuple):
            return
        total, free, has_files = result
        limit = self._disk_free_limit(total)
        journal = self._store.journal
        reserve = self._store.writer is not None and self._store.writer.reserve_size
        lacked_files, self._lacks_files = self._lacks_files, self._lacks_files and not has_files
        if (
            journal.batches.held is not None
            and not self._lacks_files
            and free > max(limit, journal.batches.held_bytes + 2 * reserve)
        ):
            journal.space_returned()
        self._store.pages.try_again()
        if journal.failure is not None and STORE not in self._broker.alarms:
            self._broker.set_alarm(STORE, f"store read-only: {journal.failure}")
        if lacked_files and not self._lacks_files:
            self._broker.set_alarm(FILES, None)
        is_low = free < limit or (journal.batches.held is not None and not self._lacks_files)
        if is_low and DISK not in self._broker.alarms:
            self._broker.set_alarm(DISK, "free disk space below limit", free=free, limit=limit)
        elif not is_low and DISK in self._broker.alarms:
            self._broker.set_alarm(DISK, None, free=free, limit=limit)
