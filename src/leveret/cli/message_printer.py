"""Prints the messages of a queue as they arrive, and acknowledges only messages that were printed.

Without acknowledgements the prefetch limits how many messages are held; they are requeued when the connection is
closed. With acknowledgements and a number of messages, the broker never delivers more than that number: no other
message is marked as redelivered.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from leveret.cli.delivery_text import Shown, of_delivery
from leveret.client import Channel, Consumer, Delivery
from leveret.errors import LeveretError
from leveret.wire.fields import Table

MOST_HELD = 1_000
PREFETCH = 200
DELIVERY_COUNT = "x-delivery-count"  # header
IDLE_SECONDS = 1.0  # with --no-follow: end if no message arrives for that long


class Source(NamedTuple):
    """``acks``: acknowledge printed messages. ``no_ack``: automatic acknowledgement mode, for an exclusive queue."""

    queue: str
    acks: bool = False
    no_ack: bool = False
    most: int | None = None
    follows: bool = True
    offset: str | None = None
    delivery_limit: int | None = None

    @property
    def limit(self) -> int | None:
        """The maximum number of messages to print."""
        if self.acks or self.no_ack:
            return self.most
        return MOST_HELD if self.most is None else self.most


class MessagePrinter:
    def __init__(self, channel: Channel, source: Source, shown: Shown, write: Callable[[bytes], None]) -> None:
        self.written = 0  # messages
        self.discarded = 0  # messages at their delivery limit: requeueing discards them
        self._channel = channel
        self._source = source
        self._shown = shown
        self._write = write
        self._lines: list[bytes] = []
        self._acked = 0
        self._prefetch = min(source.limit or PREFETCH, PREFETCH if source.acks else MOST_HELD)

    async def run(self) -> None:
        source, offset = self._source, self._source.offset
        if not source.no_ack:
            await self._channel.qos(self._prefetch)
        arguments: Table = {}
        if offset is not None:
            arguments["x-stream-offset"] = int(offset) if offset.isdecimal() else offset
        consumer = await self._channel.consume(source.queue, no_ack=source.no_ack, arguments=arguments)
        try:
            while self._taken != source.limit and (delivery := await self._next(consumer)) is not None:
                self._count_returns(delivery)
                self._lines.append(self._shown(of_delivery(delivery)))
                if not consumer.waiting:
                    self._flush()
            self._flush()
        finally:
            with suppress(LeveretError):  # the error that ended the consumer is already raised
                await consumer.cancel()  # before the last ack, after which the broker would deliver more
                if source.acks:
                    self._ack(self.written)

    @property
    def _taken(self) -> int:
        return self.written + len(self._lines)

    def _count_returns(self, delivery: Delivery) -> None:
        """A message is discarded when it is requeued more often than the limit allows."""
        count, limit = delivery.headers.get(DELIVERY_COUNT, 0), self._source.delivery_limit
        if limit is not None and not self._source.acks and isinstance(count, int) and count >= limit:
            self.discarded += 1

    async def _next(self, consumer: Consumer) -> Delivery | None:
        if self._source.follows or consumer.waiting:
            return await consumer.next()
        ready = await self._channel.declare_queue(self._source.queue, passive=True)
        if ready.message_count or consumer.waiting:
            return await consumer.next(IDLE_SECONDS)
        return None

    def _flush(self) -> None:
        if not self._lines:
            return
        self._write(b"".join(self._lines))
        self.written = self._taken
        self._lines.clear()
        if self._source.acks:
            # With a higher prefetch, the broker would deliver more messages than requested.
            most = self.written if self._source.most is None else self._source.most - self._prefetch
            self._ack(min(self.written, most))

    def _ack(self, upto: int) -> None:
        """Delivery tags count from 1, one per delivery."""
        if upto > self._acked:
            self._acked = upto
            self._channel.ack(upto, multiple=True)
