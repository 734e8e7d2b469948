"""Log lines: an event and its key=value fields, through the standard library's logging.

Every module logs through ``get_log``. An embedded broker configures nothing: the lines go to the loggers below
``leveret``, which are silent until the application configures logging. Only ``leveret serve`` calls ``configure_logs``.
structlog is not used: it would add 90 ms of import time.

Values are quoted so that no user-defined name can break a line or fake a field. Fields named as a secret, and passwords
in URLs, are shown as ``***``.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Mapping
from datetime import datetime
from typing import TextIO

ROOT = "leveret"
SECRET_FIELDS = frozenset({"password", "password_hash", "secret", "token", "response", "credentials", "cookie"})
HIDDEN = "***"
PASSWORD = re.compile(r"(://[^\s/?#@:]*:)\S*@")  # up to the last @: a password may contain any character

logging.getLogger(ROOT).addHandler(logging.NullHandler())  # the library convention: silent unless configured


class Line:
    """The message of a log record, formatted on demand: a line that no handler writes costs no formatting."""

    __slots__ = ("event", "fields")

    def __init__(self, event: str, fields: Mapping[str, object]) -> None:
        self.event = event
        self.fields = {name: without_secrets(name, value) for name, value in fields.items()}

    def __str__(self) -> str:
        return " ".join([_one_line(self.event), *(f"{name}={_quoted(value)}" for name, value in self.fields.items())])


def without_secrets(name: str, value: object) -> object:
    """The value of a field as it may be shown."""
    if name in SECRET_FIELDS:
        return HIDDEN
    if isinstance(value, str) and "://" in value:
        return PASSWORD.sub(rf"\g<1>{HIDDEN}@", value)
    return value


class Log:
    """``log.info("connection opened", connection=name, user=user)``. Fields of ``bind`` are added to every line."""

    __slots__ = ("_bound", "_logger")

    def __init__(self, logger: logging.Logger, bound: Mapping[str, object] | None = None) -> None:
        self._logger = logger
        self._bound = dict(bound or {})

    def bind(self, **fields: object) -> Log:
        return Log(self._logger, {**self._bound, **fields})

    def debug(self, event: str, /, **fields: object) -> None:
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, /, **fields: object) -> None:
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, /, **fields: object) -> None:
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, /, **fields: object) -> None:
        self._write(logging.ERROR, event, fields)

    def exception(self, event: str, /, **fields: object) -> None:
        """An error with the traceback of the current exception: for internal errors, never for errors of a client."""
        self._write(logging.ERROR, event, fields, trace=True)

    def _write(self, level: int, event: str, fields: dict[str, object], trace: bool = False) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, Line(event, {**self._bound, **fields}), exc_info=trace, stacklevel=3)


def get_log(name: str) -> Log:
    """A log under ``leveret``: pass ``__name__``."""
    return Log(logging.getLogger(name if name == ROOT or name.startswith(ROOT + ".") else f"{ROOT}.{name}"))


def configure_logs(format: str = "human", level: str = "info", stream: TextIO | None = None) -> None:
    """Configure the process's logging: Leveret's lines from ``level`` on, those of other libraries from warning on."""
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonFormatter() if format == "json" else HumanFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger(ROOT).setLevel(level.upper())
    logging.raiseExceptions = False  # a closed stderr must not cause a flood of tracebacks


class HumanFormatter(logging.Formatter):
    """``2026-01-31 12:00:00.123 info session connection opened connection=... user=guest``, any trace below."""

    def format(self, record: logging.LogRecord) -> str:
        logger = record.name.removeprefix(ROOT + ".")
        text = _one_line(record.getMessage())
        line = f"{_time(record):%Y-%m-%d %H:%M:%S.%f}"[:-3] + f" {record.levelname.lower()} {logger} {text}"
        if record.exc_info:
            line += "\n    " + self.formatException(record.exc_info).replace("\n", "\n    ")
        return line


class JsonFormatter(logging.Formatter):
    """One object per line: time, level, log, event, then the fields, and ``trace`` when there is one."""

    def format(self, record: logging.LogRecord) -> str:
        line = record.msg if isinstance(record.msg, Line) else Line(record.getMessage(), {})
        shown: dict[str, object] = {
            **line.fields,
            "time": _time(record).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "log": record.name,
            "event": line.event,
        }
        if record.exc_info:
            shown["trace"] = self.formatException(record.exc_info)
        first = ("time", "level", "log", "event")
        return json.dumps({name: shown[name] for name in (*first, *(n for n in shown if n not in first))}, default=str)


def _time(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created).astimezone()


def _quoted(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    plain = text.isprintable() and text and not any(char in ' "=' for char in text)
    return text if plain else json.dumps(text)


def _one_line(text: str) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


class LogInterval:
    """Limits log lines that clients can trigger: due at most once per interval, in seconds."""

    __slots__ = ("_due", "_seconds")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._due = float("-inf")

    def is_due(self, now: float) -> bool:
        if now < self._due:
            return False
        self._due = now + self._seconds
        return True
