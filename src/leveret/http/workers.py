"""Worker threads for work that would block the event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class InWorker(Protocol):
    def __call__(self, job: Callable[[], T]) -> Awaitable[T]:
        """The result of ``job``, run in a thread."""


class WorkerContext(Protocol):
    @property
    def in_worker(self) -> InWorker: ...
