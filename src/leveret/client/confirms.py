"""What was published and has not been confirmed yet.

Hot path: ``add`` runs for each message that is published with confirms, ``settle`` for each ack of the broker, which
mostly stands for many messages. Tags are numbered from 1 without gaps, so the oldest stands first.

Failures are kept until the application has seen them (failures.py); returned messages are matched in mandatory.py.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from leveret.client.errors import Nacked, Unroutable
from leveret.client.failures import Failures
from leveret.client.mandatory import Likeness, place_of
from leveret.client.messages import Returned

NOT_TAKEN = "the broker did not take the message: its queue is full, or gone; publish it again"


class Settled(Protocol):
    """Receives the outcome of a publish: an asyncio future, or one of a thread."""

    def done(self) -> bool: ...

    def set_result(self, result: None, /) -> None: ...

    def set_exception(self, problem: Exception, /) -> None: ...

    def exception(self) -> BaseException | None: ...


class Confirms:
    __slots__ = ("_failures", "_first", "_loop", "_lost", "_mandatory", "_pending", "_quiet", "new_future", "open")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.new_future: Callable[[], asyncio.Future[None]] = loop.create_future
        self._first = 1  # the tag of the first in _pending
        self._pending: deque[Settled | None] = deque()  # None: settled out of turn
        self._mandatory: deque[tuple[int, Likeness]] = deque()  # by tag, the oldest first
        self._quiet: list[asyncio.Future[None]] = []  # waiting until nothing is unconfirmed
        self._lost: Exception | None = None  # what ended all while some were open
        self._failures = Failures()
        self.open = 0

    def add(self, mandatory: Likeness | None = None) -> asyncio.Future[None]:
        future = self.new_future()
        self.tell(future, mandatory)
        return future

    def tell(self, settled: Settled, mandatory: Likeness | None = None) -> None:
        """What becomes of the message that was published now."""
        if mandatory is not None:
            self._mandatory.append((self._first + len(self._pending), mandatory))
        self._pending.append(settled)
        self.open += 1

    def settle(self, tag: int, *, multiple: bool, is_taken: bool) -> None:
        pending, place = self._pending, tag - self._first
        if multiple:
            last = self._first + len(pending) - 1 if tag == 0 else tag
            while pending and self._first <= last:
                self._end(pending.popleft(), is_taken=is_taken)
                self._first += 1
        elif 0 <= place < len(pending):
            future = pending[place]
            pending[place] = None
            self._end(future, is_taken=is_taken)
            while pending and pending[0] is None:
                pending.popleft()
                self._first += 1
        while self._mandatory and self._mandatory[0][0] < self._first:
            self._mandatory.popleft()
        self._tell_if_quiet()

    def _end(self, future: Settled | None, *, is_taken: bool) -> None:
        if future is None:
            return
        self.open -= 1
        if not is_taken:
            self.fail(future, Nacked(NOT_TAKEN))
        elif not future.done():
            future.set_result(None)

    def fail(self, future: Settled, problem: Exception) -> None:
        if not future.done():
            future.set_exception(problem)
            self._failures.note(future)

    def returned(self, message: Returned) -> None:
        place = place_of(message, self._mandatory, self._is_open)
        if place is not None:
            future = self._pending[self._mandatory[place][0] - self._first]
            del self._mandatory[place]
            assert future is not None, "it is open"
            self.fail(future, Unroutable(message))

    def _is_open(self, tag: int) -> bool:
        return tag >= self._first and self._pending[tag - self._first] is not None

    async def all_settled(self) -> None:
        """Until nothing that was published is open. Raises what ended the channel, if some were open then; else what
        the first failed by that failed since the last time and whose outcome was not retrieved."""
        if self._lost is not None:
            self._failures.take()
            raise self._lost.with_traceback(None)
        if self.open or self._failures:
            waiting = self._loop.create_future()
            self._quiet.append(waiting)
            self._tell_if_quiet()
            await waiting

    def end(self, problem: Exception) -> None:
        self._lost = problem if self.open else self._lost
        pending, self._pending, self._mandatory, self.open = self._pending, deque(), deque(), 0
        for future in pending:
            if future is not None and not future.done():
                future.set_exception(problem)
                future.exception()  # reported once by the call that waits for all confirms
        quiet, self._quiet = self._quiet, []
        for waiting in quiet:
            if not waiting.done():
                waiting.set_exception(problem)
                waiting.exception()  # the waiting call may have been cancelled
        if self._failures:
            self._loop.call_soon(self._failures.hush)  # after the futures that wait for one of them are resolved

    def _tell_if_quiet(self) -> None:
        if self.open or not self._quiet:
            return
        quiet, self._quiet = self._quiet, []
        if self._failures:
            self._loop.call_soon(self._tell, quiet)  # after the futures that wait for one of them are resolved
        else:
            self._tell(quiet)

    def _tell(self, quiet: list[asyncio.Future[None]]) -> None:
        waiting = [each for each in quiet if not each.done()]
        problem = self._failures.take() if waiting else None
        for each in waiting:
            if problem is None:
                each.set_result(None)
            else:
                each.set_exception(problem)
