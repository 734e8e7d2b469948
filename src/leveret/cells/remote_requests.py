"""Requests about a queue of another cell, answered in their order: counts, purge, basic.get.

While the cell is away they wait for a limited time, so that a restart or a take-over of it is no error.

What basic.get has fetched has a lane (cells/remote_queue.py) that ends with the link: delivery tags begin again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from leveret.cells.home_cell import PATIENCE, HomeCell
from leveret.cells.link import LinkChannel
from leveret.cells.remote_consumer import OutstandingTags
from leveret.errors import AmqpError, error_of
from leveret.message import Message
from leveret.queues.context import QueueContext
from leveret.queues.declared_queue import QueueCounts
from leveret.wire.frames import method_frame
from leveret.wire.methods import (
    BasicAck,
    BasicGet,
    BasicGetOk,
    BasicNack,
    BasicReject,
    ChannelClose,
    Method,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
)

Got = tuple[BasicGetOk, Message]
Answer = Method | Got | AmqpError


class Unsent(NamedTuple):
    method: Method
    take: Callable[[Answer], None]
    until: float  # when it fails


class RemoteRequests(LinkChannel):
    def __init__(self, queue: str, vhost: str, home: HomeCell, context: QueueContext, lanes: Iterator[int]) -> None:
        """``lanes``: numbers that are free."""
        super().__init__()
        self._lanes = lanes
        self.lane = next(lanes)
        self._queue, self._vhost = queue, vhost
        self._home = home
        self._context = context
        self._waiting: deque[Callable[[Answer], None]] = deque()  # for the replies to what was sent
        self._unsent: deque[Unsent] = deque()
        self._outstanding = OutstandingTags()
        self._last = 0  # the tag that was fetched last
        self._is_closing = False

    def count(self, answered: Callable[[QueueCounts | AmqpError], None]) -> None:
        def take(answer: Answer) -> None:
            if isinstance(answer, QueueDeclareOk):
                answered(QueueCounts(answer.message_count, answer.consumer_count))
            else:
                answered(_error(answer))

        self._ask(QueueDeclare(self._queue, passive=True), take)

    def purge(self, answered: Callable[[int | AmqpError], None]) -> None:
        def take(answer: Answer) -> None:
            answered(answer.message_count if isinstance(answer, QueuePurgeOk) else _error(answer))

        self._ask(QueuePurge(self._queue), take)

    def delete(self, if_unused: bool, if_empty: bool, answered: Callable[[int | AmqpError], None]) -> None:
        def take(answer: Answer) -> None:
            answered(answer.message_count if isinstance(answer, QueueDeleteOk) else _error(answer))

        self._ask(QueueDelete(self._queue, if_unused=if_unused, if_empty=if_empty), take)

    def get(self, answered: Callable[[Got | AmqpError | None], None]) -> None:
        def take(answer: Answer) -> None:
            answered(answer if isinstance(answer, tuple | AmqpError) else None)

        self._ask(BasicGet(self._queue), take)

    # ---- settling what was fetched

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

    def follow(self, former: RemoteRequests) -> None:
        """The queue has moved: ask what the former object has not asked."""
        unsent, former._unsent = former._unsent, deque()
        for method, take, until in unsent:
            self._unsent.append(Unsent(method, take, until))
            self._context.schedule(until, self._expire)
        self.resume()

    def close_when_answered(self) -> None:
        """The queue is deleted. What was asked is still answered: maybe this cell has deleted it."""
        self._is_closing = True
        self._fail_unsent(float("inf"))
        if not self._waiting:
            self._home.consuming.close(self)

    # ---- the link

    def _ask(self, method: Method, take: Callable[[Answer], None]) -> None:
        if not self._unsent and self._is_open():
            self._send_request(method, take)
        elif self._home.is_away or self._home.consuming.is_full:
            take(self._unreachable())
        else:
            until = self._context.now() + PATIENCE
            self._unsent.append(Unsent(method, take, until))
            self._context.schedule(until, self._expire)

    def resume(self) -> None:
        """The link is up again."""
        while self._unsent and self._is_open():
            method, take, _ = self._unsent.popleft()
            self._send_request(method, take)

    def _is_open(self) -> bool:
        return bool(self.number) or self._home.consuming.open(self)

    def _send_request(self, method: Method, take: Callable[[Answer], None]) -> None:
        self._waiting.append(take)
        self._home.consuming.send(method_frame(self.number, method))

    def _expire(self) -> None:
        if self._fail_unsent(self._context.now()):
            self._home.is_away = True

    def _fail_unsent(self, now: float) -> bool:
        failed = [each for each in self._unsent if each.until <= now]
        for each in failed:
            self._unsent.popleft()
            each.take(self._unreachable())
        return bool(failed)

    def _unreachable(self) -> AmqpError:
        return self._home.unreachable(self._queue, self._vhost)

    @property
    def is_idle(self) -> bool:
        return not self._waiting and self._outstanding.base > self._last

    def answered(self, method: Method, message: Message | None = None) -> None:
        if method.NAME == "channel.open-ok" or not self._waiting:
            return
        take = self._waiting.popleft()
        if self._is_closing and not self._waiting:
            self._home.consuming.close(self)
        if isinstance(method, BasicGetOk) and message is not None:
            self._last = method.delivery_tag
            take((method, message))
        else:
            take(method)

    def closed(self, reason: ChannelClose | None) -> None:
        self._outstanding = OutstandingTags()
        self._last = 0
        self.lane = next(self._lanes)
        waiting, self._waiting = self._waiting, deque()
        for take in waiting:
            take(self._unreachable() if reason is None else error_of(reason.reply_code, reason.reply_text))


def _error(answer: Answer) -> AmqpError:
    assert isinstance(answer, AmqpError), answer
    return answer
