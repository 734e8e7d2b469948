"""SUBSCRIBE, MESSAGE, ACK and NACK: subscriptions are consumers of one channel.

A subscription to a queue consumes from it. A subscription to a topic or an exchange has a queue of its own, bound to
it: deleted with the subscription, or kept under a name derived from destination and id if it is durable. A selector is
then an argument of the binding, so that messages that do not match are not stored.

In the ack mode ``client``, an ACK acknowledges all earlier messages of its subscription, not of the channel. So each
subscription keeps its unacknowledged delivery tags, and each tag is settled on its own; the connection handles a run of
acks at once.
"""

from __future__ import annotations

import hashlib
import secrets
from base64 import urlsafe_b64encode
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from leveret.stomp.amqp_client import CONSUMING, AmqpClient
from leveret.stomp.destinations import QUEUE, TEMP_PREFIX, TEMP_QUEUE, Destination, parse
from leveret.stomp.errors import StompError, is_too_long, refuse_long
from leveret.stomp.frame import Frame
from leveret.stomp.known_queues import KnownQueues
from leveret.stomp.sender import arguments_of, declaration
from leveret.wire.fields import Table
from leveret.wire.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicQos,
    BasicQosOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
)

ACK_MODES = ("auto", "client", "client-individual")
X_SELECTOR = "x-selector"
OF_CONSUMERS = (
    "x-priority",
    "x-stream-offset",
    X_SELECTOR,
    "x-pull-one",
)  # arguments of basic.consume; others are of queue.declare
QUEUE_NAME = "x-queue-name"
MOST_PREFETCH = 65_535
Done = Callable[[], None]


@dataclass(slots=True, eq=False)
class Subscription:
    tag: str  # of the consumer
    id: str  # header subscription of MESSAGE; empty if SUBSCRIBE had none
    queue: str
    mode: str
    durable: bool
    unacked: dict[int, None] = field(default_factory=dict)  # delivery tags, in order


Claim = tuple[Subscription, list[int]]  # delivery tags


class Subscriptions:
    __slots__ = ("_amqp", "_by_delivery_tag", "_known", "_leaving", "_session", "_subscriptions")

    def __init__(self, amqp: AmqpClient, known: KnownQueues, session: str) -> None:
        self._amqp = amqp
        self._known = known
        self._session = session
        self._subscriptions: dict[str, Subscription] = {}  # by tag
        self._leaving: dict[str, deque[Subscription]] = {}  # by tag: cancelled and not confirmed yet
        self._by_delivery_tag: dict[int, Subscription] = {}

    # ---- SUBSCRIBE and UNSUBSCRIBE

    def subscribe(self, frame: Frame, done: Done) -> None:
        text = frame.need("destination")
        destination = parse(text)
        if destination.kind == TEMP_QUEUE:
            text = f"{text[:256]!r} is not a valid destination for 'SUBSCRIBE'"
            raise StompError("Invalid destination", f"{text}\nIt is for reply-to only, and needs no SUBSCRIBE")
        mode = frame.get("ack") or "auto"
        if mode not in ACK_MODES:
            raise StompError("Invalid header", f"SUBSCRIBE has ack:{mode[:64]}, expected {', '.join(ACK_MODES)}")
        tag, id_ = _names(frame)
        if id_.startswith(TEMP_PREFIX):
            raise StompError("Invalid id", f"SUBSCRIBE 'id' may not start with {TEMP_PREFIX}")
        self._refuse_duplicate(tag)
        durable = _is_durable(frame)
        queue = self._queue_of(frame, destination, text, durable and not destination.is_queue)
        made = Subscription(tag, id_, queue, mode, durable and not destination.is_queue)
        self._subscriptions[tag] = made
        self._consume(frame, destination, made, done)

    def _refuse_duplicate(self, tag: str) -> None:
        if tag in self._subscriptions:
            text = f"A subscription identified by '{tag}' already exists."
            raise StompError("Duplicated subscription identifier", text, ending="")

    def _queue_of(self, frame: Frame, destination: Destination, text: str, durable: bool) -> str:
        amqp = self._amqp
        if destination.is_queue:
            if destination.kind == QUEUE and destination.name not in self._known:
                declare = declaration(frame, destination.name)
                declare.arguments = {name: declare.arguments[name] for name in _of_queues(declare.arguments)}
                self._known.declare(CONSUMING, declare)
            return destination.name
        given = frame.get(QUEUE_NAME)
        refuse_long(f"SUBSCRIBE has an {QUEUE_NAME}", given or "")
        queue = given or _subscription_queue(text, frame.need("id") if durable else None)
        arguments = arguments_of(frame)
        declare = QueueDeclare(
            queue,
            durable=durable,
            exclusive=frame.flag(
                "exclusive", default=not durable and not given
            ),  # a queue with a given name may be shared
            auto_delete=frame.flag("auto-delete", default=not durable),
            arguments={name: arguments[name] for name in _of_queues(arguments)},
        )
        amqp.call(CONSUMING, declare, QueueDeclareOk)
        selector = frame.get("selector", X_SELECTOR)
        bind = QueueBind(queue, destination.exchange, destination.key)
        if selector:
            bind.arguments = {X_SELECTOR: selector}
        amqp.call(CONSUMING, bind, QueueBindOk)
        return queue

    def _consume(self, frame: Frame, destination: Destination, made: Subscription, done: Done) -> None:
        given = arguments_of(frame)
        arguments: Table = {name: given[name] for name in OF_CONSUMERS if name in given}
        selector = frame.get("selector", X_SELECTOR)
        if selector and destination.is_queue:
            arguments[X_SELECTOR] = selector
        else:
            arguments.pop(X_SELECTOR, None)
        priority = frame.number("activemq.priority")
        if priority is not None:
            arguments.setdefault("x-priority", priority)
        prefetch = min(frame.number("prefetch-count", "activemq.prefetchSize") or 0, MOST_PREFETCH)
        self._amqp.call(CONSUMING, BasicQos(prefetch_count=prefetch), BasicQosOk)
        consume = BasicConsume(
            made.queue,
            made.tag,
            no_ack=made.mode == "auto",
            exclusive=frame.flag("activemq.exclusive"),
            arguments=arguments,
        )
        self._amqp.call(CONSUMING, consume, BasicConsumeOk, done)

    def open_temporary(self, destination: str) -> str:
        """Declare a queue for replies and consume from it; return its name."""
        queue = f"stomp-temp-{secrets.token_urlsafe(16)}"
        tag = f"T_{destination}"
        refuse_long("SEND has a reply-to that makes a subscription", tag)
        self._refuse_duplicate(tag)
        self._subscriptions[tag] = Subscription(tag, destination, queue, "auto", durable=False)
        call = self._amqp.call
        call(CONSUMING, QueueDeclare(queue, exclusive=True, auto_delete=True), QueueDeclareOk)
        call(CONSUMING, BasicConsume(queue, tag, no_ack=True), BasicConsumeOk)
        return queue

    def unsubscribe(self, frame: Frame, done: Done) -> str:
        """Return the queue that it consumed from. Its messages may still be acknowledged."""
        tag, id_ = _names(frame)
        ends = _is_durable(frame)
        gone = self._subscriptions.pop(tag, None)
        if gone is None:
            text = f"UNSUBSCRIBE must refer to an existing subscription.\nThere is no {id_ or tag!r}."
            raise StompError("No subscription found", text)
        self._leaving.setdefault(tag, deque()).append(gone)

        def left() -> None:
            self._leaving[tag].popleft()
            if not self._leaving[tag]:
                del self._leaving[tag]
            if not is_deleted:
                done()

        is_deleted = ends and gone.durable
        self._amqp.call(CONSUMING, BasicCancel(tag), BasicCancelOk, left)
        if is_deleted:
            self._amqp.call(CONSUMING, QueueDelete(gone.queue), QueueDeleteOk, done)
        return gone.queue

    def cancelled(self, tag: str) -> Subscription | None:
        """By the broker: its queue was deleted."""
        return None if tag in self._leaving else self._subscriptions.pop(tag, None)

    # ---- messages

    def subscription_of(self, consumer_tag: str, tag: int) -> tuple[Subscription, str]:
        """The subscription of a delivery, and the message ID to acknowledge it by. A delivery that was sent before its
        subscription ended belongs to it, though another subscription may use the same ID by now."""
        leaving = self._leaving.get(consumer_tag)
        subscription = leaving[0] if leaving else self._subscriptions[consumer_tag]
        if subscription.mode != "auto":
            subscription.unacked[tag] = None
            self._by_delivery_tag[tag] = subscription
        return subscription, f"{consumer_tag}@@{self._session}@@{tag}"

    def claim(self, frame: Frame, names_it: str) -> Claim:
        """Take the delivery tags that an ACK or NACK settles. ``names_it`` is the header with the message ID; the
        headers of other versions are accepted too."""
        name = frame.get(names_it, "id", "message-id")
        if name is None:
            raise StompError("Missing header", f'"{frame.command}" must include the "{names_it}" header')
        consumer_tag, session, number = ("", "", *name.rsplit("@@", 2))[-3:]
        if not (consumer_tag and number.isascii() and number.isdigit() and len(number) < 19):
            raise StompError("Invalid header", f'"{frame.command}" must include a valid "{names_it}" header')
        tag = int(number)
        subscription = self._by_delivery_tag.get(tag) if session == self._session else None
        if subscription is None:
            if session == self._session and consumer_tag in self._subscriptions:
                raise StompError("precondition_failed", f"PRECONDITION_FAILED - unknown delivery tag {tag}")
            raise StompError("Subscription not found", f'Message with id "{name[:256]}" has no subscription')
        tags = [tag]
        if subscription.mode == "client":
            tags = []
            for each in subscription.unacked:
                if each > tag:
                    break
                tags.append(each)
        for each in tags:
            del subscription.unacked[each], self._by_delivery_tag[each]
        return subscription, tags

    def restore(self, claims: list[Claim]) -> None:
        """The transaction was aborted: its messages are unacknowledged again. Each subscription is sorted once, however
        many claims there are, and only where an ACK depends on the order."""
        for subscription, tags in claims:
            subscription.unacked.update(dict.fromkeys(tags))
            self._by_delivery_tag.update(dict.fromkeys(tags, subscription))
        for subscription in {id(each): each for each, _ in claims}.values():
            if subscription.mode == "client":
                subscription.unacked = dict.fromkeys(sorted(subscription.unacked))


def _names(frame: Frame) -> tuple[str, str]:
    """The consumer tag, as RabbitMQ's plugin forms it, and the id, empty if there is none."""
    id_, destination = frame.get("id") or "", frame.get("destination")
    if not id_ and not destination:
        text = f"{frame.command} must include a 'destination' or 'id' header"
        raise StompError("Missing destination or id", text)
    tag = f"T_{id_}" if id_ else f"Q_{destination}"
    if is_too_long(tag):
        raise StompError("Invalid header", f"{frame.command} has an id of more than 250 bytes")
    return tag, id_


def _is_durable(frame: Frame) -> bool:
    durable = frame.flag("durable") or frame.flag("persistent")
    if durable and not frame.get("id"):
        raise StompError("Missing Header", "Header 'id' is required for durable subscriptions")
    return durable


def _of_queues(arguments: Table) -> list[str]:
    return [name for name in arguments if name not in OF_CONSUMERS and name != QUEUE_NAME]


def _subscription_queue(destination: str, id_: str | None) -> str:
    """With an id always the same name, else a unique one."""
    if id_ is None:
        return f"stomp-subscription-{secrets.token_urlsafe(16)}"
    digest = hashlib.sha256(f"{destination}\0{id_}".encode()).digest()[:16]
    return f"stomp-subscription-{urlsafe_b64encode(digest).decode().rstrip('=')}"
