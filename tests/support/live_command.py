"""A ``leveret`` command as a separate process that runs until the test stops it. Every wait is bounded."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.broker_process import SRC

SECONDS = 120.0
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class LiveCommand:
    """With ``at_terminal`` its standard streams are one terminal; otherwise it writes to pipes."""

    def __init__(self, *arguments: str, folder: Path, at_terminal: bool = False, width: int = 100) -> None:
        environ = {**os.environ, "PYTHONPATH": str(SRC), "XDG_CONFIG_HOME": str(folder), "TERM": "xterm"}
        environ |= {"COLUMNS": str(width), "LINES": "40", "PYTHONIOENCODING": "utf-8", "LEVERET_PASSWORD": "guest"}
        command = [sys.executable, "-m", "leveret.cli.main", *arguments]
        if at_terminal:
            self._out, other = os.openpty()
            self.process = subprocess.Popen(command, env=environ, stdin=other, stdout=other, stderr=other)
        else:
            self._out, other = os.pipe()
            self.process = subprocess.Popen(
                command, env=environ, stdin=subprocess.DEVNULL, stdout=other, stderr=subprocess.PIPE
            )
        os.close(other)
        self.shown = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(SECONDS)
        if self.process.stderr is not None:
            self.process.stderr.close()
        with suppress(OSError):
            os.close(self._out)

    def until(self, text: str) -> str:
        """All it has shown once ``text`` is there, without colours."""
        return self.until_seen(lambda shown: text in shown, text)

    def until_seen(self, look: Callable[[str], bool], text: str) -> str:
        """The same with a condition; ``text`` describes it."""
        deadline = time.monotonic() + SECONDS
        while not look(self.shown):
            ready, _, _ = select.select([self._out], [], [], max(deadline - time.monotonic(), 0.0))
            assert ready, f"{text!r} never came: {self.shown!r}"
            try:
                part = os.read(self._out, 1 << 16)
            except OSError:  # a terminal whose other end is closed
                part = b""
            assert part, f"it ended without {text!r}: {self.shown!r}, {self.ended()}"
            self.shown += ESCAPES.sub("", part.decode(errors="replace"))
        return self.shown

    def press(self, key: str) -> None:
        os.write(self._out, key.encode())

    def stop_reading(self) -> None:
        os.close(self._out)

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def ended(self) -> tuple[int, str]:
        """Its exit code, and what it wrote to standard error."""
        code = self.process.wait(SECONDS)
        return code, "" if self.process.stderr is None else self.process.stderr.read().decode()
