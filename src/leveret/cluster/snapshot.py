"""The leader's side of a copy of its data directory, for a member that cannot get there by the log alone.

The leader takes the same snapshot as for ``leveret backup``, of hard links. Its position is that of the leader's note,
which is written and read *before* the snapshot is taken: the files have all batches up to there, and some of the
following. The member applies these again, which has no effect (store/replica.py). Batches that are in the files and
never get into the log are overwritten by the log, as those of a former leader are.

    member                                  leader
    request "snapshot"              ->
                                    <-      {}                          the request is accepted
                                    <-      {"wait": true}              now and then, until the snapshot is taken
                                    <-      {"note", "bytes"}           or {"error"}
                                    <-      {"name", "size"}, the bytes, {"digest"}     for each file
                                    <-      {"done": true}

The member's side is in cluster/snapshot_copy.py.
"""

from __future__ import annotations

import asyncio
import shutil
import uuid
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from xxhash import xxh3_64

from leveret.cluster.link import Frame, Link
from leveret.errors import ClusterError
from leveret.logs import LogInterval, get_log
from leveret.store.backup import finish_snapshot, snapshot, snapshot_folder
from leveret.store.replica_note import read_note
from leveret.store.store import Store

SNAPSHOT = "snapshot"
CHUNK = 1 << 20
TAKE_SECONDS = 60.0  # until the writer must have taken the snapshot
WAIT_EVERY = 5.0
SEND_SECONDS = 60.0  # for a chunk: a snapshot keeps segments on disk that are not needed any more
BETWEEN_LINES = 2.0  # seconds between two log lines about the progress

T = TypeVar("T")


class Worker:
    """A thread for the files of one copy."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(1, "leveret-snapshot")

    async def do(self, job: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(job, *arguments))

    def end(self, job: Callable[[], object] = lambda: None) -> None:
        """Do this last, and do not wait for it."""
        self._threads.submit(job)
        self._threads.shutdown(wait=False)


class Progress:
    def __init__(self, of: int, **facts: object) -> None:
        self._done = 0
        self._of = of
        self._lines = LogInterval(BETWEEN_LINES)
        self._log = get_log("cluster").bind(**facts)

    def add(self, size: int) -> None:
        self._done += size
        if self._lines.is_due(asyncio.get_running_loop().time()):
            self._log.info("copying snapshot", percent=self._done * 100 // max(self._of, 1), bytes=self._of)

    def complete(self) -> None:
        self._log.info("snapshot copied", bytes=self._done)


class SnapshotService:
    """On the cluster port. ``store``: that of the leader's broker, None if this node does not lead. ``keep_note``
    writes the note now: an older one may be of a position that the log does not have any more."""

    def __init__(self, store: Callable[[], Store | None], keep_note: Callable[[], Awaitable[None]]) -> None:
        self._store = store
        self._keep_note = keep_note

    async def serve(self, link: Link, request: Frame) -> None:
        store = self._store()
        if store is None:
            await link.send({"error": "this node does not lead"})
            return
        await link.send({})
        try:
            await self._copy(link, store, str(request["node"]))
        except ClusterError as problem:
            await link.send({"error": str(problem)})

    async def _copy(self, link: Link, store: Store, node: str) -> None:
        worker, folder = Worker(), snapshot_folder(store.path, uuid.uuid4().hex)
        try:
            await self._keep_note()
            note = await worker.do(read_note, store.path)
            if note is None:
                raise ClusterError("the leader's data directory has no position yet")
            await _waiting(link, take_snapshot(store, folder))
            files = await _waiting(link, worker.do(finish_snapshot, folder))
            progress = Progress(sum(size for _, size in files), to=node)
            await link.send({"note": list(note), "bytes": sum(size for _, size in files)})
            for name, size in files:
                await self._send(link, worker, folder, (name, size), progress)
            await link.send({"done": True})
            progress.complete()
        finally:
            worker.end(partial(shutil.rmtree, folder, ignore_errors=True))

    async def _send(self, link: Link, worker: Worker, folder: Path, file: tuple[str, int], progress: Progress) -> None:
        name, left = file
        await link.send({"name": name, "size": left})
        digest = xxh3_64()
        opened = await worker.do(_open, folder / name)
        try:
            while left:
                part = await worker.do(opened.read, min(left, CHUNK))
                if not part:
                    raise ClusterError(f"the file {name} of the snapshot is shorter than it was")
                digest.update(part)
                async with asyncio.timeout(SEND_SECONDS):
                    await link.send_bytes(part)
                left -= len(part)
                progress.add(len(part))
        finally:
            opened.close()
        await link.send({"digest": digest.hexdigest()})


def _open(path: Path) -> BinaryIO:
    return path.open("rb")


async def take_snapshot(store: Store, folder: Path) -> None:
    """Of a store in use. Raises ClusterError."""
    if store.journal.failure is not None or store.journal.batches.held is not None:
        raise ClusterError("the leader's disk is full or has failed")
    loop = asyncio.get_running_loop()
    taken: asyncio.Future[None] = loop.create_future()

    def report(problem: Exception | None) -> None:
        if taken.done():
            shutil.rmtree(folder, ignore_errors=True)  # too late
        elif problem is None:
            taken.set_result(None)
        else:
            taken.set_exception(ClusterError(f"the leader cannot take a snapshot ({problem})"))

    def sealed(segment: int) -> None:  # in the writer
        problem: Exception | None = None
        try:
            snapshot(store.path, folder, segment, store.copy_definitions)
        except Exception as failure:  # noqa: BLE001 - the writer continues and the error is the reply
            problem = failure
        loop.call_soon_threadsafe(report, problem)

    store.journal.seal(sealed)
    try:
        async with asyncio.timeout(TAKE_SECONDS):
            await taken
    except TimeoutError as problem:
        raise ClusterError("the leader's journal is not written") from problem


async def _waiting(link: Link, work: Awaitable[T]) -> T:
    """The result; meanwhile the member is told to wait."""
    task = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait((task,), timeout=WAIT_EVERY))[0]:
            await link.send({"wait": True})
        return task.result()
    except BaseException:
        task.cancel()
        raise
