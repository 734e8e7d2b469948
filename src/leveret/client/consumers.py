"""Who takes deliveries: a function that is called with each, or somebody who asks for the next.

A consumer that is iterated holds what came and was not taken yet; its prefetch bounds it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Self

from leveret.client.arrivals import Delivery
from leveret.client.errors import Cancelled, Closed

if TYPE_CHECKING:
    from leveret.client.channel import Channel

OnDelivery = Callable[[Delivery], Awaitable[None] | None]


class Consumer:
    """``async for message in consumer``, ``await consumer.next(timeout)``, or a callback: one of them."""

    def __init__(self, channel: Channel, queue: str, callback: OnDelivery | None, *, no_ack: bool) -> None:
        self.channel = channel
        self.queue = queue
        self.no_ack = no_ack
        self.tag = ""
        self.waiting: deque[Delivery] = deque()
        self.take: Callable[[Delivery], object] = self._keep if callback is None else self._caller(callback)
        self.on_end: Callable[[Exception], None] | None = None
        self._next: asyncio.Future[None] | None = None
        self._end: Exception | None = None

    # ---- the broker's side

    def _keep(self, delivery: Delivery) -> None:
        self.waiting.append(delivery)
        if self._next is not None and not self._next.done():
            self._next.set_result(None)

    def _caller(self, callback: OnDelivery) -> Callable[[Delivery], object]:
        def call(delivery: Delivery) -> None:
            outcome = callback(delivery)
            if outcome is not None:
                self.channel.run(outcome)

        return call

    def end(self, problem: Exception) -> None:
        """No more will come."""
        if self._end is not None:
            return
        self._end = problem
        if self._next is not None and not self._next.done():
            self._next.set_result(None)
        if self.on_end is not None:
            self.on_end(problem)

    @property
    def problem(self) -> Exception | None:
        """Why it is over, if it is."""
        return self._end

    @property
    def is_over(self) -> bool:
        return self._end is not None

    # ---- the application's side

    async def next(self, timeout: float | None = None) -> Delivery | None:
        """The next message; None if none came in time. Raises when the consumer has ended and all are taken."""
        try:
            async with asyncio.timeout(timeout):
                while not self.waiting:
                    if self._end is not None:
                        raise self._end
                    self._next = self._next or asyncio.get_running_loop().create_future()
                    await self._next
                    self._next = None
        except TimeoutError:
            return None
        return self.waiting.popleft()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delivery:
        if self.waiting:
            return self.waiting.popleft()
        try:
            message = await self.next()
        except Closed:
            raise StopAsyncIteration from None
        if message is None:
            raise StopAsyncIteration
        return message

    async def cancel(self) -> None:
        """Ends it. What came and was not taken goes back to the queue."""
        if self.is_over:
            return
        await self.channel.cancel(self.tag)

    def give_back(self) -> None:
        """What was not taken goes back to the queue, in its place."""
        if not self.no_ack:
            for delivery in self.waiting:
                if not self.channel.is_closed:
                    delivery.nack(requeue=True)
        self.waiting.clear()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        if not self.channel.is_closed:
            await self.cancel()


def cancelled(tag: str, queue: str) -> Cancelled:
    return Cancelled(f"the broker ended consumer '{tag}': queue '{queue}' is gone, or another consumer took over")
