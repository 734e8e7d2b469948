"""basic.consume, cancel and qos, for channels of any protocol."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING

from leveret.delivery.consumer import UNLIMITED, Consumer, Source
from leveret.delivery.selector import selector_of
from leveret.errors import NotAllowed, PreconditionFailed, Unsupported
from leveret.message import Message
from leveret.wire.methods import BasicCancel, BasicCancelOk, BasicConsume, BasicQos, BasicQosOk

if TYPE_CHECKING:
    from leveret.session.channel import Channel

BURST_BYTES = 512 << 10  # delivered to one consumer before the next one is served
PULL_ONE = "x-pull-one"


class ChannelConsumer(Consumer):
    """A consumer of a channel. The subclass of a protocol writes the deliveries: ``take`` and ``take_again``."""

    __slots__ = ("channel", "connection", "outbox")

    def __init__(self, channel: Channel, queue: Source, method: BasicConsume, priority: int) -> None:
        limit = UNLIMITED if method.no_ack or not channel.prefetch else channel.prefetch
        super().__init__(
            method.consumer_tag,
            queue,
            limit,
            no_ack=method.no_ack,
            exclusive=method.exclusive,
            priority=priority,
            arguments=dict(method.arguments),
            unacked=channel.unacked,
        )
        self.selector = selector_of(method.arguments)
        self.one_shot = consumer_flag(method, PULL_ONE)
        self.channel = channel
        self.connection = channel.connection
        self.outbox = channel.connection.outbox

    @property
    def is_limited(self) -> bool:
        return self.channel.prefetch > 0 or self.channel.shared_limit < UNLIMITED

    @property
    def is_at_limit(self) -> bool:
        return self.credit <= 0 or self.channel.shared_credit <= 0

    def room(self) -> int:
        if self.channel.deferred or not self.outbox.has_room():  # the consume-ok may be deferred too
            return 0
        shared = self.channel.shared_credit
        if self.no_ack:  # does not count towards the channel's prefetch, but waits when that is used up
            return UNLIMITED if shared > 0 else 0
        return self.credit if self.credit < shared else shared

    def keep_one(self, message: Message, lane: int, sequence: int, count: int) -> None:
        """One message was delivered: assign its tag, and keep it until it is settled."""
        unacked = self.channel.unacked
        if self.no_ack:
            unacked.skip(1)
        else:
            unacked.items.append(message)
            unacked.opened(self, lane, sequence, 1, count)
            self.credit -= 1
            self.channel.shared_credit -= 1

    def restore(self, number: int) -> None:
        self.credit += number
        channel = self.channel
        channel.shared_credit += number
        if channel.shared_limit != UNLIMITED:
            consumers = channel.consumers
            if self.tag in consumers:  # to the end, or the first queue would use the whole prefetch
                consumers[self.tag] = consumers.pop(self.tag)
            channel.touch_queues()
        self.queue.touch()

    def catch_up(self) -> None:
        """Deliver what has arrived before a cancel: deliveries wait for the end of the tick, a cancel does not."""
        self.channel.vhost.settle_down(self.queue)  # type: ignore[arg-type]

    def leave(self) -> None:
        self.queue.remove_consumer(self)  # type: ignore[attr-defined]

    def cancelled_by_queue(self) -> None:
        self.channel.notify_cancel(self.tag)

    @property
    def label(self) -> str:
        return f"{self.connection.name} ({self.channel.number}) {self.tag}"


def choose_tag(channel: Channel, method: BasicConsume) -> None:
    if method.consumer_tag in channel.consumers or (channel.reply and channel.reply.tag == method.consumer_tag):
        raise NotAllowed(f"attempt to reuse consumer tag '{method.consumer_tag}'")
    if not method.consumer_tag:
        method.consumer_tag = f"amq.ctag-{secrets.token_urlsafe(16)}"


def join(channel: Channel, method: BasicConsume) -> ChannelConsumer:
    """A new consumer of a queue."""
    name = channel.named_queue(method.queue)
    queue = channel.caller.queue_to("consume", name, method.arguments)
    consumer = channel.consumer_class(channel, queue, method, consumer_priority(method))
    channel.vhost.footprint.refuse(f"consumer '{consumer.tag}' of queue '{name}'", consumer.memory)
    queue.add_consumer(consumer)
    return consumer


def consumer_priority(method: BasicConsume) -> int:
    value = method.arguments.get("x-priority", 0)
    if isinstance(value, bool) or not isinstance(value, int):
        raise PreconditionFailed(f"invalid arg 'x-priority': {value!r} is not a whole number")
    return value


def consumer_flag(method: BasicConsume, name: str) -> bool:
    value = method.arguments.get(name, False)
    if not isinstance(value, bool):
        raise PreconditionFailed(f"invalid arg '{name}': {value!r} is not true or false")
    return value


def _cancel(channel: Channel, method: BasicCancel) -> None:
    """Cancelling an unknown tag is not an error. Delivered messages stay unacked."""
    leaving = channel.consumers.get(method.consumer_tag)
    if leaving is not None:
        leaving.catch_up()
    consumer = channel.consumers.pop(method.consumer_tag, None)
    if consumer is None and channel.reply is not None and channel.reply.tag == method.consumer_tag:
        consumer, channel.reply = channel.reply, None
    if consumer is not None:
        consumer.leave()
    channel.reply_to(method, BasicCancelOk(method.consumer_tag))


def _qos(channel: Channel, method: BasicQos) -> None:
    if method.prefetch_size:
        raise Unsupported(f"prefetch_size!=0 ({method.prefetch_size})", method=BasicQos.id)
    if method.global_:
        limit = method.prefetch_count or UNLIMITED
        channel.shared_credit += limit - channel.shared_limit
        channel.shared_limit = limit
        channel.touch_queues()
    else:
        channel.prefetch = method.prefetch_count
    channel.send(BasicQosOk())


HANDLERS: dict[tuple[int, int], Callable[..., None]] = {BasicCancel.id: _cancel, BasicQos.id: _qos}
