"""The home side of a link: an AMQP connection of another cell, for one virtual host (docs/decisions/0057).

It has no login: the cluster port has checked the other cell. A channel belongs to the queue that it declared passively
last. Publishes on it go to that queue with the exchange and the routing key of the original publish, and their
properties are not acted on again. Messages come and go in runs (session/run_frames.py), large ones in ordinary frames.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from leveret.auth.mechanisms import Credentials
from leveret.auth.users import User
from leveret.broker.access import in_process_access
from leveret.broker.broker import Broker
from leveret.broker.caller import Caller
from leveret.broker.counters import ExchangeCounters
from leveret.broker.publish_rules import traits_of
from leveret.broker.routes import PublishRoute
from leveret.delivery.consumer import Source
from leveret.delivery.unacked import give_back_unseen, requeue_left, requeue_unseen
from leveret.errors import AmqpError, NotFound, Unsupported
from leveret.message import NEVER, Address, Message
from leveret.queues.declared_queue import DeclaredQueue
from leveret.queues.direct_reply import REPLY_TO
from leveret.queues.queue import uniform_runs
from leveret.session import acknowledgements
from leveret.session.ack_timeout_extension import ON_LINK, extend_on_link
from leveret.session.amqp_channel import AmqpChannel
from leveret.session.amqp_connection import AmqpConnection
from leveret.session.amqp_consumer import AmqpConsumer, with_count
from leveret.session.connection import Peer
from leveret.session.consumer_reports import ACTIVE, CLIENT_TAG, OFFSET, RESUME_AT, report_frame
from leveret.session.consumers import BURST_BYTES
from leveret.session.home_requests import ask_home
from leveret.session.inspection import inspect
from leveret.session.intake import Intake
from leveret.session.limits import Limits
from leveret.session.publishes import publish
from leveret.session.routes import Routes
from leveret.session.run_frames import (
    LARGEST_RUN,
    MOST_RUN,
    OTHER,
    PLAIN,
    REDELIVERED,
    RUN,
    decode_run,
    run_frame,
    unseen_tags,
)
from leveret.wire.content import PROPERTIES_AT, body_at, properties_of
from leveret.wire.grammar import ChannelStep, Step
from leveret.wire.methods import (
    BasicCancel,
    BasicConsume,
    BasicPublish,
    BasicReject,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueuePurge,
    QueuePurgeOk,
)

if TYPE_CHECKING:
    from leveret.broker.vhost import Vhost
    from leveret.session.channel import Handler

CAPABILITIES = {"consumer_cancel_notify": True, "connection.blocked": True}


class LinkRoutes(Routes):
    """Every publish of the channel goes to its queue. It was counted where it was published."""

    __slots__ = ()

    def to_queue(self) -> PublishRoute:
        """For runs: the messages have their own addresses."""
        return self.lead("", self._channel.last_queue or "")

    def _make(self, method: BasicPublish) -> PublishRoute:
        channel, vhost = self._channel, self.vhost
        address = Address(method.exchange, method.routing_key, channel.number, channel.connection.frame_max)
        route = PublishRoute(address, vhost.exchanges[""], ExchangeCounters(), mandatory=True, tracer=vhost.tracer)
        self.stamp(route)
        route.lead_to(vhost.arrivals(channel.last_queue or ""))
        return route

    def current(self, route: PublishRoute) -> PublishRoute:
        is_old = route.epoch != self.vhost.epoch
        return route.to(self.vhost.arrivals(self._channel.last_queue or "")) if is_old else route.without_deleted()


def _when_known(channel: LinkChannel, method: QueueDeclare | QueueDelete, handler: Handler) -> None:
    """Handle a method about a queue that this cell may not have yet, if it was declared just now. The first cell is
    asked; while that is away the method is refused, since all channels of the link would wait."""
    changes = channel.vhost.cells.changes
    if changes is None or method.queue in channel.vhost.queues:
        handler(channel, method)
    else:
        ask_home(channel, method, partial(changes.sync, waits=False), lambda _: handler(channel, method))


def _declare(channel: LinkChannel, method: QueueDeclare) -> None:
    if method.queue.startswith(REPLY_TO):
        _use_reply_queue(channel, method)
    else:
        _when_known(channel, method, _use_queue)


def _delete(channel: LinkChannel, method: QueueDelete) -> None:
    _when_known(channel, method, AmqpChannel.handlers[QueueDelete.id])


def _use_queue(channel: LinkChannel, method: QueueDeclare) -> None:
    queue = channel.queue(method.queue)
    queue.note_use()
    channel.last_queue = queue.name
    channel.routes.forget()
    channel.vhost.settle_down(queue)
    channel.reply_to(method, QueueDeclareOk(queue.name, queue.ready, len(queue.consumers)))


def _use_reply_queue(channel: LinkChannel, method: QueueDeclare) -> None:
    """Without a reply, for publishes: those to a requester that has gone are returned."""
    if not method.nowait and method.queue not in channel.vhost.reply_queues:
        raise NotFound(f"no queue '{method.queue}' in vhost '{channel.vhost.name}'")
    channel.last_queue = method.queue
    channel.routes.forget()
    channel.reply_to(method, QueueDeclareOk(method.queue, 0, 1))


def _purge(channel: LinkChannel, method: QueuePurge) -> None:
    issued = channel.connection.broker.log.issued
    queue = channel.queue(method.queue)
    channel.reply_to(method, QueuePurgeOk(channel.vhost.purge_queue(queue.name, queue.owner)), issued)


def _reject(channel: LinkChannel, method: BasicReject) -> None:
    """With requeue: the consumer was closed before it settled the message."""
    if method.requeue:
        acknowledgements.settle(channel, method.delivery_tag, False, requeue_left)
    else:
        acknowledgements.HANDLERS[BasicReject.id](channel, method)


def _consume(channel: LinkChannel, method: BasicConsume) -> None:
    resume_at, stream = method.arguments.get(RESUME_AT), channel.queue(method.queue).stream
    if isinstance(resume_at, int) and stream is not None:
        method.arguments["x-stream-offset"] = min(resume_at, stream.tail)  # a power failure may have lost its end
    AmqpChannel.handlers[BasicConsume.id](channel, method)


def _cancel(channel: LinkChannel, method: BasicCancel) -> None:
    is_extension = method.consumer_tag.startswith(ON_LINK)
    handle = extend_on_link if is_extension else AmqpChannel.handlers[BasicCancel.id]
    handle(channel, method)


class LinkConsumer(AmqpConsumer):
    """Links settle everything, so there is no ``no_ack``."""

    __slots__ = ("_client_tag", "_next_offset")

    def __init__(self, channel: AmqpChannel, queue: Source, method: BasicConsume, priority: int) -> None:
        super().__init__(channel, queue, method, priority)
        self._client_tag = method.arguments.get(CLIENT_TAG)
        self._next_offset: int | None = None  # of a stream, as the other cell expects it

    @property
    def client_tag(self) -> str:
        return self._client_tag if isinstance(self._client_tag, str) else self.tag

    def starts_at(self, offset: int) -> None:
        if self._client_tag is not None:
            self._next_offset = offset
            self._report(OFFSET, offset)

    def activity_changed(self, active: bool) -> None:
        if self._client_tag is not None:
            self._report(ACTIVE, int(active))

    def _report(self, subject: int, value: int) -> None:
        self.outbox.send(report_frame(self.channel.number, subject, value))

    def take(self, ready: deque[Message], lane: int, sequence: int, limit: int) -> tuple[int, int]:
        if self._next_offset is None:
            return self._take(ready, lane, sequence, limit)
        if self._next_offset != sequence - 1:
            self._report(OFFSET, sequence - 1)
        taken, size = self._take(ready, lane, sequence, limit)
        self._next_offset = sequence - 1 + taken
        return taken, size

    def _take(self, ready: deque[Message], lane: int, sequence: int, limit: int) -> tuple[int, int]:
        if len(ready[0][0]) > MOST_RUN:
            return super().take(ready, lane, sequence, 1)
        channel, unacked = self.channel, self.channel.unacked
        if limit > 1:
            limit = min(limit, self.room())
        run: list[Message] = []
        size = 0
        while len(run) < limit and size <= BURST_BYTES and len(ready[0][0]) <= MOST_RUN:
            message = ready.popleft()
            run.append(message)
            size += len(message[0])
        taken = len(run)
        self.outbox.send(run_frame(channel.number, unacked.next_tag, PLAIN, run))
        unacked.items += run
        unacked.opened(self, lane, sequence, taken)
        self.credit -= taken
        channel.shared_credit -= taken
        return taken, size

    def take_again(self, message: Message, lane: int, sequence: int, count: int) -> None:
        content, address, traits = message
        if len(content) > MOST_RUN:
            super().take_again(message, lane, sequence, count)
            return
        if self.queue.counts_deliveries:
            content = with_count(content, count)
        channel = self.channel
        frame = run_frame(channel.number, channel.unacked.next_tag, REDELIVERED, [(content, address, traits)])
        self.outbox.send(frame)
        self.keep_one(message, lane, sequence, count)


class LinkChannel(AmqpChannel):
    __slots__ = ("addresses",)

    is_link = True
    consumer_class = LinkConsumer
    handlers = AmqpChannel.handlers | {
        BasicCancel.id: _cancel,
        BasicConsume.id: _consume,
        BasicReject.id: _reject,
        QueueDeclare.id: _declare,
        QueueDelete.id: _delete,
        QueuePurge.id: _purge,
    }

    def __init__(self, connection: AmqpConnection, number: int) -> None:
        super().__init__(connection, number)
        self.routes: LinkRoutes = LinkRoutes(self)
        self.addresses: dict[bytes, Address] = {}

    def take_run(self, frame: bytes) -> bool:
        """Whether it was a publish, instead of deliveries that return."""
        if (unseen := unseen_tags(frame)) is not None:
            known = range(unseen.start, min(unseen.stop, self.unacked.next_tag))
            acknowledgements.settle_many(self, self.unacked.take_each(known), requeue_unseen)
            return False
        _, flags, run = decode_run(frame, 0, len(frame), None, self.addresses)
        timed = False
        if flags == OTHER:
            run = [self._with_traits(message) for message in run]
            timed = any(message[2].deadline != NEVER for message in run)
        route = self.routes.to_queue()
        for part in uniform_runs(run) if route.durable else [run]:
            publish(self, route, part, sum([len(message[0]) for message in part]), timed)
        return True

    def close(self) -> None:
        """The other cell closes the channel when its clients hold no delivery: they have seen none of the others."""
        acknowledgements.settle_many(self, self.unacked.take_all(), give_back_unseen)
        super().close()

    def _with_traits(self, message: Message) -> Message:
        content, address, _ = message
        flags = int.from_bytes(content[PROPERTIES_AT : PROPERTIES_AT + 2], "big")
        traits = inspect(flags, content, PROPERTIES_AT + 2, body_at(content) - 1, self.now())
        return content, address, traits or traits_of(properties_of(content), self.now())

    def queue(self, name: str) -> DeclaredQueue:
        """Exclusive queues too: who may use them was checked where the client is."""
        found = self.vhost.queues.get(name)
        if found is None:
            raise NotFound(f"no queue '{name}' in vhost '{self.vhost.name}'")
        return found


class LinkIntake(Intake):
    __slots__ = ()

    def _take_frame(self, kind: int, number: int, frame: bytes) -> None:
        if kind != RUN:
            super()._take_frame(kind, number, frame)
            return
        channel = self._connection.channels.get(number)
        if isinstance(channel, LinkChannel) and channel.step is ChannelStep.OPEN:
            is_publish = channel.take_run(frame)
            if is_publish and self._connection.broker.alarms:  # no more than this one
                self._connection.block()


class UnsupportedByQueue(AmqpError):
    code, title, closes = Unsupported.code, Unsupported.title, "channel"


class LinkConnection(AmqpConnection):
    """``cell``: the name of the other cell."""

    __slots__ = ()

    protocol = "Leveret link"
    is_link = True
    channel_class = LinkChannel

    def __init__(self, broker: Broker, peer: Peer, limits: Limits, name: str, vhost: Vhost, cell: str) -> None:
        super().__init__(broker, peer, _refuse, limits, name)
        self.user = User("")
        self.client_name = f"cell {cell}"
        self.capabilities = dict(CAPABILITIES)
        broker.registry.enter("", None, vhost.name, None)
        self.vhost = vhost
        self.caller = Caller(in_process_access(vhost), self)
        self.step = Step.OPEN
        self.intake = LinkIntake(self)
        self.intake.frame_limit = LARGEST_RUN

    def fail(self, error: AmqpError) -> None:
        """A request of one client that its queue does not support must not close the link of all others."""
        is_of_queue = isinstance(error, Unsupported)
        super().fail(UnsupportedByQueue(error.text, method=error.method) if is_of_queue else error)


def _refuse(credentials: Credentials, decided: Callable[[User | None], None]) -> None:
    decided(None)
