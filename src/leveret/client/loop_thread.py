"""The thread that runs the event loop of the blocking APIs: one for all connections of a process.

It starts with its first user and stops with its last. A call with a result is posted to the loop and waits on a lock
for it. A call without a result is only posted: posts wait in a deque, and the loop is woken once for all posts that
arrive while it is busy. Posts of one thread run in order.

The thread does not keep the process alive. Posts are still sent before the process ends: connections that are open then
are closed, within a time limit (``close_all_at_exit``).

A forked process has the objects but not the thread: calls raise an error, and the process must connect again.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
from _thread import allocate_lock
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, ClassVar, Generic, TypeVar
from weakref import WeakSet

from leveret.client.closable import Closable
from leveret.client.errors import ClientError, Closed

R = TypeVar("R")
UNLIMITED = -1
EXIT_SECONDS = 5.0  # that the end of the process waits
log = logging.getLogger("leveret.client")


class Answer(Generic[R]):
    """A future for threads, with the methods of concurrent.futures.Future that are needed here, at a fraction of its
    cost: one is created for each message that is published with confirms.

    The lock is held until the result is set; the waiting thread takes it and passes it on. ``is_asked``: whether a
    thread has retrieved the exception, or waits for the result.
    """

    __slots__ = ("_callbacks", "_is_done", "_lock", "_problem", "_result", "is_asked")

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._lock.acquire()
        self._is_done = False
        self.is_asked = False
        self._result: R | None = None
        self._problem: BaseException | None = None
        self._callbacks: list[Callable[[Answer[R]], object]] = []

    def done(self) -> bool:
        return self._is_done

    def result(self, timeout: float | None = None) -> R:
        """Waits for the result and returns it, or raises the error. TimeoutError after ``timeout`` seconds."""
        if not self._is_done:
            self._wait(timeout)
        if self._problem is not None:
            self.is_asked = True
            raise self._problem
        return self._result  # type: ignore[return-value]

    def exception(self, timeout: float | None = None) -> BaseException | None:
        if not self._is_done:
            self._wait(timeout)
        self.is_asked = True
        return self._problem

    def _wait(self, timeout: float | None) -> None:
        self.is_asked = True
        if not self._lock.acquire(True, UNLIMITED if timeout is None else max(timeout, 0)):
            self.is_asked = False
            raise TimeoutError(f"no answer within {timeout:g} s")
        self._lock.release()

    def add_done_callback(self, callback: Callable[[Answer[R]], object]) -> None:
        """``callback`` is called on the loop's thread, or at once if the result is set: it must not block."""
        self._callbacks.append(callback)
        if self._is_done:
            self._run_callbacks()

    def set_result(self, result: R) -> None:
        self._result = result
        self._finish()

    def set_exception(self, problem: BaseException) -> None:
        self._problem = problem
        self._finish()

    def _finish(self) -> None:
        self._is_done = True
        self._lock.release()
        if self._callbacks:
            self._run_callbacks()

    def _run_callbacks(self) -> None:
        """Each runs once, although two threads may be here: one that adds a callback, and the loop."""
        while self._callbacks:
            try:
                callback = self._callbacks.pop(0)
            except IndexError:
                return
            try:
                callback(self)
            except Exception:  # it must not affect the code that set the result
                log.exception("callback %r failed", callback)


class LoopThread:
    _shared: ClassVar[LoopThread | None] = None
    _sharing: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self) -> None:
        self._loop = new_loop()
        self._holders = 0
        self.posts: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._is_woken = False
        self._is_over = False
        self.is_forked = False  # whether the thread belongs to the parent of this process
        self._tasks: dict[Answer[Any], asyncio.Task[None]] = {}
        self._undoing: set[asyncio.Future[object]] = set()
        self._open: WeakSet[Closable] = WeakSet()
        self._thread = threading.Thread(target=self._run, name="leveret-client", daemon=True)
        self._thread.start()

    @classmethod
    def take(cls) -> LoopThread:
        """The loop thread of this process. Every user must release it."""
        with cls._sharing:
            shared = cls._shared
            if shared is None:
                shared = cls._shared = cls()
            shared._holders += 1
            return shared

    def release(self) -> None:
        if self.is_forked:
            return
        with self._sharing:
            self._holders -= 1
            if self._holders:
                return
            LoopThread._shared = None
        self._loop.call_soon_threadsafe(self._loop.stop)
        if not self.is_current:
            self._thread.join()

    @classmethod
    def abandon_after_fork(cls) -> None:
        """In a forked child, neither the thread nor the holder of the lock exists."""
        cls._sharing = threading.Lock()
        shared, cls._shared = cls._shared, None
        if shared is not None:
            shared._is_over, shared.is_forked, shared._is_woken = True, True, False

    def close_at_exit(self, connection: Closable) -> None:
        """If it is still open then."""
        self._open.add(connection)

    @classmethod
    def close_all_at_exit(cls) -> None:
        """At the end of the process: sends what was posted before, and waits for the brokers."""
        shared = cls._shared
        if shared is None or shared.is_current:
            return
        work, answer = shared._close_all(), Answer[None]()
        try:
            shared.post(shared._begin, work, answer)
        except Closed:
            work.close()
            return
        with suppress(TimeoutError):
            answer.result(EXIT_SECONDS)

    async def _close_all(self) -> None:
        await asyncio.gather(*(each.close() for each in list(self._open)), return_exceptions=True)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._is_over = True  # from now on posts are refused
        self._loop.run_until_complete(self._end())
        self._loop.close()

    async def _end(self) -> None:
        """Fail calls that were posted too late."""
        while self.posts:
            self._drain()
        tasks: list[asyncio.Future[Any]] = [*self._tasks.values(), *self._undoing]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._loop.shutdown_asyncgens()

    # ---- posts

    def post(self, function: Callable[..., object], *arguments: Any) -> None:
        """Call ``function`` on the loop. Hot path: runs for each message and each ack."""
        self.posts.append((function, arguments))
        if not self._is_woken:
            self._is_woken = True
            self._wake()

    def _wake(self) -> None:
        try:
            if self._is_over:
                raise self._gone()
            self._loop.call_soon_threadsafe(self._drain)
        except RuntimeError:  # the loop was closed after the check
            raise self._gone() from None
        finally:
            if self._is_over:
                self._is_woken = False  # the next post is refused too

    def _gone(self) -> Closed:
        if self.is_forked:
            return Closed("the connection belongs to the process that forked this one: connect again in this process")
        return Closed("the connection is closed: connect again")

    @property
    def is_current(self) -> bool:
        return threading.current_thread() is self._thread

    def _drain(self) -> None:
        self._is_woken = False  # first, so that later posts wake the loop again
        posts = self.posts
        for _ in range(len(posts)):  # not more than there are now, so that the loop handles its sockets
            function, arguments = posts.popleft()
            try:
                function(*arguments)
            except Exception as problem:  # noqa: BLE001  # one post must not affect the others
                self._report(problem)
        if posts and not self._is_woken:
            self._is_woken = True
            self._loop.call_soon(self._drain)

    def _report(self, problem: Exception) -> None:
        self._loop.call_exception_handler({"message": "a call on the client's loop failed", "exception": problem})

    # ---- calls with a result

    def call(self, work: Coroutine[Any, Any, R], undo: Callable[[R], Awaitable[object]] | None = None) -> R:
        """Runs ``work`` on the loop, waits for its result and returns it, or raises its error.

        A call that is interrupted while it waits (Ctrl-C) is undone: the work is cancelled, or, if that is not enough,
        ``undo`` is called with its result.
        """
        try:
            self.refuse_own_thread()
            answer: Answer[R] = Answer()
            self.post(self._begin, work, answer)
            if self._is_over and self._is_withdrawn(self._begin, work, answer):
                raise self._gone()
        except BaseException:
            work.close()
            raise
        try:
            return answer.result()
        except BaseException:
            if not answer.done():
                self.post(self._abandon, answer, undo)
            raise

    def _is_withdrawn(self, function: Callable[..., object], *arguments: Any) -> bool:
        """Whether the post still waited, for a loop that has ended. Otherwise the loop sets its result."""
        while True:
            try:
                self.posts.remove((function, arguments))
            except ValueError:
                return False
            except IndexError:  # another thread posted meanwhile
                continue
            return True

    def refuse_own_thread(self) -> None:
        if self.is_current:
            raise ClientError(
                "a blocking call in a callback on the client's event loop would deadlock: "
                "only send, ack, nack and reject may be called there; make other calls from another thread"
            )

    def _begin(self, work: Coroutine[Any, Any, R], answer: Answer[R]) -> None:
        if self._is_over:
            work.close()
            answer.set_exception(self._gone())
            return
        task = self._tasks[answer] = self._loop.create_task(self._answer(work, answer))
        task.add_done_callback(lambda _: self._finished(work, answer))

    def _finished(self, work: Coroutine[Any, Any, R], answer: Answer[R]) -> None:
        del self._tasks[answer]
        if not answer.done():  # it was cancelled before it started
            work.close()
            answer.set_exception(self._gone())

    async def _answer(self, work: Coroutine[Any, Any, R], answer: Answer[R]) -> None:
        try:
            result = await work
        except asyncio.CancelledError:
            answer.set_exception(self._gone())
        except BaseException as problem:  # noqa: BLE001  # raised in the waiting thread
            answer.set_exception(problem)
        else:
            answer.set_result(result)

    def _abandon(self, answer: Answer[R], undo: Callable[[R], Awaitable[object]] | None) -> None:
        task = self._tasks.get(answer)
        if undo is None:
            if task is not None:
                task.cancel()
        else:
            answer.add_done_callback(lambda _: self._undo(answer, undo))

    def _undo(self, answer: Answer[R], undo: Callable[[R], Awaitable[object]]) -> None:
        if answer.exception() is None:
            work = asyncio.ensure_future(undo(answer.result()), loop=self._loop)
            self._undoing.add(work)
            work.add_done_callback(self._undoing.discard)


atexit.register(LoopThread.close_all_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=LoopThread.abandon_after_fork)


def new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
