"""A listener's call, and waiting for its return."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable

from leveret.client.jms.messages import Message

Listener = Callable[[Message], Awaitable[None] | None]


class NotCalled(Exception):  # no fault of the listener's
    """The listener was not called: its session is closed."""


class ListenerCall:
    __slots__ = ("_returned", "_task")

    def __init__(self) -> None:
        self._task: asyncio.Task[object] | None = None  # the listener runs in it
        self._returned: asyncio.Future[None] | None = None  # of the waiting call

    async def call(self, listener: Listener, message: Message) -> BaseException | None:
        """Until it has returned. What it has raised."""
        self._task = asyncio.current_task()
        try:
            outcome = listener(message)
            if outcome is not None and inspect.isawaitable(outcome):
                await outcome
        except asyncio.CancelledError as problem:
            if self._task is not None and self._task.cancelling():
                raise
            return problem  # what was cancelled is something that the listener waited for
        except Exception as problem:  # noqa: BLE001 - whatever the application raises
            return problem
        finally:
            self._task = None
            if self._returned is not None:
                self._returned.set_result(None)
                self._returned = None
        return None

    async def done(self) -> None:
        """Unless it is the listener that asks."""
        if self._task is not None and self._task is not asyncio.current_task():
            self._returned = self._returned or asyncio.get_running_loop().create_future()
            await asyncio.shield(self._returned)
