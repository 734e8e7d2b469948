"""Resource usage of the node: of its process, its disk, its event loop and its journal.

Reading the number of open files and the free disk space can block, so it is done in a thread: before each sample of the
history (stats/stats.py), and for each request that shows them.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from leveret.broker.broker import Broker
from leveret.config import Settings
from leveret.errors import BrokerStopped
from leveret.http.workers import InWorker
from leveret.machine import resident_memory
from leveret.server.loop_watch import LoopWatch
from leveret.stats.samples import Row
from leveret.stats.totals import MEMORY_KINDS
from leveret.store.store import Store

OPEN_FILES = Path("/proc/self/fd")
MICROSECONDS = 1_000_000


class Reading(NamedTuple):
    """Values reported by the operating system; None where it reports none."""

    memory: int | None = None
    files: int | None = None
    most_files: int | None = None
    disk_free: int | None = None
    disk_free_limit: int = 0
    threads: int = 0


class Measures:
    """Implements stats.NodeMeasures. Call ``read`` once before the first sample."""

    def __init__(
        self, broker: Broker, settings: Settings, in_worker: InWorker, loop_watch: LoopWatch, store: Store | None
    ) -> None:
        self._broker = broker
        self._path, self._limit_of = settings.data_dir, settings.disk_free_limit.of
        self._in_worker = in_worker
        self._loop_watch = loop_watch
        self._store = store
        self.latest = Reading()
        self._refreshing: asyncio.Task[None] | None = None

    async def read(self) -> Reading:
        self.latest = await self._in_worker(lambda: _read(self._path, self._limit_of))
        return self.latest

    def refresh(self) -> None:
        if self._refreshing is None or self._refreshing.done():  # it may take long: the disk may hang
            self._refreshing = asyncio.get_running_loop().create_task(self._refresh())

    async def _refresh(self) -> None:
        try:
            await self.read()
        except BrokerStopped:
            pass  # there are no further samples

    def stop(self) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()

    def row(self) -> Row:
        reading, sockets = self.latest, len(self._broker.registry)
        memory = self._broker.memory_users.breakdown()
        return (
            reading.disk_free or 0,
            reading.files if reading.files is not None else sockets,
            sockets,
            reading.threads,
            int(self._loop_watch.longest * MICROSECONDS),
            _cpu_time(),
            *self._disk(),
            *(memory.get(kind, 0) for kind in MEMORY_KINDS),
        )

    def _disk(self) -> tuple[int, ...]:
        """Of the journal: syncs and their time, writes, written bytes and their time; of all files: reads, read bytes
        and their time. There are none without a store."""
        store = self._store
        if store is None or store.writer is None:
            return (0,) * 8
        writer, disk = store.writer, store.disk
        sync_time, write_time, read_time = [
            int(seconds * MICROSECONDS) for seconds in (writer.sync_seconds, writer.write_seconds, disk.read_seconds)
        ]
        return (
            *(writer.syncs, sync_time, writer.writes, writer.written_bytes, write_time),
            *(disk.reads, disk.read_bytes, read_time),
        )


def _cpu_time() -> int:
    """Of all threads of the process, in microseconds."""
    times = os.times()
    return int((times.user + times.system) * MICROSECONDS)


def _read(path: Path | None, limit_of: Callable[[int], int]) -> Reading:
    total, free = _disk(path)
    return Reading(
        memory=resident_memory(),
        files=_open_files(),
        most_files=_most_files(),
        disk_free=free,
        disk_free_limit=0 if total is None else limit_of(total),
        threads=threading.active_count(),
    )


def _disk(path: Path | None) -> tuple[int | None, int | None]:
    """Total and free bytes of the disk with the data directory, or else with the working directory."""
    try:
        total, _, free = shutil.disk_usage(path or Path.cwd())
    except OSError:
        return None, None
    return total, free


def _open_files() -> int | None:
    try:
        return len(os.listdir(OPEN_FILES)) - 1  # minus the descriptor of the listing itself
    except OSError:
        return None


def _most_files() -> int | None:
    try:
        import resource
    except ImportError:
        return None
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
