"""The latest log lines of the process, in memory, for the management UI.

Lines are formatted when they are logged, so that no object of the broker is kept alive. Fields that are secrets are
hidden by ``logs.Line``. The level is that of the log: an embedded broker in an application that does not configure
logging has only warnings and errors. Tracebacks are left to the log itself.
"""

from __future__ import annotations

import logging
import secrets
from collections import deque
from itertools import islice
from typing import NamedTuple

from leveret.logs import ROOT

MOST_LINES = 1_000
LONGEST = 4_000  # characters of one line


class LogLine(NamedTuple):
    number: int  # increasing
    time: float  # seconds since 1970
    level: int
    log: str
    text: str
    has_trace: bool


class RecentLog(logging.Handler):
    """``start`` attaches it to the loggers of Leveret."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[LogLine] = deque(maxlen=MOST_LINES)
        self._number = 0
        self.run = secrets.token_hex(8)  # numbers begin again with every run of the broker

    def start(self) -> None:
        logging.getLogger(ROOT).addHandler(self)

    def stop(self) -> None:
        logging.getLogger(ROOT).removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Called with the lock of the handler, from any thread."""
        text = "".join([char if char.isprintable() else " " for char in record.getMessage()[:LONGEST]])
        self._number += 1
        name = record.name.removeprefix(f"{ROOT}.")
        line = LogLine(self._number, record.created, record.levelno, name, text, bool(record.exc_info))
        self._lines.append(line)

    def lines(self, after: int, level: int, most: int) -> list[LogLine]:
        """The latest lines behind number ``after``, of this level or above, at most so many, the oldest first."""
        self.acquire()
        try:
            kept = list(self._lines)
        finally:
            self.release()
        found = (line for line in reversed(kept) if line.number > after and line.level >= level)
        return list(islice(found, most))[::-1]

    @property
    def last(self) -> int:
        return self._number

    @property
    def first(self) -> int:
        """The number of the oldest line in memory."""
        return self._number - len(self._lines) + 1
