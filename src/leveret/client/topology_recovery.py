"""What a connection has declared is declared again, on channels of its own: a refusal harms no other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leveret.client.connection import Happening
from leveret.client.errors import ClientError, ConnectionLost
from leveret.errors import AmqpError, NotFound
from leveret.wire import methods as m

if TYPE_CHECKING:
    from leveret.client.grace import Grace
    from leveret.client.recovering_connection import RecoveringConnection


class TopologyRecovery:
    def __init__(self, connection: RecoveringConnection, grace: Grace) -> None:
        self._connection = connection
        self._record = connection.record
        self._grace = grace

    async def everything(self) -> None:
        for exchange in self._record.exchanges():
            await self._redo(exchange, m.ExchangeDeclareOk)
        for role, queue in self._record.queues():
            if not await self._is_still_there(role, queue):
                answer = await self._redo(queue, m.QueueDeclareOk)
                if answer is not None:
                    self._record.named(role, answer.queue)
        for binding in self._record.bindings():
            await self._redo(binding, m.QueueBindOk if isinstance(binding, m.QueueBind) else m.ExchangeBindOk)

    async def _is_still_there(self, role: str, queue: m.QueueDeclare) -> bool:
        """A queue that the broker named may have outlived the connection, with all that is in it. By its name it can
        only be looked for: no client may declare such a name."""
        if queue.queue or queue.exclusive:
            return False
        method = m.QueueDeclare(self._record.current(role), passive=True)
        try:
            await self._connection.ask_once_aside(method, m.QueueDeclareOk)
        except NotFound:
            return False
        except AmqpError as problem:
            self._refused(method, problem)
        return True

    async def _redo(self, method: m.Method, answer: type[m.Method]) -> Any:
        is_exclusive = isinstance(method, m.QueueDeclare) and method.exclusive
        while True:
            try:
                return await self._connection.ask_once_aside(method, answer)
            except AmqpError as problem:
                if not is_exclusive or not self._grace.covers(problem):
                    self._refused(method, problem)
                    return None
            except ConnectionLost:
                raise
            except ClientError as problem:  # this broker takes smaller frames than the one before
                self._tell(method, problem)
                return None
            await self._grace.pause()

    def _refused(self, method: m.Method, problem: AmqpError) -> None:
        if problem.closes == "connection":
            raise problem
        self._tell(method, problem)

    def _tell(self, method: m.Method, problem: Exception) -> None:
        connection = self._connection
        text = f"{method.NAME} could not be done again at {connection.address.shown}: {problem}"
        connection.tell(Happening("not restored", text, problem))
