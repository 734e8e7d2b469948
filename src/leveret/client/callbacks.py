"""Functions of the application are called from here. What one of them raises is told to the loop's handler: it was not
raised by what the client is in the middle of, which goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any


class Beside:
    """Work that goes on beside everything else."""

    __slots__ = ("_tasks",)

    def __init__(self) -> None:
        self._tasks: set[asyncio.Future[Any]] = set()  # the loop alone would not keep them

    def run(self, work: Awaitable[Any]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def call_back(function: Callable[..., object], *arguments: Any) -> None:
    try:
        function(*arguments)
    except Exception as problem:  # noqa: BLE001  # whatever the application raises
        report(function, problem)


def report(function: Callable[..., object], problem: Exception) -> None:
    context = {"message": f"{function!r}, which the client called, failed", "exception": problem}
    asyncio.get_running_loop().call_exception_handler(context)
