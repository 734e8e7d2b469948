"""Calls of functions of the application, and tasks in the background.

Exceptions of such functions go to the event loop's exception handler, never through the code of the client that calls
them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any


class BackgroundTasks:
    def __init__(self) -> None:
        self._tasks: set[asyncio.Future[Any]] = set()  # the loop alone does not keep them alive

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
