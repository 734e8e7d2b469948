"""What was published and has not been confirmed yet.

Hot path: ``add`` runs for each message that is published with confirms, ``settle`` for each ack of the broker, which
mostly stands for many messages. Tags are numbered from 1 without gaps, so the oldest stands first.

A mandatory message comes back without its number, before its confirm: it is the oldest open one that is like it. Two
that are alike have the same fate.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from leveret.client.arrivals import Returned
from leveret.client.errors import Nacked, Unroutable

Likeness = tuple[str, str, bytes]  # exchange, routing key, body
NOT_TAKEN = "the broker did not take the message: its queue is full, or gone; publish it again"


class Settled(Protocol):
    """Who is told what became of a message: a future of asyncio, or of a thread."""

    def done(self) -> bool: ...

    def set_result(self, result: None, /) -> None: ...

    def set_exception(self, problem: Exception, /) -> None: ...

    def exception(self) -> BaseException | None: ...


class Confirms:
    __slots__ = ("_first", "_loop", "_lost", "_mandatory", "_pending", "_quiet", "new_future", "open")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.new_future: Callable[[], asyncio.Future[None]] = loop.create_future
        self._first = 1  # the tag of the first in _pending
        self._pending: deque[Settled | None] = deque()  # None: settled out of turn
        self._mandatory: dict[int, Likeness] = {}  # by tag, the oldest first
        self._quiet: list[asyncio.Future[None]] = []  # who wait until nothing is open
        self._lost: Exception | None = None  # what ended all while some were open
        self.open = 0

    def add(self, mandatory: Likeness | None = None) -> asyncio.Future[None]:
        future = self.new_future()
        self.tell(future, mandatory)
        return future

    def tell(self, settled: Settled, mandatory: Likeness | None = None) -> None:
        """What becomes of the message that was published now."""
        if mandatory is not None:
            self._mandatory[self._first + len(self._pending)] = mandatory
        self._pending.append(settled)
        self.open += 1

    def settle(self, tag: int, *, multiple: bool, is_taken: bool) -> None:
        pending, place = self._pending, tag - self._first
        if multiple:
            last = self._first + len(pending) - 1 if tag == 0 else tag
            while pending and self._first <= last:
                self._end(pending.popleft(), is_taken=is_taken)
                self._first += 1
            while self._mandatory and next(iter(self._mandatory)) <= last:
                del self._mandatory[next(iter(self._mandatory))]
        elif 0 <= place < len(pending):
            future = pending[place]
            pending[place] = None
            self._end(future, is_taken=is_taken)
            while pending and pending[0] is None:
                pending.popleft()
                self._first += 1
            self._mandatory.pop(tag, None)
        self._tell_if_quiet()

    def _end(self, future: Settled | None, *, is_taken: bool) -> None:
        if future is None:
            return
        self.open -= 1
        if future.done():
            return
        if is_taken:
            future.set_result(None)
        else:
            _fail(future, Nacked(NOT_TAKEN))

    def returned(self, message: Returned) -> bool:
        """Whether somebody waits for the message that came back, and was told."""
        like = (message.exchange, message.routing_key, message.body)
        for tag, likeness in self._mandatory.items():
            if likeness == like:
                del self._mandatory[tag]
                future = self._pending[tag - self._first] if tag >= self._first else None
                if future is None or future.done():
                    return False
                _fail(future, Unroutable(message))
                return True
        return False

    async def all_settled(self) -> None:
        """Until nothing that was published is open. Raises what ended the channel, if some were open then."""
        if self._lost is not None:
            raise self._lost.with_traceback(None)
        if self.open:
            waiting = self._loop.create_future()
            self._quiet.append(waiting)
            await waiting

    def end(self, problem: Exception) -> None:
        self._lost = problem if self.open else self._lost
        pending, self._pending, self._mandatory, self.open = self._pending, deque(), {}, 0
        for future in pending:
            if future is not None and not future.done():
                _fail(future, problem)
        quiet, self._quiet = self._quiet, []
        for waiting in quiet:
            if not waiting.done():
                waiting.set_exception(problem)
                waiting.exception()  # who waits may be gone by then

    def _tell_if_quiet(self) -> None:
        if self.open or not self._quiet:
            return
        quiet, self._quiet = self._quiet, []
        for waiting in quiet:
            if not waiting.done():
                waiting.set_result(None)


def _fail(future: Settled, problem: Exception) -> None:
    future.set_exception(problem)
    future.exception()  # not everybody who publishes waits for each confirm
