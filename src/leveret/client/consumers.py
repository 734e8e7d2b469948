"""Consumers: a callback for each delivery, or an iterator.

An iterated consumer buffers deliveries that were not taken yet; its prefetch bounds the buffer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from inspect import isawaitable
from typing import TYPE_CHECKING, Self

from leveret.client.callbacks import report
from leveret.client.errors import Cancelled, Closed
from leveret.client.messages import Delivery

if TYPE_CHECKING:
    from leveret.client.channel import Channel

OnDelivery = Callable[[Delivery], object]  # an awaitable result is awaited, any other one ignored


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
        self._sleepers: deque[asyncio.Future[None]] = deque()
        self.problem: Exception | None = None  # why it has ended

    # ---- deliveries

    def _keep(self, delivery: Delivery) -> None:
        self.waiting.append(delivery)
        if self._sleepers:
            self._wake()

    def _caller(self, callback: OnDelivery) -> Callable[[Delivery], object]:
        def call(delivery: Delivery) -> None:
            try:
                outcome = callback(delivery)
                if outcome is not None and isawaitable(outcome):
                    self.channel.run(outcome)
            except Exception as problem:  # noqa: BLE001  # whatever the application raises
                report(callback, problem)

        return call

    def end(self, problem: Exception) -> None:
        """No more messages will arrive."""
        if self.problem is not None:
            return
        self.problem = problem
        while self._sleepers:
            self._wake()
        if self.on_end is not None:
            self.on_end(problem)

    @property
    def is_over(self) -> bool:
        return self.problem is not None

    # ---- the application

    async def next(self, timeout: float | None = None) -> Delivery | None:
        """The next message; None if none arrived in time. Raises after the last message of an ended consumer."""
        try:
            async with asyncio.timeout(timeout):
                while not self.waiting:
                    if self.problem is not None:
                        raise self.problem.with_traceback(None)
                    await self._one_more()
        except TimeoutError:
            return None
        return self.waiting.popleft()

    async def _one_more(self) -> None:
        sleeper = asyncio.get_running_loop().create_future()
        self._sleepers.append(sleeper)
        try:
            await sleeper
        except asyncio.CancelledError:
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)
            if self.waiting:  # this call was woken for it: wake another one
                self._wake()
            raise

    def _wake(self) -> None:
        """The first waiting call that was not cancelled."""
        while self._sleepers:
            sleeper = self._sleepers.popleft()
            if not sleeper.done():
                sleeper.set_result(None)
                return

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
        """Messages that were not taken are requeued. Without acks they cannot be, and stay available by ``next``."""
        if self.is_over:
            return
        await self.channel.cancel(self.tag)

    def give_back(self) -> None:
        """Requeue the messages that were not taken."""
        if self.no_ack:  # the broker has deleted them
            return
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
    return Cancelled(
        f"the broker cancelled consumer '{tag}': queue '{queue}' was deleted, or another consumer took over"
    )
