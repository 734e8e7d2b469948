"""Request and reply: sends a message and waits for its reply.

Replies use direct reply-to: a consumer of ``amq.rabbitmq.reply-to``, without a queue. A generated correlation ID
matches replies to requests, so many requests can be in flight at once. The replying application sends to
``message.reply_to`` with the ``correlation_id`` of the request.
"""

from __future__ import annotations

import asyncio
import time
from uuid import uuid4

from leveret.client.channel import Channel
from leveret.client.closable import Closable
from leveret.client.connection import Happening
from leveret.client.errors import Unroutable
from leveret.client.jms.destinations import Destination, Queue
from leveret.client.jms.errors import IllegalState, InvalidDestination
from leveret.client.jms.messages import Message, received
from leveret.client.jms.registrar import Registrar
from leveret.client.messages import Delivery

REPLY_TO = "amq.rabbitmq.reply-to"


class Requestor(Closable):
    """Requests to one queue. The acknowledgement mode of the session does not matter: requests are sent at once, and
    replies need no ack."""

    def __init__(self, registrar: Registrar, queue: Destination) -> None:
        if not isinstance(queue, Queue):
            raise InvalidDestination(f"{queue!r} is not a queue: requests can only be sent to queues")
        self.queue = queue
        self._connection = registrar.connection
        self._registrar = registrar
        self._waiting: dict[str, asyncio.Future[Message]] = {}
        self._channel: Channel | None = None
        self._opening = asyncio.Lock()
        self.is_closed = False
        self._connection.listeners.append(self._happened)

    async def request(self, message: Message, timeout: float | None = None) -> Message:
        """The reply. TimeoutError if none arrived within ``timeout`` seconds; a later one is dropped. The request
        expires with the timeout."""
        if self.is_closed:
            raise IllegalState(f"the requestor of queue '{self.queue.name}' is closed")
        identity = uuid4().hex
        message.message_id = f"ID:{identity}"
        message.correlation_id = identity
        message.reply_to = Queue.exactly(REPLY_TO)
        message.destination = self.queue
        message.timestamp = time.time()
        message.expiration = message.timestamp + timeout if timeout is not None else 0.0
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[identity] = answer
        try:
            async with asyncio.timeout(timeout):
                await self._ask(await self._open(), message, timeout or 0)
                return await answer
        except TimeoutError:
            raise TimeoutError(
                f"no reply to the request on queue '{self.queue.name}' within {timeout:g} s: does it have a consumer?"
            ) from None
        finally:
            del self._waiting[identity]
            if answer.done() and not answer.cancelled():
                answer.exception()  # it may have arrived while another call failed

    async def _ask(self, channel: Channel, message: Message, timeout: float) -> None:
        properties = message.amqp_properties(timeout)
        try:
            await channel.publish(message.encoded_body(), "", self.queue.name, properties, mandatory=True)
        except Unroutable as problem:
            self._registrar.forget(self.queue)
            raise InvalidDestination(f"queue '{self.queue.name}' does not exist: {problem}") from problem

    async def _open(self) -> Channel:
        await self._registrar.prepare(self.queue)
        async with self._opening:
            if self._channel is None or self._channel.is_closed:
                self._channel = await self._opened()
            return self._channel

    async def _opened(self) -> Channel:
        channel = await self._connection.channel()
        try:
            await channel.consume(REPLY_TO, self._answered, no_ack=True)
            await channel.confirm_select()
        except BaseException:
            channel.run(channel.close())  # the application does not know it
            raise
        channel.on_close = self._lost
        return channel

    def _answered(self, delivery: Delivery) -> None:
        waiting = self._waiting.get(delivery.properties.correlation_id or "")
        if waiting is not None and not waiting.done():
            waiting.set_result(received(delivery))

    def _happened(self, happening: Happening) -> None:
        """The reply queue is lost with its connection, also if that reconnects."""
        if happening.kind == "lost" and happening.problem is not None:
            self._lost(happening.problem)

    def _lost(self, problem: Exception) -> None:
        """Replies to pending requests will not arrive: their queue was lost with the channel."""
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(problem)

    async def close(self) -> None:
        if not self.is_closed:
            self._connection.listeners.remove(self._happened)
        self.is_closed = True
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()
