"""State that survives a restart: sessions of the management UI, the history of the node, and failed Spark queries.

Each is a small file in the data directory (store/state_file.py), written in a thread: every minute, at a shutdown, and
soon after a change that must not be lost. A file that cannot be read or written is reported in the log and has no other
consequence; a broker without a data directory has no files.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from leveret.broker.broker import Broker
from leveret.errors import BrokerStopped
from leveret.http.sessions import Sessions
from leveret.http.workers import InWorker
from leveret.logs import LogInterval, get_log
from leveret.pipeline import spark_queries
from leveret.pipeline.spark_queries import SparkQueries
from leveret.stats import history
from leveret.stats.stats import Stats
from leveret.store.state_file import StateFile

EVERY = 60.0  # seconds
REPORT_EVERY = 3600.0  # seconds between two log lines about a file that cannot be written
LARGEST_SESSIONS = 4 << 20  # bytes
DISK_ALARMS = {"disk", "files", "store"}

Encode = Callable[[], bytes]  # run in a thread

log = get_log("http")


class SavedState:
    """``snapshot`` is called on the event loop, what it returns in a thread; None if nothing has changed."""

    def __init__(
        self,
        broker: Broker,
        in_worker: InWorker,
        file: StateFile,
        snapshot: Callable[[], Encode | None],
        restore: Callable[[bytes], None],
    ) -> None:
        self._broker = broker
        self._in_worker = in_worker
        self._file = file
        self._snapshot = snapshot
        self._restore = restore
        self._timer: asyncio.TimerHandle | None = None
        self._saving: asyncio.Task[None] | None = None
        self._is_wanted = False  # once more, because something has changed meanwhile
        self._unwritten: Encode | None = None  # the latest state, if it could not be written
        self._reports = LogInterval(REPORT_EVERY)

    async def load(self) -> None:
        try:
            data = await self._in_worker(self._file.read)
            if data is not None:
                self._restore(data)
        except (OSError, ValueError) as problem:
            log.warning("saved state ignored", file=self._file.path, reason=str(problem))

    def start(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(EVERY, self._due)

    def _due(self) -> None:
        self.save_soon()
        self.start()

    def save_soon(self) -> None:
        """In a thread; a change during a save is saved after it."""
        if self._saving is not None and not self._saving.done():
            self._is_wanted = True
            return
        self._saving = asyncio.get_running_loop().create_task(self._save())

    async def _save(self) -> None:
        while True:
            self._is_wanted = False
            await self._save_once()
            if not self._is_wanted:
                return

    async def _save_once(self) -> None:
        if DISK_ALARMS & self._broker.alarms.keys():
            return
        encode = self._snapshot() or self._unwritten
        if encode is None:
            return
        self._unwritten = encode
        try:
            await self._in_worker(lambda: self._file.write(encode()))
            self._unwritten = None
        except BrokerStopped:
            pass
        except OSError as problem:
            if self._reports.is_due(asyncio.get_running_loop().time()):
                log.warning("state not saved", file=self._file.path, reason=str(problem))

    async def stop(self, seconds: float) -> None:
        """Save once more, unless the disk takes longer."""
        if self._timer is None:
            return
        self._timer.cancel()
        self.save_soon()
        if self._saving is not None:
            await asyncio.wait([self._saving], timeout=seconds)
            self._saving.cancel()


def saved_sessions(broker: Broker, in_worker: InWorker, folder: Path, sessions: Sessions) -> SavedState:
    state = SavedState(
        broker, in_worker, StateFile(folder, "sessions", LARGEST_SESSIONS), sessions.snapshot, sessions.restore
    )
    sessions.saver = state
    return state


def saved_history(broker: Broker, in_worker: InWorker, folder: Path, stats: Stats) -> SavedState:
    def snapshot() -> Encode:
        saved = stats.saved()
        return lambda: history.encoded(saved)

    file = StateFile(folder, "history", history.LARGEST)
    return SavedState(broker, in_worker, file, snapshot, lambda data: stats.restore(history.decoded(data)))


def saved_queries(broker: Broker, in_worker: InWorker, folder: Path, queries: SparkQueries) -> SavedState:
    file = StateFile(folder, "failed_queries", spark_queries.LARGEST)
    state = SavedState(broker, in_worker, file, queries.snapshot, queries.restore)
    queries.saver = state
    return state
