"""Serves the requests that a command leaves in the data directory (store/request_files.py).

Requests are served one at a time. The store's reader thread looks for them and does all work on files; only the
snapshot of a backup is made in the writer thread, where nothing can change the disk meanwhile. Deliveries wait for
other jobs of the reader, so a copy is made in small steps, with the reader's other jobs between them.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path

from leveret.errors import StoreError
from leveret.logs import get_log
from leveret.store.backup import Made, Step, hand_over, refuse_target, remove_snapshots, snapshot, snapshot_folder
from leveret.store.journal import Journal
from leveret.store.request_files import AGAIN, DONE, FAILED, WORKING, Request, answer, is_wanted, next_request, prepare
from leveret.store.store import Store

REPORT_EVERY = 0.5  # seconds between progress reports

InWorker = Callable[[Callable[[], object], Callable[[object], None]], None]


class Work:
    """A running backup. It is used by the loop, then by the writer, then by the reader."""

    def __init__(self, request: Request, folder: Path) -> None:
        self.request = request
        self.folder = folder
        self.is_sealed = False  # the writer has done its part
        self.is_over = False
        self.problem: Exception | None = None
        self.steps: Generator[Step, None, Made] | None = None
        self.begun = self.reported = time.monotonic()


class Requests:
    def __init__(self, store: Store, in_worker: InWorker) -> None:
        self._store = store
        self._path = store.path
        self._in_worker = in_worker
        self._is_looking = False
        self._ends = False
        self._warned = ""
        self._work: Work | None = None
        self._log = get_log("store")

    def start(self) -> None:
        self._is_looking = True
        self._in_worker(self._tidy, self._looked)

    def look(self) -> None:
        if not (self._is_looking or self._ends or self._work):
            self._is_looking = True
            self._in_worker(self._find, self._looked)

    def stop(self) -> None:
        """Cancel the requests that are being served; the reader thread does that before it ends."""
        self._ends = True
        work = self._work
        if work is not None:
            self._in_worker(
                lambda: self._fail(work, StoreError(f"the broker is shutting down: {AGAIN}")), lambda result: None
            )

    def failed(self, why: OSError) -> None:
        """The writer failed: a backup that waits for its batch fails too."""
        work = self._work
        if work is not None and not work.is_sealed and work.problem is None:
            work.problem = StoreError(f"the disk failed ({why}): fix it, then {AGAIN}")
            self._next_step(work)

    def _looked(self, result: object) -> None:
        self._is_looking = False
        if isinstance(result, Exception) and str(result) != self._warned:  # log it once, not four times a second
            self._warned = str(result)
            self._log.warning("requests of the command line cannot be read", reason=result)
        if isinstance(result, Request) and not self._ends:
            self._begin(result)

    def _begin(self, request: Request) -> None:
        self._work = work = Work(request, snapshot_folder(self._path, request.id))
        self._log.info("backup started", target=request.target)
        journal = self._store.journal
        hindrance = _hindrance(journal)
        if hindrance is not None:
            work.problem = StoreError(hindrance)
            self._next_step(work)
        else:
            journal.seal(lambda segment: self._sealed(work, segment))

    def _next_step(self, work: Work) -> None:
        self._in_worker(lambda: self._step(work), lambda is_over: self._stepped(work, is_over))

    def _stepped(self, work: Work, is_over: object) -> None:
        if isinstance(is_over, Exception):
            self._log.warning("reply to a request of the command line cannot be written", reason=is_over)
        if is_over:
            self._work = None
        elif not self._ends:
            self._next_step(work)

    # ---- in the writer

    def _sealed(self, work: Work, segment: int) -> None:
        try:
            snapshot(self._path, work.folder, segment, self._store.copy_definitions)
        except Exception as problem:  # noqa: BLE001 - the writer continues and the error is the reply
            work.problem = problem
        work.is_sealed = True
        self._next_step(work)

    # ---- in the reader

    def _tidy(self) -> None:
        prepare(self._path)
        remove_snapshots(self._path)

    def _find(self) -> Request | None:
        request = next_request(self._path)
        if request is not None:
            try:
                refuse_target(request.target, self._path)
            except (StoreError, OSError, ValueError) as problem:  # for example a path with invalid bytes
                self._refuse(request, problem)
                return None
        return request

    def _refuse(self, request: Request, problem: Exception) -> None:
        self._log.error("backup failed", target=request.target, reason=problem)
        answer(self._path, request.id, FAILED, error=str(problem))

    def _step(self, work: Work) -> bool:
        """Do one step of the work. Returns whether the work is complete."""
        try:
            made = self._go_on(work)
        except Exception as problem:  # noqa: BLE001 - the error is the reply
            self._fail(work, problem)
        else:
            if made is not None:
                work.is_over = True
                seconds = round(time.monotonic() - work.begun, 2)
                self._log.info("backup completed", target=work.request.target, seconds=seconds, **made._asdict())
                answer(self._path, work.request.id, DONE, **made._asdict())
        return work.is_over

    def _go_on(self, work: Work) -> Made | None:
        if work.problem is not None:
            raise work.problem
        if not is_wanted(self._path, work.request.id):
            raise StoreError("the request was cancelled")
        if work.steps is None:
            work.steps = hand_over(self._path, work.folder, work.request.target)
        try:
            done, of = next(work.steps)
        except StopIteration as end:
            made: Made = end.value
            return made
        if time.monotonic() - work.reported > REPORT_EVERY:
            work.reported = time.monotonic()
            answer(self._path, work.request.id, WORKING, done=done, of=of)
        return None

    def _fail(self, work: Work, problem: Exception) -> None:
        if work.is_over:
            return
        work.is_over = True
        with suppress(OSError):  # a second failure cannot be reported
            if work.steps is not None:
                work.steps.close()
            shutil.rmtree(work.folder, ignore_errors=True)
            self._refuse(work.request, problem)


def _hindrance(journal: Journal) -> str | None:
    if journal.failure is not None:
        return f"the store is read-only since {journal.failure}: restart the broker, then {AGAIN}"
    if journal.batches.held is not None:
        return f"the disk is full, or there are no file descriptors left: free some, then {AGAIN}"
    return None
