"""The thread in which a session of the blocking face calls its listeners, one message at a time.

It is no ThreadPoolExecutor: Python closes those as soon as the main thread has returned, though other threads of the
program go on, and expect their listeners to do so, too. The thread does not keep a program alive. One that ends without
closing its connection lets a listener that runs finish; no other is called then.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue

from leveret.client.jms.listener_call import NotCalled

Call = tuple[Callable[[], object], "Future[None]"]


class ListenerThread:
    def __init__(self) -> None:
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._is_over = False
        self._ending = threading.Lock()  # nothing is put behind the last one
        self._thread = threading.Thread(target=self._run, name="leveret-session", daemon=True)
        self._thread.start()
        atexit.register(self.end)

    async def call(self, function: Callable[[], object]) -> None:
        """Until it has returned; raises what it raises."""
        returned: Future[None] = Future()
        with self._ending:
            if self._is_over:
                raise NotCalled("the thread of the session has ended, with the session or with the program")
            self._calls.put((function, returned))
        await asyncio.wrap_future(returned)

    def end(self) -> None:
        """Waits for what runs."""
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
            except (SystemExit, KeyboardInterrupt) as problem:  # raised on the loop, it would end the client
                returned.set_exception(RuntimeError(f"the listener wanted to end the program: {problem!r}"))
            except BaseException as problem:  # noqa: BLE001  # whatever the application raises
                returned.set_exception(problem)
            else:
                returned.set_result(None)
            del call, function, returned  # or the last message lives until the next one comes
