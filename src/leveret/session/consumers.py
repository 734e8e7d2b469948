"""basic.consume, cancel, get and qos, and deliveries to AMQP consumers.  Hot path.

A delivery is four pieces: the start of the frame (built once per consumer and length of the rest), eight bytes of
delivery tag, the end of the frame (built once per address), and the content as the publisher sent it. The content is
copied only if the channel number or the frame size differs.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from leveret.broker.background import NextTick
from leveret.delivery.consumer import UNLIMITED, Consumer, Source
from leveret.delivery.selector import selector_of
from leveret.errors import AmqpError, FrameError, NotAllowed, PreconditionFailed, Unsupported
from leveret.message import Address, Message
from leveret.queues.direct_reply import REPLY_TO, ReplyQueue
from leveret.wire.content import refit
from leveret.wire.content_edit import long, spliced
from leveret.wire.fields import encode_short
from leveret.wire.frames import ENVELOPE
from leveret.wire.grammar import ChannelStep
from leveret.wire.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicQos,
    BasicQosOk,
)

if TYPE_CHECKING:
    from leveret.session.channel import Channel

BURST_BYTES = 512 << 10  # delivered to one consumer before the next one is served
HEAD_AND_TAIL = 64  # bytes of a basic.deliver frame, about
DELIVER = b"\x00\x3c\x00\x3c"
LOADING = "loading a message"  # reason to halt: it is on disk, or behind expired ones
PULL_ONE = "x-pull-one"


class AmqpConsumer(Consumer):
    __slots__ = ("_heads", "_outbox", "_tag_bytes", "channel", "connection")

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
        self._outbox = channel.connection.outbox
        self._tag_bytes = encode_short(method.consumer_tag)
        self._heads: dict[int, bytes] = {}

    @property
    def is_limited(self) -> bool:
        return self.channel.prefetch > 0 or self.channel.shared_limit < UNLIMITED

    def room(self) -> int:
        if self.channel.deferred or not self._outbox.has_room():  # the consume-ok may be deferred too
            return 0
        shared = self.channel.shared_credit
        if self.no_ack:  # does not count towards the channel's prefetch, but waits when that is used up
            return UNLIMITED if shared > 0 else 0
        return self.credit if self.credit < shared else shared

    def take(self, ready: deque[Message], lane: int, sequence: int, limit: int) -> tuple[int, int]:
        channel, unacked, outbox = self.channel, self.channel.unacked, self._outbox
        number, frame_max, out = channel.number, self.connection.frame_max, outbox.pieces
        popleft = ready.popleft
        keeps = not self.no_ack
        keep = unacked.items.append
        first = tag = unacked.next_tag
        if limit > 1:  # for one message, ``room`` was checked by the caller
            room = self.room()
            limit = limit if limit < room else room
        stop = tag + limit
        size = 0
        last: Address | None = None
        head = tail = b""
        tail_size = 0
        fits = True
        while tag < stop:
            message = popleft()
            content, address, _ = message
            if address is not last:
                last = address
                tail = address.tail
                if len(tail) != tail_size:
                    tail_size = len(tail)
                    head = self._heads.get(tail_size) or self._make_head(tail_size)
                fits = address.channel == number and address.frame_max <= frame_max
            if keeps:
                keep(message)
            size += len(content)
            out += (head, tag.to_bytes(8, "big"), tail, content if fits else refit(content, number, frame_max))
            tag += 1
            if size > BURST_BYTES:
                break
        taken = tag - first
        if keeps:
            unacked.opened(self, lane, sequence, taken)
            self.credit -= taken
            channel.shared_credit -= taken
        else:
            unacked.skip(taken)
        outbox.added(size + taken * HEAD_AND_TAIL)
        return taken, size

    def take_again(self, message: Message, lane: int, sequence: int, count: int) -> None:
        channel, unacked, frame_max = self.channel, self.channel.unacked, self.connection.frame_max
        content, address, _ = message
        tail = address.tail_again
        tag = unacked.next_tag
        if self.queue.counts_deliveries:
            content = with_count(content, count)
        head = self._heads.get(len(tail)) or self._make_head(len(tail))
        self._outbox.pieces += (head, tag.to_bytes(8, "big"), tail, refit(content, channel.number, frame_max))
        if self.no_ack:
            unacked.skip(1)
        else:
            unacked.items.append(message)
            unacked.opened(self, lane, sequence, 1, count)
            self.credit -= 1
            channel.shared_credit -= 1
        self._outbox.added(len(content) + HEAD_AND_TAIL)

    def _make_head(self, tail: int) -> bytes:
        """The basic.deliver frame up to the delivery tag, for a rest of this length."""
        payload = len(DELIVER) + len(self._tag_bytes) + 8 + tail - 1
        head = ENVELOPE.pack(1, self.channel.number, payload) + DELIVER + self._tag_bytes
        self._heads[tail] = head
        return head

    def restore(self, number: int) -> None:
        self.credit += number
        channel = self.channel
        channel.shared_credit += number
        if channel.shared_limit != UNLIMITED:
            consumers = channel.consumers
            if self.tag in consumers:  # to the end, or the first queue would use the whole prefetch
                consumers[self.tag] = consumers.pop(self.tag)
            for consumer in consumers.values():
                consumer.queue.touch()
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


def with_count(content: bytes, count: int) -> bytes:
    """The content with the header x-delivery-count, for queues that set it."""
    try:
        return spliced(content, {"x-delivery-count": long(count)}) if count else content
    except FrameError:  # malformed headers, which are not checked when a message is published
        return content


class ReplyConsumer(AmqpConsumer):
    """Consumes from amq.rabbitmq.reply-to. Its queue is created and deleted with it."""

    __slots__ = ("queue_name",)

    def __init__(self, channel: Channel, queue: ReplyQueue, method: BasicConsume) -> None:
        super().__init__(channel, queue, method, 0)
        self.queue_name = queue.name
        queue.consumer = self

    def room(self) -> int:
        """Replies do not count towards the prefetch of the channel."""
        return 0 if self.channel.deferred or not self._outbox.has_room() else UNLIMITED

    def leave(self) -> None:
        vhost = self.channel.vhost
        queue = vhost.reply_queues.pop(self.queue_name, None)
        if queue is not None:
            vhost.deletions += 1
            queue.die()


def choose_tag(channel: Channel, method: BasicConsume) -> None:
    if method.consumer_tag in channel.consumers or (channel.reply and channel.reply.tag == method.consumer_tag):
        raise NotAllowed(f"attempt to reuse consumer tag '{method.consumer_tag}'")
    if not method.consumer_tag:
        method.consumer_tag = f"amq.ctag-{secrets.token_urlsafe(16)}"


def _consume(channel: Channel, method: BasicConsume) -> None:
    choose_tag(channel, method)
    if method.queue == REPLY_TO:
        _consume_replies(channel, method)
    else:
        name = channel.named_queue(method.queue)
        queue = channel.caller.queue_to("consume", name, method.arguments)
        consumer = AmqpConsumer(channel, queue, method, consumer_priority(method))
        channel.vhost.footprint.refuse(f"consumer '{consumer.tag}' of queue '{name}'", consumer.memory)
        queue.add_consumer(consumer)
        channel.consumers[method.consumer_tag] = consumer
    if not method.nowait:
        channel.send(BasicConsumeOk(method.consumer_tag))


def _consume_replies(channel: Channel, method: BasicConsume) -> None:
    if not method.no_ack:
        raise PreconditionFailed("reply consumer cannot acknowledge")
    if channel.reply is not None:
        raise PreconditionFailed("reply consumer already set")
    vhost = channel.vhost
    name = f"{REPLY_TO}.{secrets.token_urlsafe(24)}"
    queue = ReplyQueue(name, vhost.queue_context.gauge, vhost.queue_context.dirty)
    vhost.reply_queues[name] = queue
    channel.reply = ReplyConsumer(channel, queue, method)


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
    if not method.nowait:
        channel.send(BasicCancelOk(method.consumer_tag))


def _get(channel: Channel, method: BasicGet) -> None:
    _get_or_wait(channel, method)


def _get_or_wait(channel: Channel, method: BasicGet) -> bool:
    """False if the first message has to be read from disk; the reply follows when it is."""
    name = channel.named_queue(method.queue)
    queue = channel.caller.queue_to("get", name)
    connection = channel.connection
    background = connection.broker.background
    if not queue.settle_down(background.new_slice()):
        connection.halt(LOADING)
        background.send(NextTick(lambda: _get_loaded(channel, method)))
        return False
    if queue.when_loaded(lambda: _get_loaded(channel, method)):
        connection.halt(LOADING)
        return False
    found = channel.getters.get(queue, channel, auto_ack=method.no_ack)
    if found is None:
        channel.send(BasicGetEmpty())
        return True
    tag, taken = found
    content, address, _ = taken.message
    if taken.redelivered and queue.counts_deliveries:
        content = with_count(content, taken.delivery_count)
    reply = BasicGetOk(tag, taken.redelivered, address.exchange, address.key, taken.left)
    channel.send(reply)
    channel.send_frames(
        refit(content, channel.number, channel.connection.frame_max)
    )  # separately, so that a large content is not copied
    return True


def _get_loaded(channel: Channel, method: BasicGet) -> None:
    """The first message of the queue has been read from disk."""
    connection = channel.connection
    if not connection.is_over and channel.step is ChannelStep.OPEN:
        connection.intake.at_channel, connection.intake.at_method = channel.number, BasicGet.id
        try:
            if not _get_or_wait(channel, method):
                return  # another lane was loaded first
        except AmqpError as error:  # for example, the queue was deleted
            connection.fail(error)
    connection.unhalt(LOADING)


def _qos(channel: Channel, method: BasicQos) -> None:
    if method.prefetch_size:
        raise Unsupported(f"prefetch_size!=0 ({method.prefetch_size})", method=BasicQos.id)
    if method.global_:
        limit = method.prefetch_count or UNLIMITED
        channel.shared_credit += limit - channel.shared_limit
        channel.shared_limit = limit
        for consumer in channel.consumers.values():
            consumer.queue.touch()
    else:
        channel.prefetch = method.prefetch_count
    channel.send(BasicQosOk())


HANDLERS: dict[tuple[int, int], Callable[..., None]] = {
    BasicConsume.id: _consume,
    BasicCancel.id: _cancel,
    BasicGet.id: _get,
    BasicQos.id: _qos,
}
