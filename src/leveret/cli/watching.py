"""Messages of a queue as they come: each is shown, and only what was shown is acknowledged.

Without acks the broker hands out no more than it may, all of it is held, and goes back when the link is closed. With
acks and a number of messages to take, the broker is never allowed to hand out more than that: so none that nobody
asked for comes back marked as redelivered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from leveret.cli.amqp_link import AmqpLink
from leveret.cli.delivery_text import Delivery, Shown
from leveret.wire.constants import FRAME_BODY, FRAME_HEADER, FRAME_METHOD
from leveret.wire.fields import Table
from leveret.wire.frames import CONTENT_HEADER, decode_header, decode_method
from leveret.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicQos,
    BasicQosOk,
    QueueDeclare,
    QueueDeclareOk,
)
from leveret.wire.properties import decode_properties

MOST_HELD = 1_000
PREFETCH = 200
IDLE_SECONDS = 1.0  # without anything new, a queue that is not followed has nothing more for us


class Watch(NamedTuple):
    """``acks``: what was shown is gone. ``no_ack``: the queue is our own, the broker need not remember anything."""

    queue: str
    acks: bool = False
    no_ack: bool = False
    most: int | None = None
    follows: bool = True
    offset: str | None = None

    @property
    def limit(self) -> int | None:
        """How many are shown at most: what is held must fit."""
        if self.acks or self.no_ack:
            return self.most
        return MOST_HELD if self.most is None else self.most


class Watcher:
    def __init__(self, link: AmqpLink, watch: Watch, shown: Shown, write: Callable[[bytes], None]) -> None:
        self.written = 0  # messages that reached whoever reads us
        self._link = link
        self._watch = watch
        self._shown = shown
        self._write = write
        self._lines: list[bytes] = []
        self._acked = 0
        self._prefetch = min(watch.limit or PREFETCH, PREFETCH if watch.acks else MOST_HELD)

    async def run(self) -> None:
        watch = self._watch
        if not watch.no_ack:
            await self._link.call(BasicQos(prefetch_count=self._prefetch), BasicQosOk)
        arguments: Table = {}
        if watch.offset is not None:
            arguments["x-stream-offset"] = int(watch.offset) if watch.offset.isdecimal() else watch.offset
        consume = BasicConsume(watch.queue, no_ack=watch.no_ack, arguments=arguments)
        tag = (await self._link.call(consume, BasicConsumeOk)).consumer_tag
        try:
            while self._taken != watch.limit and (self._link.has_frames or await self._has_more()):
                self._lines.append(self._shown(await self._next()))
                if not self._link.has_frames:
                    self._flush()
            self._flush()
        finally:
            self._link.send(BasicCancel(tag, nowait=True))  # before the last ack, which would ask for more
            if watch.acks:
                self._ack(self.written)

    @property
    def _taken(self) -> int:
        return self.written + len(self._lines)

    def _flush(self) -> None:
        if not self._lines:
            return
        self._write(b"".join(self._lines))
        self.written = self._taken
        self._lines.clear()
        if self._watch.acks:
            # Beyond this the broker would hand out more than was asked for.
            room = self.written if self._watch.most is None else self._watch.most - self._prefetch
            self._ack(min(self.written, room))

    def _ack(self, upto: int) -> None:
        """Delivery tags count from 1, one each."""
        if upto > self._acked:
            self._acked = upto
            self._link.send(BasicAck(upto, multiple=True))

    async def _has_more(self) -> bool:
        if self._watch.follows:
            return True
        ready = await self._link.call(QueueDeclare(self._watch.queue, passive=True), QueueDeclareOk)
        if self._link.has_frames:
            return True
        return ready.message_count > 0 and await self._link.hears_within(IDLE_SECONDS)

    async def _next(self) -> Delivery:
        link = self._link
        while True:
            frame = await link.next_frame()
            method = decode_method(frame.payload) if frame.kind == FRAME_METHOD else None
            if isinstance(method, BasicDeliver):
                break  # all else is of no interest here: that publishers are blocked, say
        header = await link.next_frame()
        assert header.kind == FRAME_HEADER
        _, left = decode_header(header.payload)
        parts: list[bytes] = []
        while left > 0:
            part = await link.next_frame()
            assert part.kind == FRAME_BODY
            parts.append(part.payload)
            left -= len(part.payload)
        properties = decode_properties(header.payload, CONTENT_HEADER.size, len(header.payload))
        return Delivery(method, properties, b"".join(parts))
