"""A thread that does jobs one after the other, and tells the loop what came of each."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

Job = tuple[Callable[[], object], Callable[[object], None]]
Tell = Callable[[Callable[[], None]], None]


class Worker:
    """``tell`` brings a call to the loop, from any thread."""

    def __init__(self, name: str, tell: Tell) -> None:
        self._tell = tell
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._is_abandoned = False
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        """When the jobs that wait are done."""
        self._jobs.put(None)

    def abandon(self) -> None:
        """Its job hangs: when that is over, none follows."""
        self._is_abandoned = True

    def do(self, job: Callable[[], object], done: Callable[[object], None]) -> None:
        """``done`` gets the result on the loop, or the exception."""
        self._jobs.put((job, done))

    def _run(self) -> None:
        while (work := self._jobs.get()) is not None and not self._is_abandoned:
            job, done = work
            try:
                result = job()
            except Exception as problem:  # noqa: BLE001 - it belongs to whoever asked
                result = problem
            self._tell(lambda done=done, result=result: done(result))  # type: ignore[misc]
