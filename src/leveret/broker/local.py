"""Publishing, consuming, getting and settling without AMQP frames: for the HTTP API and code in the process.

A LocalSession corresponds to a channel: it numbers deliveries, keeps the unacknowledged messages and requeues them when
it is closed. It has a Caller for all other operations. It runs on the broker's loop; ``leveret.embedded`` brings calls
from other threads here.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from leveret.broker.access import UserAccess
from leveret.broker.caller import Caller, Getters
from leveret.broker.permission_rules import NO_ARGUMENTS
from leveret.broker.publish_rules import too_large, traits_of
from leveret.broker.publishes import publish_run
from leveret.broker.routes import PublishRoute
from leveret.broker.schedules import until
from leveret.delivery import unacked
from leveret.delivery.consumer import UNLIMITED, Consumer
from leveret.delivery.receipts import Receipts
from leveret.delivery.selector import compile_selector, selectable
from leveret.delivery.unacked import Unacked
from leveret.errors import ChannelFault, NotAllowed, PreconditionFailed
from leveret.message import NEVER, Address, Message
from leveret.queues.declared_queue import DeclaredQueue
from leveret.queues.direct_reply import REPLY_TO
from leveret.wire.constants import DEFAULT_FRAME_MAX, MAX_BODY_SIZE
from leveret.wire.content import body_of, make_content, properties_of
from leveret.wire.properties import Properties

MOST_WAITING = 1_000  # deliveries of one consumer that may wait for its callback; the rest stays ready


@dataclass(frozen=True, slots=True)
class Delivered:
    """A message as a callback receives it. ``id`` is the broker's own ID, besides the application's message_id."""

    id: str
    consumer_tag: str
    delivery_tag: int
    redelivered: bool
    exchange: str
    routing_key: str
    properties: Properties
    body: bytes


class LocalConsumer(Consumer):
    __slots__ = ("_session", "target", "waiting")

    def __init__(self, session: LocalSession, target: DeclaredQueue, tag: str, prefetch: int, no_ack: bool) -> None:
        credit = UNLIMITED if no_ack else prefetch or UNLIMITED
        super().__init__(tag, target, credit, no_ack=no_ack, unacked=session.unacked)
        self._session = session
        self.target = target
        self.waiting = 0  # deliveries whose callback has not returned

    @property
    def is_limited(self) -> bool:
        return self.no_ack or self.credit < UNLIMITED

    def room(self) -> int:
        return min(self.credit, MOST_WAITING - self.waiting)

    def take(self, ready: deque[Message], lane: int, sequence: int, limit: int) -> tuple[int, int]:
        size = 0
        number = min(limit, self.room())
        for place in range(sequence, sequence + number):
            message = ready.popleft()
            size += len(message[0])
            self._hand_over(message, lane, place, 0, False)
        return number, size

    def take_again(self, message: Message, lane: int, sequence: int, count: int) -> None:
        self._hand_over(message, lane, sequence, count, True)

    def _hand_over(self, message: Message, lane: int, sequence: int, count: int, redelivered: bool) -> None:
        """Record the message as unacked first, then call the callback: a crash in between loses nothing."""
        self.waiting += 1
        self.credit -= not self.no_ack
        tag = self._session.unacked.add(self, None if self.no_ack else message, lane, sequence, count)
        self._session.deliver(
            self.tag, delivered(self.target, self.tag, tag, message, lane, sequence, redelivered, count)
        )

    def cancelled_by_queue(self) -> None:
        self._session.consumers.pop(self.tag, None)
        self._session.left(self.tag)


class LocalSession:
    def __init__(
        self,
        access: UserAccess,
        deliver: Callable[[str, Delivered], None],
        *,
        left: Callable[[str], object] = lambda tag: None,
        max_message_size: int = MAX_BODY_SIZE,
    ) -> None:
        self.caller = Caller(access, self)
        self.vhost = access.vhost
        self.deliver = deliver
        self.left = left  # called with the tag of a consumer that ended
        self.max_message_size = max_message_size
        self.is_open = True
        self.unacked = Unacked()
        self.receipts = Receipts()  # of its publishes to queues that answer later
        self.consumers: dict[str, LocalConsumer] = {}
        self._getters = Getters(self.unacked)

    def publish(self, exchange: str, routing_key: str, body: bytes, properties: Properties | None = None) -> bool:
        """Publish a message; returns whether it was routed to a queue or scheduled. A queue that answers later may
        still refuse it: ``receipts`` has its answer."""
        properties = properties or Properties()
        self._check_content(properties, body)
        vhost, headers = self.vhost, properties.headers or {}
        source = self.caller.exchange_to_publish(exchange, routing_key)
        keys = (routing_key, *self.caller.check_properties(exchange, properties))
        fields = selectable(properties)
        traits = traits_of(properties, vhost.queue_context.now())
        due = vhost.schedules.due(source, headers)
        if "BCC" in headers and due is None:
            properties = replace(properties, headers={key: headers[key] for key in headers if key != "BCC"})
        content = make_content(properties, body)
        address = Address(exchange, routing_key, 1, DEFAULT_FRAME_MAX)
        counters, tracer = vhost.counters_of(exchange), vhost.tracer
        route = PublishRoute(address, source, counters, tracer=tracer)
        counters.published += 1
        if due is not None:
            route = route.waiting_in(vhost.schedules.queue)
            traits = until(due, traits)
        else:
            route.lead_to(vhost.live_queues(vhost.route(source, keys, fields).queues))
        run: list[Message] = [(content, address, traits)]
        vhost.message_sizes.lengths[len(content)] += 1
        pending = self.receipts.open(run) if route.answers_later else None
        timed = traits.deadline != NEVER
        (outcome,) = publish_run(route, vhost.queue_context.log, run, len(content), timed, pending=pending)
        if pending is not None:
            pending.resolve(True)  # the caller waits for the broker's log
        if outcome.is_rejected:
            raise PreconditionFailed(f"a queue that '{routing_key}' leads to is full and refuses the message")
        return bool(route.queues)

    def _check_content(self, properties: Properties, body: bytes) -> None:
        if len(body) > self.max_message_size:
            raise PreconditionFailed(too_large(len(body), self.max_message_size))
        if properties.reply_to == REPLY_TO:
            raise PreconditionFailed("fast reply consumer does not exist")  # a LocalSession cannot consume replies

    def consume(
        self,
        queue: str,
        tag: str = "",
        *,
        auto_ack: bool = False,
        prefetch: int = 0,
        exclusive: bool = False,
        priority: int = 0,
        selector: str = "",
        pull_one: bool = False,
        arguments: Mapping[str, object] | None = None,
    ) -> str:
        """Returns the consumer tag. ``selector``: receive only matching messages; ``pull_one``: receive one message;
        ``arguments``: for example the offset where a stream consumer starts."""
        if tag in self.consumers:
            raise NotAllowed(f"attempt to reuse consumer tag '{tag}'")
        tag = tag or f"amq.ctag-{secrets.token_urlsafe(16)}"
        target = self.caller.queue_to("consume", queue, arguments or NO_ARGUMENTS)
        consumer = LocalConsumer(self, target, tag, prefetch, auto_ack)
        consumer.exclusive, consumer.priority, consumer.one_shot = exclusive, priority, pull_one
        consumer.arguments = dict(arguments or {})
        consumer.selector = compile_selector(selector) if selector.strip() else None
        target.add_consumer(consumer)
        self.consumers[tag] = consumer
        return tag

    def cancel(self, tag: str) -> None:
        consumer = self.consumers.pop(tag, None)
        if consumer is not None:
            consumer.target.remove_consumer(consumer)
            self.left(tag)

    def get(self, queue: str, *, auto_ack: bool = False) -> Delivered | None:
        target = self.caller.queue_to("get", queue)
        found = self._getters.get(target, self, auto_ack=auto_ack)
        if found is None:
            return None
        tag, taken = found
        return delivered(
            target, "", tag, taken.message, taken.lane, taken.sequence, taken.redelivered, taken.delivery_count
        )

    def ack(self, tag: int, *, multiple: bool = False) -> None:
        unacked.acknowledge(self.unacked.claim(tag, multiple))

    def nack(self, tag: int, *, multiple: bool = False, requeue: bool = True) -> None:
        (unacked.requeue if requeue else unacked.drop)(self.unacked.claim(tag, multiple))

    def callback_done(self, consumer_tag: str) -> None:
        """The callback of a delivery has returned: deliver more."""
        consumer = self.consumers.get(consumer_tag)
        if consumer is not None:
            consumer.waiting = max(0, consumer.waiting - 1)  # it may belong to an earlier consumer of this tag
            consumer.queue.touch()

    def check_open(self) -> None:
        if not self.is_open:
            raise ChannelFault("this session is closed: open another with broker.vhost()")

    def close(self) -> None:
        """Requeue unacked messages, cancel consumers, delete exclusive queues. Closing twice is not an error."""
        self.is_open = False
        unacked.give_back(self.unacked.take_all())
        for tag in list(self.consumers):
            self.cancel(tag)
        self.vhost.drop_exclusive(self)


def delivered(
    queue: DeclaredQueue,
    consumer_tag: str,
    tag: int,
    message: Message,
    lane: int,
    sequence: int,
    redelivered: bool,
    tries: int = 0,
) -> Delivered:
    content, address, _ = message
    name = f"{queue.id}-{lane}-{sequence}"
    properties, body = properties_of(content), body_of(content)
    if tries and queue.counts_deliveries:
        properties.headers = {**(properties.headers or {}), "x-delivery-count": tries}
    return Delivered(name, consumer_tag, tag, redelivered, address.exchange, address.key, properties, body)
