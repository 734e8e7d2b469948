"""Failed confirms whose exception was not retrieved yet.

An application that awaits a confirm gets its exception. One that only waits until everything is confirmed gets the
first exception that was not retrieved. asyncio does not tell whether the exception of a future was retrieved, but logs
an error if such a future is dropped. So futures are kept here and their exception is retrieved in the end.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

MOST_KEPT = 1_000  # the first ones; later failures are not kept


class Failed(Protocol):
    def exception(self) -> BaseException | None: ...


class Failures:
    __slots__ = ("_failed", "_left")

    def __init__(self) -> None:
        self._failed: deque[Failed] = deque()  # the oldest first
        self._left: BaseException | None = None  # what was not known when all ended

    def __bool__(self) -> bool:
        return bool(self._failed) or self._left is not None

    def note(self, failed: Failed) -> None:
        line = self._failed
        while line and _is_known(line[0]):
            line.popleft()
        if len(line) < MOST_KEPT and not _is_known(failed):
            line.append(failed)
        else:
            failed.exception()

    def take(self) -> BaseException | None:
        """The first that was not retrieved; after this call all count as retrieved."""
        problem, self._left = self._left, None
        line, self._failed = self._failed, deque()
        for failed in line:
            is_known = _is_known(failed)
            said = failed.exception()
            if problem is None and not is_known:
                problem = said
        return problem

    def hush(self) -> None:
        """They may never be retrieved: keep one of them, and keep asyncio from logging the others."""
        self._left = self.take()


def _is_known(failed: Failed) -> bool:
    known = getattr(failed, "is_asked", None)
    return bool(not getattr(failed, "_log_traceback", True) if known is None else known)
