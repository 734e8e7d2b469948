"""One channel of a connection, whatever its protocol: consumers, unacknowledged messages, confirms, a transaction.

A request is a method, as a value: AMQP decodes it from a frame, other protocols call a DirectChannel
(session/direct_channel.py). ``handle`` passes it to the interceptors and then to its handler. The subclass of a
protocol encodes replies, confirms and deliveries.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar

from leveret.broker.caller import Getters
from leveret.broker.interceptors import InterceptContext
from leveret.delivery.confirms import Confirm, Confirms
from leveret.delivery.consumer import UNLIMITED
from leveret.delivery.receipts import PendingPublish
from leveret.delivery.unacked import Unacked, give_back
from leveret.errors import AmqpError, NotFound, PreconditionFailed, ResourceFault
from leveret.message import Message
from leveret.session import acknowledgements, consumers, declarations, pooled_consumer, transactions
from leveret.session.pending_publishes import PendingPublishes
from leveret.session.routes import Routes
from leveret.session.settlement import Settlement
from leveret.session.shared_declarations import change_first
from leveret.session.transactions import PendingCommit, Transaction
from leveret.wire.grammar import ChannelStep
from leveret.wire.methods import BasicPublish, Method

if TYPE_CHECKING:
    from leveret.session.amqp_consumer import ReplyConsumer
    from leveret.session.connection import Connection

READ_ONLY = "the disk failed, the store is read-only: restart the broker"
Handler = Callable[[Any, Any], object]


class Channel:
    __slots__ = (
        "caller",
        "committing",
        "confirms",
        "connection",
        "consumers",
        "deferred",
        "getters",
        "held_cancels",
        "last_queue",
        "now",
        "number",
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

    handlers: ClassVar[dict[tuple[int, int], Handler]] = {
        **declarations.HANDLERS,
        **consumers.HANDLERS,
        **pooled_consumer.HANDLERS,
        **acknowledgements.HANDLERS,
        **transactions.HANDLERS,
    }
    is_link: ClassVar[bool] = False  # of another cell: properties of messages were acted on there
    consumer_class: ClassVar[type[consumers.ChannelConsumer]]
    member_class: ClassVar[type[pooled_consumer.Member]]  # consumers of the queues of a pool

    def __init__(self, connection: Connection, number: int) -> None:
        self.connection = connection
        self.number = number
        self.vhost, self.caller = connection.vhost, connection.caller
        self.now = connection.broker.clock.now
        self.step = ChannelStep.OPEN
        self.routes = Routes(self)
        self.unacked = Unacked()
        self.consumers: dict[str, consumers.ChannelConsumer | pooled_consumer.PooledConsumer] = {}
        self.held_cancels: list[str] | None = None  # consumer tags, while this channel deletes a queue
        self.getters = Getters(self.unacked)
        self.reply: ReplyConsumer | None = None
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
        self.deferred: list[tuple[int, bytes]] = []  # (receipt, frames): replies that wait for the disk
        connection.broker.registry.open_channel(connection.user.name, connection.user.max_channels)

    # ---- for the subclass of a protocol

    def frames_of(self, reply: Method) -> bytes:
        """The bytes of a reply; empty if this protocol sends none."""
        raise NotImplementedError

    def send_confirms(self, confirms: list[Confirm]) -> None:
        raise NotImplementedError

    def cancelled(self, tag: str) -> None:
        """The queue of this consumer was deleted: notify the client."""
        raise NotImplementedError

    def fail(self, error: AmqpError, method: tuple[int, int]) -> None:
        """A method that has been handled earlier failed: close the channel or the connection."""
        raise NotImplementedError

    def return_messages(self, messages: list[Message]) -> None:
        """These messages were mandatory and reached no queue."""
        self.returned += len(messages)
        if not self.is_link:  # the other cell counts what it returns to clients
            self.vhost.counters_of(messages[0][1].exchange).returned += len(messages)

    # ---- methods

    def handle(self, method: Method) -> None:
        declarations.remove_line_breaks(method)
        method = self.intercept(method)
        handler = self.handlers.get(method.id)
        if handler is not None and not (self.vhost.cells.changes is not None and change_first(self, method, handler)):
            handler(self, method)

    def intercept(self, method: Method) -> Method:
        interceptors = self.connection.broker.interceptors
        if not interceptors.concerns(method.id):
            return method
        connection = self.connection
        context = InterceptContext(self.vhost.name, connection.user.name, connection.name, self.number)
        return interceptors.apply(context, method)

    def send(self, method: Method) -> None:
        self.send_frames(self.frames_of(method))

    def send_frames(self, frames: bytes) -> None:
        """Replies of a channel keep their order: while one waits for the disk, later ones wait too."""
        if self.deferred:
            self.deferred.append((self.deferred[-1][0], frames))
        else:
            self.connection.send(frames)

    def answer(self, reply: Method, issued: int) -> None:
        """Reply once everything that was written to the log since ``issued`` is safe."""
        broker = self.connection.broker
        if broker.log.issued in (issued, broker.last_granted):  # granted, if the reply had to wait for another cell
            self.send(reply)
        elif broker.is_lost:
            raise ResourceFault(READ_ONLY)
        else:
            self.deferred.append((broker.log.issued, self.frames_of(reply)))
            broker.awaiting[self] = None

    def reply_to(self, method: Any, reply: Method, issued: int | None = None) -> None:
        """``answer``, unless the client expects no reply to this method."""
        if not method.nowait:
            self.answer(reply, self.connection.broker.log.issued if issued is None else issued)

    def notify_cancel(self, tag: str) -> None:
        if self.consumers.pop(tag, None) is None:
            return
        if self.held_cancels is None:
            self.cancelled(tag)
        else:
            self.held_cancels.append(tag)

    def granted(self, receipt: int) -> bool:
        deferred = self.deferred
        if deferred:
            number = bisect_right(deferred, receipt, key=itemgetter(0))
            for _, frames in deferred[:number]:
                self.connection.send(frames)
            del deferred[:number]
            if not deferred:
                self.touch_queues()  # while replies were deferred, nothing was delivered
        if self.confirms is None or self.step is not ChannelStep.OPEN:
            return bool(deferred)
        self.send_confirms(self.confirms.granted(receipt))
        return self.confirms.is_waiting or bool(deferred)

    def touch_queues(self) -> None:
        """Let the queues of all consumers deliver in the next tick."""
        for consumer in self.consumers.values():
            consumer.queue.touch()
        if self.reply is not None:
            self.reply.queue.touch()

    def granted_early(self, receipts: set[int]) -> None:
        if self.confirms is not None and self.step is ChannelStep.OPEN:
            self.send_confirms(self.confirms.granted_early(receipts))

    def lost(self) -> None:
        if self.deferred:
            self.deferred.clear()
            if not self.connection.is_over:
                self.connection.end_with(ResourceFault(READ_ONLY))
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

    def pending_publish(self, run: list[Message], mandatory: bool) -> PendingPublish:
        """For queues that answer later."""
        if self.committing is not None:
            return self.committing.publish(run, mandatory)
        first, last = (0, 0) if self.confirms is None else self.confirms.reserve(len(run))
        return PendingPublish(self.flow_control(), run, mandatory=mandatory, first=first, last=last)

    @property
    def waits_for_nothing(self) -> bool:
        """No confirm and no commit waits for what is published now."""
        return self.confirms is None and self.committing is None

    def flow_control(self) -> PendingPublishes:
        if self.unanswered is None:
            self.unanswered = PendingPublishes(self)
        return self.unanswered

    def reply_name(self) -> str:
        if self.reply is None:
            raise PreconditionFailed("fast reply consumer does not exist", method=BasicPublish.id)
        return self.reply.queue_name

    # ---- the end

    def close(self) -> None:
        """The client closes the channel."""
        self.leave()

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
        leaving, self.consumers = self.consumers, {}
        # Requeue before cancelling: an auto-delete queue is deleted with its last consumer and all its messages.
        portions = self.unacked.take_all()
        if portions:
            background = self.connection.broker.background
            background.begin(Settlement(background, portions, give_back, returns=True))
        for consumer in leaving.values():
            consumer.leave()
        if self.reply is not None:
            self.reply.leave()
            self.reply = None
        if self.unanswered is not None:
            self.unanswered.close()
        if self.confirms is not None and not self.is_link:  # the other cell counts what it has confirmed to clients
            self.vhost.counters.channel_gone(self.confirms)
        if self.tx is not None:
            self.tx.end()
            self.tx = None
        self.routes.forget()
        if not self.deferred:
            self.connection.broker.awaiting.pop(self, None)
        self.connection.broker.registry.close_channel(self.connection.user.name)
