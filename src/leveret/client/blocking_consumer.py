"""A consumer for threads. The loop puts deliveries into a queue, from which the application takes them without calling
the loop. With a callback, the consumer is also queued at its channel, once per message, for the thread that runs the
callbacks of the channel."""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Self

from leveret.client.errors import ClientError, Closed
from leveret.client.messages import Delivery

if TYPE_CHECKING:
    from leveret.client.blocking_channel import Channel

OnDelivery = Callable[[Delivery], object]


class Consumer:
    """``for message in consumer``, ``consumer.next(timeout)`` in any number of threads, or a callback."""

    def __init__(self, channel: Channel, queue: str, callback: OnDelivery | None, *, no_ack: bool) -> None:
        self.channel = channel
        self.queue = queue
        self.no_ack = no_ack
        self.tag = ""
        self.callback = callback
        self._waiting: SimpleQueue[Delivery | None] = SimpleQueue()  # None: the end
        self._end: Exception | None = None

    # ---- on the loop

    def arrived(self, delivery: Delivery) -> None:
        delivery.channel = self.channel  # type: ignore[assignment]  # so that any thread may acknowledge it
        self._waiting.put(delivery)
        if self.callback is not None:
            self.channel.due.put(self)

    def ended(self, problem: Exception) -> None:
        self._end = problem
        self._waiting.put(None)
        if self.callback is not None:
            self.channel.due.put(self)

    # ---- in threads of the application

    @property
    def is_over(self) -> bool:
        return self._end is not None

    def next(self, timeout: float | None = None) -> Delivery | None:
        """The next message; None if none arrived in time. Raises after the last message of an ended consumer."""
        if self.callback is not None:
            raise ClientError(f"consumer '{self.tag}' delivers to a callback: next() needs a consumer without one")
        try:
            return self._taken(self._waiting.get(True, timeout))
        except Empty:
            return None

    def call_back(self) -> None:
        """Pass one message to the callback, if there is one."""
        assert self.callback is not None
        try:
            delivery = self._taken(self._waiting.get_nowait())
        except Empty:  # requeued meanwhile
            return
        self.callback(delivery)

    def _taken(self, delivery: Delivery | None) -> Delivery:
        if delivery is None:
            self._waiting.put(None)  # for the other waiting threads
            assert self._end is not None
            raise self._end.with_traceback(None)
        return delivery

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Delivery:
        try:
            message = self.next()
        except Closed:
            raise StopIteration from None
        assert message is not None
        return message

    def cancel(self) -> None:
        """Messages that were not taken are requeued. Without acks they cannot be, and stay available by ``next``."""
        if self.is_over:
            return
        self.channel.cancel(self.tag)

    def give_back(self) -> None:
        """Requeue the messages that were not taken."""
        if self.no_ack and self.callback is None:  # the broker has deleted them; a cancelled callback is not called
            return
        while True:
            try:
                delivery = self._waiting.get_nowait()
            except Empty:
                break
            if delivery is not None and not self.no_ack and not self.channel.is_closed:
                delivery.nack(requeue=True)
        self._waiting.put(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if not self.channel.is_closed:
            self.cancel()
