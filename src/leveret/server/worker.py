"""A thread that runs jobs one after the other, and passes their results to the event loop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

Job = tuple[Callable[[], object], Callable[[object], None]]
OnLoop = Callable[[Callable[[], None]], None]


class Worker:
    """``on_loop`` runs a call on the loop, from any thread."""

    def __init__(self, name: str, on_loop: OnLoop) -> None:
        self._on_loop = on_loop
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._is_abandoned = False
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        """Ends the thread after the jobs that wait."""
        self._jobs.put(None)

    def abandon(self) -> None:
        """Its job hangs: run no further one when it ends."""
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
