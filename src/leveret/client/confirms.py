"""Publishes that have not been confirmed yet.

Hot path: ``track`` runs for each message that is published with confirms, ``settle`` for each ack of the broker, which
mostly confirms many messages. Tags are numbered from 1 without gaps, so the oldest message is the first.

A returned message is matched to its publish by its bytes: basic.return carries no publish number and arrives before the
confirm. It belongs to the oldest unconfirmed message with the same address, properties and body. A broker may change
properties (RabbitMQ can add headers): then it belongs to the oldest with the same address and body. A returned message
must never be reported as stored.

Failures are kept until the application retrieves them. An application that awaits a confirm gets its exception. One
that only waits until everything is confirmed gets the first exception that was not retrieved. asyncio does not tell
whether the exception of a future was retrieved, but logs an error if such a future is dropped; so futures are kept
here, and their exception is retrieved in the end.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from struct import Struct
from typing import Protocol, TypeVar

from leveret.client.errors import Nacked, Unroutable
from leveret.client.messages import Returned
from leveret.wire.constants import FRAME_OVERHEAD
from leveret.wire.fields import encode_short
from leveret.wire.frames import CONTENT_HEADER, ENVELOPE

T = TypeVar("T")
Likeness = tuple[bytes, bytes, bytes]  # exchange and routing key, properties, body: encoded
SIZE = Struct(">I").unpack_from
SIZE_AT = 3  # within a frame
ADDRESS_AT = ENVELOPE.size + 6  # after the IDs of class and method, and a reserved number
NOT_TAKEN = "the broker rejected the message: its queue is full or was deleted; publish it again"
MOST_KEPT = 1_000  # failures, the first ones; later ones are not kept


class Settled(Protocol):
    """Receives the outcome of a publish: an asyncio future, or one of a thread."""

    def done(self) -> bool: ...

    def set_result(self, result: None, /) -> None: ...

    def set_exception(self, problem: Exception, /) -> None: ...

    def exception(self) -> BaseException | None: ...


class Confirms:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.new_future: Callable[[], asyncio.Future[None]] = loop.create_future
        self._first = 1  # the tag of the first in _pending
        self._pending: deque[Settled | None] = deque()  # None: settled out of order
        self._mandatory: deque[tuple[int, Likeness]] = deque()  # by tag, the oldest first
        self._quiet: list[asyncio.Future[None]] = []  # waiting until nothing is unconfirmed
        self._lost: Exception | None = None  # ended the channel while some were unconfirmed
        self._failures = Failures()
        self.open = 0

    def track(self, settled: Settled, mandatory: Likeness | None = None) -> None:
        """``settled`` receives the outcome of the message that is published now."""
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
        self._resolve_if_quiet()

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
            assert future is not None, "it is unconfirmed"
            self.fail(future, Unroutable(message))

    def _is_open(self, tag: int) -> bool:
        return tag >= self._first and self._pending[tag - self._first] is not None

    async def all_settled(self) -> None:
        """Wait until everything is confirmed. Raises the error that ended the channel while messages were unconfirmed,
        else the first failure since the last call whose exception was not retrieved."""
        if self._lost is not None:
            self._failures.take()
            raise self._lost.with_traceback(None)
        if self.open or self._failures:
            waiting = self._loop.create_future()
            self._quiet.append(waiting)
            self._resolve_if_quiet()
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

    def _resolve_if_quiet(self) -> None:
        if self.open or not self._quiet:
            return
        quiet, self._quiet = self._quiet, []
        if self._failures:
            self._loop.call_soon(self._resolve, quiet)  # after the futures that wait for one of them are resolved
        else:
            self._resolve(quiet)

    def _resolve(self, quiet: list[asyncio.Future[None]]) -> None:
        waiting = [each for each in quiet if not each.done()]
        problem = self._failures.take() if waiting else None
        for each in waiting:
            if problem is None:
                each.set_result(None)
            else:
                each.set_exception(problem)


class Failures:
    """Failed confirms whose exception was not retrieved yet."""

    def __init__(self) -> None:
        self._failed: deque[Settled] = deque()  # the oldest first
        self._left: BaseException | None = None  # not retrieved when the channel ended

    def __bool__(self) -> bool:
        return bool(self._failed) or self._left is not None

    def note(self, failed: Settled) -> None:
        line = self._failed
        while line and _is_retrieved(line[0]):
            line.popleft()
        if len(line) < MOST_KEPT and not _is_retrieved(failed):
            line.append(failed)
        else:
            failed.exception()

    def take(self) -> BaseException | None:
        """The first that was not retrieved; after this call all count as retrieved."""
        problem, self._left = self._left, None
        line, self._failed = self._failed, deque()
        for failed in line:
            is_retrieved = _is_retrieved(failed)
            exception = failed.exception()
            if problem is None and not is_retrieved:
                problem = exception
        return problem

    def hush(self) -> None:
        """They may never be retrieved: keep one of them, and keep asyncio from logging the others."""
        self._left = self.take()


def _is_retrieved(failed: Settled) -> bool:
    known = getattr(failed, "is_asked", None)
    return bool(not getattr(failed, "_log_traceback", True) if known is None else known)


def likeness_of(frames: bytes, body: bytes) -> Likeness:
    """Of a publish, by its frames: they may have the current name of a queue that the application knows by another."""
    end: int = SIZE(frames, SIZE_AT)[0] + FRAME_OVERHEAD  # of the method
    size: int = SIZE(frames, end + SIZE_AT)[0]  # of the header
    head_at = end + ENVELOPE.size
    head = frames[head_at + CONTENT_HEADER.size : head_at + size]
    return frames[ADDRESS_AT : end - 2], head, body if body.__class__ is bytes else bytes(body)


def place_of(message: Returned, line: Iterable[tuple[T, Likeness]], is_open: Callable[[T], bool]) -> int | None:
    """The place of the returned message in ``line``, whose first is the oldest."""
    address, body = encode_short(message.exchange) + encode_short(message.routing_key), message.body
    nearly = None
    for place, (item, likeness) in enumerate(line):
        if likeness[0] == address and likeness[2] == body and is_open(item):
            if likeness[1] == message.head:
                return place
            if nearly is None:
                nearly = place
    return nearly
