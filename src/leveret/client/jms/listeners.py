"""Message listeners: their calls, and the thread in which the blocking API makes them."""

from __future__ import annotations

import asyncio
import atexit
import inspect
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue

from leveret.client.jms.messages import Message

Call = tuple[Callable[[], object], "Future[None]"]
Listener = Callable[[Message], object]  # an awaitable result is awaited, any other one ignored


class NotCalled(Exception):
    """The listener was not called: its session is closed."""


class ListenerCall:
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


class ListenerThread:
    """The thread in which a blocking session calls its listeners, one message at a time.

    A ThreadPoolExecutor would not do: Python closes it as soon as the main thread has returned, although other threads
    of the program continue and rely on their listeners. The thread does not keep a program alive. If the program ends
    without closing its connection, a listener that is running finishes, and no other one is called.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._is_over = False
        self._ending = threading.Lock()  # nothing may be put after the last entry
        self._thread = threading.Thread(target=self._run, name="leveret-session", daemon=True)
        self._thread.start()
        atexit.register(self.end)

    async def call(self, function: Callable[[], object]) -> None:
        """Waits until ``function`` has returned; raises its exception."""
        returned: Future[None] = Future()
        with self._ending:
            if self._is_over:
                raise NotCalled("the thread of the session has ended, with the session or with the program")
            self._calls.put((function, returned))
        await asyncio.wrap_future(returned)

    def end(self) -> None:
        """Waits for a listener that is running."""
        with self._ending:
            self._is_over = True
            self._calls.put(None)
        atexit.unregister(self.end)
        self._thread.join()

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            function, returned = call
            if not returned.set_running_or_notify_cancel():
                continue
            try:
                function()
            except (SystemExit, KeyboardInterrupt) as problem:  # raised on the loop, they would end the client
                returned.set_exception(RuntimeError(f"the listener tried to exit the program: {problem!r}"))
            except BaseException as problem:  # noqa: BLE001  # whatever the application raises
                returned.set_exception(problem)
            else:
                returned.set_result(None)
            del call, function, returned  # otherwise the last message is kept until the next one arrives
