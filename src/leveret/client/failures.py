"""Confirms that failed, until somebody knows.

Whoever asks a confirm for its outcome knows it. Who only waits until all are settled is told of the first failure that
nobody asked for. A future of asyncio does not say whether it was asked, but it knows: it complains on the loop if it is
dropped before. So it is kept here, and asked at the end, that it may go in silence.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

MOST_KEPT = 1_000  # the first ones; who never asks is not told of more


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
        """The first that nobody knows. From then on all are known."""
        problem, self._left = self._left, None
        line, self._failed = self._failed, deque()
        for failed in line:
            is_known = _is_known(failed)
            said = failed.exception()
            if problem is None and not is_known:
                problem = said
        return problem

    def hush(self) -> None:
        """Nobody may come to ask any more: one of them is kept, and the loop does not complain of the others."""
        self._left = self.take()


def _is_known(failed: Failed) -> bool:
    known = getattr(failed, "is_asked", None)
    return bool(not getattr(failed, "_log_traceback", True) if known is None else known)
