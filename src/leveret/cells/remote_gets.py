"""basic.get from a queue of another cell, and the settlement of what was fetched.

What was fetched has a lane (cells/remote_queue.py) that ends with the link: delivery tags begin again."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from leveret.cells.home_cell import HomeCell
from leveret.cells.remote_consumer import OutstandingTags
from leveret.cells.request_channel import Answer, Got, RequestChannel
from leveret.errors import AmqpError
from leveret.message import Message
from leveret.queues.context import QueueContext
from leveret.wire.frames import method_frame
from leveret.wire.methods import BasicAck, BasicGet, BasicGetOk, BasicNack, BasicReject, ChannelClose, Method


class RemoteGets(RequestChannel):
    def __init__(self, queue: str, vhost: str, home: HomeCell, context: QueueContext, lanes: Iterator[int]) -> None:
        """``lanes``: numbers that are free."""
        super().__init__(queue, vhost, home, context)
        self._lanes = lanes
        self.lane = next(lanes)
        self._outstanding = OutstandingTags()
        self._last = 0  # the tag that was fetched last

    def get(self, answered: Callable[[Got | AmqpError | None], None]) -> None:
        def take(answer: Answer) -> None:
            answered(answer if isinstance(answer, tuple | AmqpError) else None)

        self._ask(BasicGet(self._queue), take)

    def settle(self, tag: int) -> None:
        self._send(tag, BasicAck(tag))

    def requeue(self, tag: int, tried: bool) -> None:
        self._send(tag, BasicNack(tag, requeue=True) if tried else BasicReject(tag, requeue=True))

    def drop(self, tag: int) -> None:
        self._send(tag, BasicNack(tag, requeue=False))

    def _send(self, tag: int, method: Method) -> None:
        if self.number:
            self._outstanding.settle(tag, 1)
            self._home.consuming.send(method_frame(self.number, method))

    # ---- from the link

    @property
    def is_idle(self) -> bool:
        return super().is_idle and self._outstanding.base > self._last

    def answered(self, method: Method, message: Message | None = None) -> None:
        if isinstance(method, BasicGetOk):
            self._last = method.delivery_tag
        super().answered(method, message)

    def closed(self, reason: ChannelClose | None) -> None:
        self._outstanding = OutstandingTags()
        self._last = 0
        self.lane = next(self._lanes)
        super().closed(reason)
