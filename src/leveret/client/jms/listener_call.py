"""The call of a listener, and waiting for its return."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable

from leveret.client.jms.messages import Message

Listener = Callable[[Message], object]  # an awaitable result is awaited, any other one ignored


class NotCalled(Exception):
    """The listener was not called: its session is closed."""


class ListenerCall:
    __slots__ = ("_returned", "_task")

    def __init__(self) -> None:
        self._task: asyncio.Task[object] | None = None  # the listener runs in it
        self._returned: asyncio.Future[None] | None = None  # resolved at the return

    async def call(self, listener: Listener, message: Message) -> BaseException | None:
        """Waits until it has returned. Returns its exception, if it raised one."""
        self._task = asyncio.current_task()
        try:
            outcome = listener(message)
            if outcome is not None and inspect.isawaitable(outcome):
                await outcome
        except asyncio.CancelledError as problem:
            if self._task is not None and self._task.cancelling():
                raise
            return problem  # not this task, but something that the listener awaited was cancelled
        except Exception as problem:  # noqa: BLE001 - whatever the application raises
            return problem
        finally:
            self._task = None
            if self._returned is not None:
                self._returned.set_result(None)
                self._returned = None
        return None

    async def done(self) -> None:
        """Waits for the return of the current call. Returns at once if the listener itself waits."""
        if self._task is not None and self._task is not asyncio.current_task():
            self._returned = self._returned or asyncio.get_running_loop().create_future()
            await asyncio.shield(self._returned)
