"""A channel to the home cell for requests about one queue, which are answered in their order.

While the cell is away they wait for a limited time, so that a restart or a take-over of it is no error.

Clients share the channel. The home cell closes it when it refuses a request, and handles nothing behind that one: what
waits behind it is sent again, on a new channel.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from leveret.cells.home_cell import PATIENCE, HomeCell
from leveret.cells.link import LinkChannel
from leveret.errors import AmqpError, error_of
from leveret.message import Message
from leveret.queues.context import QueueContext
from leveret.wire.frames import method_frame
from leveret.wire.methods import BasicGetOk, ChannelClose, Method

Got = tuple[BasicGetOk, Message]
Answer = Method | Got | AmqpError


class Request(NamedTuple):
    method: Method
    take: Callable[[Answer], None]
    until: float = 0.0  # when it fails, if it is not sent


class RequestChannel(LinkChannel):
    def __init__(self, queue: str, vhost: str, home: HomeCell, context: QueueContext) -> None:
        super().__init__()
        self._queue, self._vhost = queue, vhost
        self._home = home
        self._context = context
        self._sent: deque[Request] = deque()  # without an answer
        self._unsent: deque[Request] = deque()
        self._is_closing = False

    def follow(self, former: RequestChannel) -> None:
        """The queue has moved: ask what the former object has not asked."""
        unsent, former._unsent = former._unsent, deque()
        for each in unsent:
            self._unsent.append(each)
            self._context.schedule(each.until, self._expire)
        self.resume()

    def close_when_answered(self) -> None:
        """The queue is deleted. What was asked is still answered: maybe this cell has deleted it."""
        self._is_closing = True
        self._fail_unsent(float("inf"))
        self._close_if_done()

    def _close_if_done(self) -> None:
        if self._is_closing and not self._sent:
            self._home.consuming.close(self)

    # ---- the link

    def _ask(self, method: Method, take: Callable[[Answer], None]) -> None:
        if not self._unsent and self._is_open():
            self._send_request(Request(method, take))
        elif self._home.is_away or self._home.consuming.is_full:
            take(self._unreachable())
        else:
            until = self._context.now() + PATIENCE
            self._unsent.append(Request(method, take, until))
            self._context.schedule(until, self._expire)

    def resume(self) -> None:
        """The link is up again."""
        while self._unsent and self._is_open():
            self._send_request(self._unsent.popleft())

    def _is_open(self) -> bool:
        return bool(self.number) or self._home.consuming.open(self)

    def _send_request(self, request: Request) -> None:
        self._sent.append(request)
        self._home.consuming.send(method_frame(self.number, request.method))

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
        return not self._sent

    def answered(self, method: Method, message: Message | None = None) -> None:
        if method.NAME == "channel.open-ok" or not self._sent:
            return
        request = self._sent.popleft()
        self._close_if_done()
        if isinstance(method, BasicGetOk) and message is not None:
            request.take((method, message))
        else:
            request.take(method)

    def closed(self, reason: ChannelClose | None) -> None:
        sent, self._sent = self._sent, deque()
        if reason is not None and sent:
            refused, error = sent.popleft(), error_of(reason.reply_code, reason.reply_text)
            while sent and self._is_open():
                self._send_request(sent.popleft())
            refused.take(error)
        for each in sent:
            each.take(self._unreachable())


def error_in(answer: Answer) -> AmqpError:
    assert isinstance(answer, AmqpError), answer
    return answer
