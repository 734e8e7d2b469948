"""The mechanism behind the blocking APIs: they are derived from the asyncio API.

A blocking object holds the asyncio object that does its work (``core``), and the thread of its event loop:

    class Session(BlockingObject[core_session.Session]):
        is_transacted = CoreAttribute[bool]()                     # reads core.is_transacted
        commit = blocking(core_session.Session.commit)            # runs core.commit() on the loop and waits for it
        create_producer = blocking_factory(core_session.Session.create_producer, Producer)  # Producer(self, result)

A derived method has the parameters, types and docstring of its coroutine function, for mypy and for ``help()``. Only
methods that do something else besides are written out; ``signature_of`` gives them the parameters of the original.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from contextlib import nullcontext, suppress
from functools import update_wrapper
from threading import Lock
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

from leveret.client.errors import Closed
from leveret.client.loop_thread import LoopThread

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")


class Core(Protocol):
    @property
    def is_closed(self) -> bool: ...

    async def close(self) -> None: ...


C = TypeVar("C", bound=Core)


class BlockingObject(Generic[C]):
    def __init__(self, core: C, loop_thread: LoopThread) -> None:
        self.core = core
        self.loop_thread = loop_thread

    @property
    def is_closed(self) -> bool:
        return self.core.is_closed

    def call(self, work: Coroutine[Any, Any, R], undo: Callable[[R], Awaitable[object]] | None = None) -> R:
        """Runs ``work`` on the event loop and waits for its result. ``undo``: see LoopThread.call."""
        return self.loop_thread.call(work, undo)

    def refuse_closed(self) -> None:
        """Called before each derived method. The core refuses calls too; override this to refuse them earlier."""

    def close(self) -> None:
        with suppress(Closed):  # its connection may be closed already
            self.call(self.core.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class BlockingConnection(BlockingObject[C]):
    """Holds the loop thread of the process until it is closed."""

    def __init__(self, core: C, loop_thread: LoopThread) -> None:
        super().__init__(core, loop_thread)
        self._is_released = False
        self._closing = Lock()

    @classmethod
    def opened(cls, opening: Coroutine[Any, Any, C]) -> Self:
        loop_thread = LoopThread.take()
        try:
            core = loop_thread.call(opening, undo=_close)
        except BaseException:
            loop_thread.release()
            raise
        return cls(core, loop_thread)

    @property
    def is_closed(self) -> bool:
        return self._is_released or self.core.is_closed

    def close(self) -> None:
        """Waits a moment for the broker's reply. Unacknowledged messages are requeued."""
        self.loop_thread.refuse_own_thread()
        with nullcontext() if self.loop_thread.is_forked else self._closing:  # after a fork its holder does not exist
            if self._is_released:
                return
            try:
                self.loop_thread.call(self.core.close())
            finally:
                self._is_released = True
                self._end_threads()
                self.loop_thread.release()

    def _end_threads(self) -> None:
        """Ends threads of the connection besides that of the loop."""


class CoreAttribute(Generic[T]):
    """An attribute of the asyncio object, under the same name."""

    def __init__(self, doc: str = "", *, is_writable: bool = False) -> None:
        self.__doc__ = doc
        self._is_writable = is_writable

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type) -> T:
        if instance is None:
            return self  # type: ignore[return-value]
        value: T = getattr(instance.core, self._name)
        return value

    def __set__(self, instance: Any, value: T) -> None:
        if not self._is_writable:
            raise AttributeError(f"'{self._name}' of {type(instance).__name__} can be read only")
        setattr(instance.core, self._name, value)


def blocking(call: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]) -> Callable[Concatenate[Any, P], R]:
    """The method of the core with the same name, run on the event loop; waits for its result."""
    return _derived(call, lambda _, result: result, None)


def blocking_factory(
    call: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]],
    make: Callable[[Any, R], S],
    undo: Callable[[R], Awaitable[object]] | None = None,
) -> Callable[Concatenate[Any, P], S]:
    """Like ``blocking``, for a method that returns another asyncio object: ``make(self, result)`` wraps it.

    ``undo`` disposes of the result of a call that was interrupted (Ctrl-C); by default it is closed.
    """
    return _derived(call, make, undo or _close)


def _derived(
    call: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]],
    make: Callable[[Any, R], S],
    undo: Callable[[R], Awaitable[object]] | None,
) -> Callable[Concatenate[Any, P], S]:
    name = call.__name__

    def wait(self: BlockingObject[Any], /, *args: P.args, **kwargs: P.kwargs) -> S:
        self.refuse_closed()
        work: Coroutine[Any, Any, R] = getattr(self.core, name)(*args, **kwargs)
        return make(self, self.loop_thread.call(work, undo))

    update_wrapper(wait, call)
    return wait


def signature_of(
    call: Callable[Concatenate[Any, P], Coroutine[Any, Any, Any]],
) -> Callable[[Callable[..., R]], Callable[Concatenate[Any, P], R]]:
    """For a method that is written out: callers see the parameters of ``call``."""

    def decorate(method: Callable[..., R]) -> Callable[Concatenate[Any, P], R]:
        method.__doc__ = method.__doc__ or call.__doc__
        update_wrapper(method, call, assigned=(), updated=())
        return method

    return decorate


async def _close(made: Any) -> None:
    await made.close()
