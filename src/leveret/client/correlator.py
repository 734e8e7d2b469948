"""Matches the replies of the broker to the calls of a channel.

The broker replies to methods of one kind in the order of the calls. Replies to different kinds may overtake each other:
in RabbitMQ, the queue answers consumes and cancels. Any number of calls may be pending. When the channel ends, all of
them fail with its error.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from leveret.errors import UnexpectedFrame
from leveret.wire import methods
from leveret.wire.methods import Method

Then = Callable[[Any], Any] | None  # called with a reply as soon as it arrives; returns the result of the call
REPLIES: dict[type[Method], tuple[type[Method], ...]] = {
    kind: (getattr(methods, f"{name}Ok"),) for name, kind in vars(methods).items() if hasattr(methods, f"{name}Ok")
}
REPLIES[methods.BasicGet] = (methods.BasicGetOk, methods.BasicGetEmpty)


class Correlator:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[tuple[tuple[type[Method], ...], asyncio.Future[Any], Then]] = deque()

    def expect(self, *replies: type[Method], then: Then = None) -> asyncio.Future[Any]:
        """The reply to the method that is sent now. ``then`` runs before anything that follows the reply on the wire is
        handled, even if the caller was cancelled."""
        future = self._loop.create_future()
        self._waiting.append((replies, future, then))
        return future

    def answer(self, method: Method, content: Any = None) -> None:
        place = next((at for at, (replies, *_) in enumerate(self._waiting) if isinstance(method, replies)), None)
        if place is None:
            raise UnexpectedFrame(f"received {method.NAME}, which does not match any pending request")
        _, future, then = self._waiting[place]
        del self._waiting[place]
        result = method if content is None else content
        if then is not None:
            result = then(result)
        if not future.done():  # the caller may have been cancelled
            future.set_result(result)

    def end(self, problem: Exception, *, but_last: bool = False) -> None:
        """Fail all pending calls, except the last if ``but_last``."""
        waiting, self._waiting = self._waiting, deque()
        if but_last and waiting:
            self._waiting.append(waiting.pop())
        for _, future, _ in waiting:
            if not future.done():
                future.set_exception(problem)
                future.exception()  # the caller may never retrieve it
