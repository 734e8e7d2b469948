"""Browses a queue without consuming messages.

AMQP has no method for it. So a browser fetches messages on a channel of its own, does not acknowledge them, and closes
the channel when it is done: they are requeued in their order. The consequences:

- While browsing, other consumers do not get the messages that the browser holds, at most ``limit``.
- Afterwards their delivery count is higher by one, also for ``x-delivery-limit``: do not browse such a queue often.
  Browsing over HTTP, or in the process of the broker, has no such effect.
- Messages that arrive after the browser has started are not seen.
"""

from __future__ import annotations

from typing import Self

from leveret.client.channel import Channel
from leveret.client.closable import Closable
from leveret.client.jms.destinations import Destination, Queue
from leveret.client.jms.errors import IllegalState, InvalidDestination
from leveret.client.jms.messages import Message, received
from leveret.client.jms.registrar import Registrar
from leveret.client.jms.topics import compiled_selector
from leveret.delivery.selector import selectable


class QueueBrowser(Closable):
    """``async for message in browser``; each loop starts again."""

    def __init__(self, registrar: Registrar, queue: Destination, selector: str, limit: int) -> None:
        if not isinstance(queue, Queue):
            raise InvalidDestination(f"{queue!r} is not a queue: only queues can be browsed")
        self.queue = queue
        self.limit = limit
        self._selector = compiled_selector(selector)
        self._registrar = registrar
        self._channel: Channel | None = None
        self._left = 0
        self.is_closed = False

    async def next(self) -> Message | None:
        """The next message; None after the last one, when all of them are requeued."""
        if self.is_closed:
            raise IllegalState(f"the browser of queue '{self.queue.name}' is closed")
        channel = self._channel or await self._begin()
        while self._left > 0:
            self._left -= 1
            fetched = await channel.get(self.queue.name)
            if fetched is None:
                break
            if self._selector is None or self._selector.matches(selectable(fetched.properties)):
                return received(fetched, destination=self.queue)
        await self._give_back()
        return None

    async def _begin(self) -> Channel:
        await self._registrar.prepare(self.queue)
        channel = await self._registrar.connection.channel()
        known = await channel.declare_queue(self.queue.name, passive=True)
        self._left = min(known.message_count, self.limit)
        self._channel = channel
        return channel

    async def _give_back(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()

    async def close(self) -> None:
        self.is_closed = True
        await self._give_back()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        message = await self.next()
        if message is None:
            raise StopAsyncIteration
        return message
