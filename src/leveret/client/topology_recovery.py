"""Declares the topology of a connection again after a loss, on channels of its own: an error closes only these.

A broker that has not noticed the loss yet still holds exclusive queues and consumers for the previous connection. It
notices after two heartbeat intervals at the latest; during this *grace period*, refused calls are retried.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from leveret.client.channel import Channel
from leveret.client.connection import Happening
from leveret.client.correlator import Then
from leveret.client.errors import ClientError, ConnectionLost
from leveret.client.failover_uri import Backoff
from leveret.errors import AmqpError, NotFound
from leveret.wire import methods as m

if TYPE_CHECKING:
    from leveret.client.recovering_connection import RecoveringConnection

WITHOUT_HEARTBEATS = 10.0  # seconds: without heartbeats the broker may notice late, or never
SLACK = 1.0  # seconds that the broker may be late
LOCKED, REFUSED = 405, 403


class GracePeriod:
    """One for everything that is restored on a connection."""

    def __init__(self, heartbeat: float, on_retry: Callable[[AmqpError], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._until = self._loop.time() + (2 * heartbeat or WITHOUT_HEARTBEATS) + SLACK
        self._delays = Backoff(initial=0.02, maximum=1.0).delays()
        self._on_retry = on_retry

    def end(self) -> None:
        """This is another broker: a refusal has nothing to do with the previous connection."""
        self._until = 0.0

    def covers(self, problem: AmqpError) -> bool:
        """Whether the refused call should be retried."""
        is_locked = problem.code == LOCKED or (problem.code == REFUSED and "exclusive" in problem.text)
        if not is_locked or self._loop.time() >= self._until:
            return False
        self._on_retry(problem)
        return True

    async def pause(self) -> None:
        await asyncio.sleep(next(self._delays))


class SideChannel(Channel):
    """A channel for one call of the client itself. The broker closes a channel with each error."""

    connection: RecoveringConnection

    def __init__(self, connection: RecoveringConnection, number: int) -> None:
        super().__init__(connection, number)
        self._gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end(self, problem: Exception) -> None:
        super().end(problem)
        if not self._gone.done():
            self._gone.set_result(None)

    async def until_gone(self) -> None:
        """Wait until another channel can use its number."""
        await asyncio.shield(self._gone)

    def _call_now(self, method: m.Method, then: Then = None) -> asyncio.Future[Any]:
        self.connection.refuse_lost()
        return super()._call_now(method, then)

    async def run_once(self, method: m.Method) -> Any:
        """Opens the channel, calls the method and closes the channel."""
        try:
            await self.open()
            result = await self._call(method)
            await self.close()
        except BaseException:
            if not self.is_closed:
                self.run(self.close())
            raise
        return result


class TopologyRecovery:
    def __init__(self, connection: RecoveringConnection, grace: GracePeriod) -> None:
        self._connection = connection
        self._record = connection.record
        self._grace = grace

    async def everything(self) -> None:
        for exchange in self._record.exchanges():
            await self._redo(exchange)
        for role, queue in self._record.queues():
            if not await self._still_exists(role, queue):
                reply = await self._redo(queue)
                if reply is not None:
                    self._record.named(role, reply.queue)
        for binding in self._record.bindings():
            await self._redo(binding)

    async def _still_exists(self, role: str, queue: m.QueueDeclare) -> bool:
        """A server-named queue may have outlived the connection, with its messages. It can only be declared passively:
        clients may not declare such names."""
        if queue.queue or queue.exclusive:
            return False
        method = m.QueueDeclare(self._record.current(role), passive=True)
        try:
            await self._connection.call_once_aside(method)
        except NotFound:
            return False
        except AmqpError as problem:
            self._refused(method, problem)
        return True

    async def _redo(self, method: m.Method) -> Any:
        is_exclusive = isinstance(method, m.QueueDeclare) and method.exclusive
        while True:
            try:
                return await self._connection.call_once_aside(method)
            except AmqpError as problem:
                if not is_exclusive or not self._grace.covers(problem):
                    self._refused(method, problem)
                    return None
            except ConnectionLost:
                raise
            except ClientError as problem:  # this broker accepts smaller frames than the one before
                self._report(method, problem)
                return None
            await self._grace.pause()

    def _refused(self, method: m.Method, problem: AmqpError) -> None:
        if problem.closes == "connection":
            raise problem
        self._report(method, problem)

    def _report(self, method: m.Method, problem: Exception) -> None:
        connection = self._connection
        text = f"{method.NAME} could not be repeated at {connection.address.shown}: {problem}"
        connection.notify(Happening("not restored", text, problem))
