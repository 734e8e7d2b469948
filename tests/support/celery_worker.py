"""A Celery worker in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from celery import Celery

from tests.compat.waiting import until


class Worker:
    """``module`` has the application for ``celery -A``; ``app`` is the same one in the process of the test."""

    def __init__(self, app: Celery, module: str, folder: Path, log: Path, environ: Mapping[str, str], *options: str):
        self.app = app
        self._log = log
        command = [sys.executable, "-m", "celery", "-A", module, "worker", "-l", "INFO", *options]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env={**os.environ, **environ},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def await_ready(self) -> None:
        def answers() -> bool:
            assert self._process.poll() is None, self._log.read_text()
            return bool(self.app.control.ping(timeout=1.0, limit=1))

        until(answers, 120)

    def ask_to_stop(self) -> None:
        self._process.terminate()

    def await_end(self) -> None:
        try:
            assert self._process.wait(60) == 0, self._log.read_text()
        finally:
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
