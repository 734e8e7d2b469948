"""A consumer for threads. The loop puts deliveries into a queue, and the application takes them from there without
calling the loop. With a callback, the consumer is also queued at its channel, once per message, for the thread that
runs the channel's callbacks."""

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
        self._waiting: SimpleQueue[Delivery | None] = SimpleQueue()  # None: no more will come
        self._end: Exception | None = None

    # ---- the broker's side, on the loop

    def arrived(self, delivery: Delivery) -> None:
        delivery.channel = self.channel  # type: ignore[assignment]  # whose acks any thread may call
        self._waiting.put(delivery)
        if self.callback is not None:
            self.channel.due.put(self)

    def ended(self, problem: Exception) -> None:
        self._end = problem
        self._waiting.put(None)
        if self.callback is not None:
            self.channel.due.put(self)

    # ---- the application's side

    @property
    def is_over(self) -> bool:
        return self._end is not None

    def next(self, timeout: float | None = None) -> Delivery | None:
        """The next message; None if none came in time. Raises when the consumer has ended and all are taken."""
        if self.callback is not None:
            raise ClientError(f"consumer '{self.tag}' hands its messages to a callback: it has no next one to ask for")
        try:
            return self._taken(self._waiting.get(True, timeout))
        except Empty:
            return None

    def call_back(self) -> None:
        """One message to the callback, if one is left."""
        assert self.callback is not None
        try:
            delivery = self._taken(self._waiting.get_nowait())
        except Empty:  # given back in the meantime
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
        """Ends it. What came and was not taken goes back to the queue; without acks it cannot, and stays for next."""
        if self.is_over:
            return
        self.channel.cancel(self.tag)

    def give_back(self) -> None:
        """What was not taken goes back to the queue, in its place."""
        if self.no_ack and self.callback is None:  # the broker has forgotten it; a cancelled callback is not called
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
