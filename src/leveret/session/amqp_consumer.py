"""Deliveries to AMQP consumers, direct reply-to, and basic.get.  Hot path.

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
from leveret.delivery.consumer import UNLIMITED, Source
from leveret.errors import AmqpError, FrameError, PreconditionFailed
from leveret.message import Address, Message
from leveret.queues.direct_reply import REPLY_TO, ReplyQueue, reply_name
from leveret.session import pooled_consumer
from leveret.session.consumers import BURST_BYTES, ChannelConsumer, choose_tag
from leveret.wire.content import refit
from leveret.wire.content_edit import long, spliced
from leveret.wire.fields import encode_short
from leveret.wire.frames import ENVELOPE
from leveret.wire.grammar import ChannelStep
from leveret.wire.methods import BasicConsume, BasicConsumeOk, BasicGet, BasicGetEmpty, BasicGetOk

if TYPE_CHECKING:
    from leveret.session.amqp_channel import AmqpChannel

HEAD_AND_TAIL = 64  # bytes of a basic.deliver frame, about
DELIVER = b"\x00\x3c\x00\x3c"
LOADING = "loading a message"  # reason to halt: it is on disk, or behind expired ones


class AmqpConsumer(ChannelConsumer):
    __slots__ = ("_heads", "_tag_bytes")

    channel: AmqpChannel

    def __init__(self, channel: AmqpChannel, queue: Source, method: BasicConsume, priority: int) -> None:
        super().__init__(channel, queue, method, priority)
        self._tag_bytes = encode_short(method.consumer_tag)
        self._heads: dict[int, bytes] = {}

    def take(self, ready: deque[Message], lane: int, sequence: int, limit: int) -> tuple[int, int]:
        channel, unacked, outbox = self.channel, self.channel.unacked, self.outbox
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
        self.outbox.pieces += (head, tag.to_bytes(8, "big"), tail, refit(content, channel.number, frame_max))
        self.keep_one(message, lane, sequence, count)
        self.outbox.added(len(content) + HEAD_AND_TAIL)

    def _make_head(self, tail: int) -> bytes:
        """The basic.deliver frame up to the delivery tag, for a rest of this length."""
        payload = len(DELIVER) + len(self._tag_bytes) + 8 + tail - 1
        head = ENVELOPE.pack(1, self.channel.number, payload) + DELIVER + self._tag_bytes
        self._heads[tail] = head
        return head


class AmqpMember(pooled_consumer.Member, AmqpConsumer):
    """A consumer of one queue of a pool."""


def with_count(content: bytes, count: int) -> bytes:
    """The content with the header x-delivery-count, for queues that set it."""
    try:
        return spliced(content, {"x-delivery-count": long(count)}) if count else content
    except FrameError:  # malformed headers, which are not checked when a message is published
        return content


class ReplyConsumer(AmqpConsumer):
    """Consumes from amq.rabbitmq.reply-to. Its queue is created and deleted with it."""

    __slots__ = ("queue_name",)

    def __init__(self, channel: AmqpChannel, queue: ReplyQueue, method: BasicConsume) -> None:
        super().__init__(channel, queue, method, 0)
        self.queue_name = queue.name
        queue.consumer = self

    def room(self) -> int:
        """Replies do not count towards the prefetch of the channel."""
        return 0 if self.channel.deferred or not self.outbox.has_room() else UNLIMITED

    def leave(self) -> None:
        vhost = self.channel.vhost
        queue = vhost.reply_queues.pop(self.queue_name, None)
        if queue is not None:
            vhost.deletions += 1
            queue.die()


def _consume(channel: AmqpChannel, method: BasicConsume) -> None:
    if method.queue != REPLY_TO:
        pooled_consumer.consume(channel, method)
        return
    choose_tag(channel, method)
    if not method.no_ack:
        raise PreconditionFailed("reply consumer cannot acknowledge")
    if channel.reply is not None:
        raise PreconditionFailed("reply consumer already set")
    vhost = channel.vhost
    name = reply_name(vhost.cells.name, secrets.token_urlsafe(24))
    context = vhost.queue_context
    queue = ReplyQueue(name, context.gauge, context.dirty, context.deliveries)
    vhost.reply_queues[name] = queue
    channel.reply = ReplyConsumer(channel, queue, method)
    channel.reply_to(method, BasicConsumeOk(method.consumer_tag))


def _get(channel: AmqpChannel, method: BasicGet) -> bool:
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
    channel.send(BasicGetOk(tag, taken.redelivered, address.exchange, address.key, taken.left))
    channel.send_frames(
        refit(content, channel.number, connection.frame_max)
    )  # separately: large contents are not copied
    return True


def _get_loaded(channel: AmqpChannel, method: BasicGet) -> None:
    """The first message of the queue has been read from disk."""
    connection = channel.connection
    if not connection.is_over and channel.step is ChannelStep.OPEN:
        try:
            if not _get(channel, method):
                return  # another lane was loaded first
        except AmqpError as error:  # for example, the queue was deleted
            channel.fail(error, BasicGet.id)
    connection.unhalt(LOADING)


HANDLERS: dict[tuple[int, int], Callable[..., object]] = {BasicConsume.id: _consume, BasicGet.id: _get}
