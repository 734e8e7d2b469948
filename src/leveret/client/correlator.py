"""Answers find their questions: on a channel the broker answers questions of a kind in the order in which they came.

Questions of different kinds may overtake each other: RabbitMQ has consumes and cancels answered by the queue. Any
number of questions may be under way at once. When the channel ends, all of them end with its error.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from leveret.errors import UnexpectedFrame
from leveret.wire.methods import Method

Answers = tuple[type[Method], ...]


class Correlator:
    __slots__ = ("_loop", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[tuple[Answers, asyncio.Future[Any], Callable[[Any], Any] | None]] = deque()

    def expect(self, *answers: type[Method], then: Callable[[Any], Any] | None = None) -> asyncio.Future[Any]:
        """The answer to what is sent now. ``then`` sees it at once, before anything that follows it on the wire, and
        what it returns is the result."""
        future = self._loop.create_future()
        self._waiting.append((answers, future, then))
        return future

    def answer(self, method: Method, content: Any = None) -> None:
        place = next((at for at, (answers, *_) in enumerate(self._waiting) if isinstance(method, answers)), None)
        if place is None:
            raise UnexpectedFrame(f"{method.NAME} answers nothing that was asked")
        _, future, then = self._waiting[place]
        del self._waiting[place]
        result = method if content is None else content
        if then is not None:
            result = then(result)
        if not future.done():  # the caller may have been cancelled
            future.set_result(result)

    def end(self, problem: Exception, *, but_last: bool = False) -> None:
        """Nothing of what was asked will be answered, except the last if ``but_last``."""
        waiting, self._waiting = self._waiting, deque()
        if but_last and waiting:
            self._waiting.append(waiting.pop())
        for _, future, _ in waiting:
            if not future.done():
                future.set_exception(problem)
                future.exception()  # the caller may never retrieve it
