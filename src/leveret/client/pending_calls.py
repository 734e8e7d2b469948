"""Calls that wait for a connection: repeated on one after the other, until a broker has replied."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from leveret.client.errors import Interrupted
from leveret.errors import LeveretError

if TYPE_CHECKING:
    from leveret.client.recovering_channel import RecoveringChannel


class PendingCall:
    """``send`` sends the method on the current connection. ``stamp`` is its place in the order of calls and publishes
    of the channel."""

    def __init__(self, stamp: int, send: Callable[[], asyncio.Future[Any]]) -> None:
        self.stamp = stamp
        self.send = send
        self.result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def settle(self, reply: asyncio.Future[Any]) -> None:
        problem = reply.exception()
        if isinstance(problem, Exception):
            self.fail(problem)
        elif not self.result.done():  # the caller may have been cancelled
            self.result.set_result(reply.result())

    def fail(self, problem: Exception) -> None:
        if not self.result.done():
            self.result.set_exception(problem)
            self.result.exception()  # the caller may never retrieve it


class PendingCalls:
    """The calls of one channel that were made without a connection, or whose connection was lost."""

    def __init__(self, channel: RecoveringChannel) -> None:
        self._channel = channel
        self._waiting: list[PendingCall] = []

    def put(self, call: PendingCall) -> None:
        if not self._channel.is_live:
            self._waiting.append(call)
        else:
            self.put_now(call)

    def put_now(self, call: PendingCall) -> None:
        try:
            reply = call.send()
        except Interrupted:
            self._waiting.append(call)
        except LeveretError as problem:  # this broker accepts smaller frames than the one before
            call.fail(problem)
        else:
            reply.add_done_callback(lambda reply: self._replied(call, reply))

    def _replied(self, call: PendingCall, reply: asyncio.Future[Any]) -> None:
        if isinstance(reply.exception(), Interrupted) and not self._channel.is_closed:
            self.put(call)
        else:
            call.settle(reply)

    def taken(self) -> list[PendingCall]:
        """Removes and returns the waiting calls."""
        waiting, self._waiting = self._waiting, []
        return waiting

    def drop(self, problem: Exception) -> None:
        for call in self.taken():
            call.fail(problem)


class Gate:
    """While it is shut, callers wait until it opens, or fail."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._passage: asyncio.Future[None] = self._loop.create_future()

    @property
    def is_open(self) -> bool:
        return self._passage.done()

    async def wait(self) -> None:
        await asyncio.shield(self._passage)

    def open(self) -> None:
        if not self.is_open:
            self._passage.set_result(None)

    def shut(self) -> None:
        if self.is_open:
            self._passage = self._loop.create_future()

    def turn_away(self, problem: Exception) -> None:
        """Fail the waiting callers; the gate stays shut."""
        if not self.is_open:
            self._passage.set_exception(problem)
            self._passage.exception()  # there may be no waiting caller
        self._passage = self._loop.create_future()
