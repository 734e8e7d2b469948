"""One channel of a connection: its state, and the table of method handlers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from leveret.broker.caller import Getters
from leveret.broker.interceptors import InterceptContext
from leveret.broker.routes import PublishRoute
from leveret.delivery.confirms import Confirm, Confirms
from leveret.delivery.consumer import UNLIMITED
from leveret.delivery.receipts import PendingPublish
from leveret.delivery.unacked import Portion, Unacked
from leveret.errors import NotFound, PreconditionFailed, ResourceFault, Unsupported
from leveret.message import Message
from leveret.session import acknowledgements, consumers, declarations, pooled_consumer, transactions
from leveret.session.content import PendingContent
from leveret.session.names import remove_line_breaks
from leveret.session.pending_publishes import PendingPublishes
from leveret.session.publishes import return_messages
from leveret.session.routes import Routes
from leveret.session.settlement import Settlement
from leveret.session.transactions import PendingCommit, Transaction
from leveret.wire.constants import END_BYTE, FRAME_OVERHEAD
from leveret.wire.frames import ENVELOPE, method_frame
from leveret.wire.grammar import ChannelStep
from leveret.wire.methods import BasicCancel, BasicNack, BasicPublish, ChannelFlow, ChannelFlowOk, Method

if TYPE_CHECKING:
    from leveret.session.connection import Connection


def _flow(channel: Channel, method: ChannelFlow) -> None:
    if not method.active:
        raise Unsupported("active=false", method=ChannelFlow.id)
    channel.send(ChannelFlowOk(active=True))


READ_ONLY = "the disk failed, the store is read-only: restart the broker"
Handler = Callable[["Channel", Any], None]
HANDLERS: dict[tuple[int, int], Handler] = {
    **declarations.HANDLERS,
    **consumers.HANDLERS,
    **pooled_consumer.HANDLERS,
    **acknowledgements.HANDLERS,
    **transactions.HANDLERS,
    ChannelFlow.id: _flow,
}


class Channel:
    __slots__ = (
        "ack_start",
        "caller",
        "committing",
        "confirms",
        "connection",
        "consumers",
        "deferred",
        "frame_start",
        "getters",
        "header_start",
        "held_cancels",
        "idle",
        "largest_whole",
        "last_queue",
        "now",
        "number",
        "pending",
        "prefetch",
        "published",
        "reply",
        "returned",
        "routes",
        "shared_credit",
        "shared_limit",
        "step",
        "tx",
        "unacked",
        "unanswered",
        "vhost",
    )

    def __init__(self, connection: Connection, number: int) -> None:
        self.connection = connection
        self.number = number
        self.vhost, self.caller = connection.vhost, connection.caller
        self.now = connection.broker.clock.now
        self.step = ChannelStep.OPEN
        self.idle = True  # open and not waiting for content frames; read by the hot loop
        self.frame_start = ENVELOPE.pack(1, number, 0)[:3]
        self.header_start = ENVELOPE.pack(2, number, 0)[:3]
        self.ack_start = ENVELOPE.pack(1, number, 13) + b"\x00\x3c\x00\x50"
        # The largest body that fits one frame and all limits; larger ones are handled frame by frame.
        self.largest_whole = min(connection.limits.max_message_size, connection.frame_max - FRAME_OVERHEAD)
        self.routes = Routes(self)
        self.pending: PendingContent | None = None
        self.unacked = Unacked()
        self.consumers: dict[str, consumers.AmqpConsumer | pooled_consumer.PooledConsumer] = {}
        self.held_cancels: list[str] | None = None  # consumer tags, while this channel deletes a queue
        self.getters = Getters(self.unacked)
        self.reply: consumers.ReplyConsumer | None = None
        self.prefetch = 0  # of consumers that subscribe from now on; 0 is unlimited
        self.shared_limit = UNLIMITED
        self.shared_credit = UNLIMITED
        self.confirms: Confirms | None = None
        self.tx: Transaction | None = None
        self.committing: PendingCommit | None = None  # the last commit that waits for queues that answer later
        self.unanswered: PendingPublishes | None = None
        self.last_queue: str | None = None
        self.published = 0
        self.returned = 0
        self.deferred: deque[tuple[int, bytes]] = deque()  # (receipt, frames): replies that wait for the disk

    # ---- methods

    def handle(self, method: Method) -> None:
        if method.id == BasicPublish.id:
            raise AssertionError("publishes are handled by take_publishes")
        remove_line_breaks(method)
        method = self.intercept(method)
        handler = HANDLERS.get(method.id)
        if handler is not None:
            handler(self, method)

    def intercept(self, method: Method) -> Method:
        interceptors = self.connection.broker.interceptors
        if not interceptors.concerns(method.id):
            return method
        connection = self.connection
        context = InterceptContext(self.vhost.name, connection.user.name, connection.name, self.number)
        return interceptors.apply(context, method)

    def send(self, method: Method) -> None:
        self.send_frames(method_frame(self.number, method))

    def send_frames(self, frames: bytes) -> None:
        """Replies of a channel keep their order: while one waits for the disk, later ones wait too."""
        if self.deferred:
            self.deferred.append((self.deferred[-1][0], frames))
        else:
            self.connection.send(frames)

    def answer(self, method: Method, issued: int) -> None:
        """Reply once everything that was written to the log since ``issued`` is safe."""
        broker = self.connection.broker
        if broker.log.issued == issued:
            self.send(method)
        elif broker.is_lost:
            raise ResourceFault(READ_ONLY)
        else:
            self.deferred.append((broker.log.issued, method_frame(self.number, method)))
            broker.awaiting[self] = None

    def notify_cancel(self, tag: str) -> None:
        """The queue of this consumer was deleted: notify the client, if it supports that."""
        if self.consumers.pop(tag, None) is None or not self.connection.wants("consumer_cancel_notify"):
            return
        if self.held_cancels is None:
            self.send(BasicCancel(tag, nowait=True))
        else:
            self.held_cancels.append(tag)

    def send_confirms(self, confirms: list[Confirm]) -> None:
        for tag, multiple, ack in confirms:
            if ack:
                flag = b"\x01" if multiple else b"\x00"
                self.connection.send(self.ack_start + tag.to_bytes(8, "big") + flag + END_BYTE)
            else:
                self.connection.send(method_frame(self.number, BasicNack(tag, multiple, requeue=False)))

    def granted(self, receipt: int) -> bool:
        deferred = self.deferred
        if deferred:
            while deferred and deferred[0][0] <= receipt:
                self.connection.send(deferred.popleft()[1])
            if not deferred:
                replies = () if self.reply is None else (self.reply,)
                for consumer in (*self.consumers.values(), *replies):  # nothing was delivered to them meanwhile
                    consumer.queue.touch()
        if self.confirms is None or self.step is not ChannelStep.OPEN:
            return bool(deferred)
        self.send_confirms(self.confirms.granted(receipt))
        return self.confirms.is_waiting or bool(deferred)

    def granted_early(self, receipts: set[int]) -> None:
        if self.confirms is not None and self.step is ChannelStep.OPEN:
            self.send_confirms(self.confirms.granted_early(receipts))

    def lost(self) -> None:
        if self.deferred:
            self.deferred.clear()
            self.connection.close_with(ResourceFault(READ_ONLY))
        elif self.confirms is not None and self.step is ChannelStep.OPEN:
            self.send_confirms(self.confirms.lost(self.connection.broker.log.issued))

    def named_queue(self, name: str) -> str:
        """An empty name stands for the queue that was declared last on this channel."""
        if name:
            return name
        if self.last_queue is None:
            raise NotFound("no previously declared queue")
        return self.last_queue

    # ---- publishing

    def await_content(self, route: PublishRoute) -> None:
        self.pending = PendingContent(route)
        self.idle = False

    def forget_content(self) -> None:
        if self.pending is not None:
            self.connection.hold_partial(-self.pending.size)
            self.pending = None
        self.idle = self.step is ChannelStep.OPEN

    def return_messages(self, messages: list[Message]) -> None:
        return_messages(self, messages)

    def pending_publish(self, run: list[Message], mandatory: bool) -> PendingPublish:
        """For queues that answer later."""
        if self.committing is not None:
            return self.committing.publish(run, mandatory)
        first, last = (0, 0) if self.confirms is None else self.confirms.reserve(len(run))
        return PendingPublish(self.flow_control(), run, mandatory=mandatory, first=first, last=last)

    def flow_control(self) -> PendingPublishes:
        if self.unanswered is None:
            self.unanswered = PendingPublishes(self)
        return self.unanswered

    def reply_name(self) -> str:
        if self.reply is None:
            raise PreconditionFailed("fast reply consumer does not exist", method=BasicPublish.id)
        return self.reply.queue_name

    # ---- the end

    def leave(self) -> None:
        """The client has closed the channel or the connection: release everything and send nothing."""
        self.deferred.clear()
        if self.step is ChannelStep.OPEN:
            self.release()
        else:
            self.connection.broker.awaiting.pop(self, None)

    def release(self) -> None:
        """Cancel consumers, requeue unacked messages, end the transaction and release memory."""
        self.step = ChannelStep.CLOSING
        self.forget_content()
        leaving, self.consumers = self.consumers, {}
        # Requeue before cancelling: an auto-delete queue is deleted with its last consumer and all its messages.
        portions = self.unacked.take_all()
        if portions:
            background = self.connection.broker.background
            background.begin(Settlement(background, portions, requeue, returns=True))
        for consumer in leaving.values():
            consumer.leave()
        if self.reply is not None:
            self.reply.leave()
            self.reply = None
        if self.unanswered is not None:
            self.unanswered.close()
        if self.confirms is not None:
            self.vhost.counters.channel_gone(self.confirms)
        if self.tx is not None:
            self.tx.end()
            self.tx = None
        self.routes.forget()
        if not self.deferred:
            self.connection.broker.awaiting.pop(self, None)
        self.connection.broker.registry.close_channel(self.connection.user.name)


def requeue(portions: list[Portion]) -> None:
    for holder, lane, sequence, messages, count in portions:
        holder.queue.requeue(lane, sequence, messages, count, tried=False)
