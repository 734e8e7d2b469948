"""SUBSCRIBE, MESSAGE, ACK and NACK: subscriptions are consumers of one channel.

A subscription to a queue consumes from it. One to a topic or an exchange has a queue of its own, bound there: gone with
the subscription, or kept under a name that follows from destination and id if it is durable. A selector then stands on
the binding, so that what nobody wants is never kept.

In the ack mode ``client`` an ACK speaks for all earlier messages of its subscription, not of the channel. So each
subscription knows what it owes, and every tag is settled by itself; the connection folds runs of them.
"""

from __future__ import annotations

import hashlib
import secrets
from base64 import urlsafe_b64encode
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from leveret.stomp.amqp_side import CONSUMING, AmqpSide
from leveret.stomp.destinations import QUEUE, TEMP_PREFIX, TEMP_QUEUE, Destination, parse
from leveret.stomp.frame import Frame
from leveret.stomp.known_queues import KnownQueues
from leveret.stomp.refusals import StompRefusal, is_too_long, refuse_long
from leveret.stomp.sending import arguments_of, declaration
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
OF_CONSUMERS = ("x-priority", "x-stream-offset", X_SELECTOR, "x-pull-one")  # arguments; the others are the queue's
QUEUE_NAME = "x-queue-name"
MOST_PREFETCH = 65_535
Done = Callable[[], None]


@dataclass(slots=True, eq=False)
class Subscription:
    tag: str  # of the consumer
    id: str  # as MESSAGE names it; empty if its destination alone does
    queue: str
    mode: str
    durable: bool
    owed: dict[int, None] = field(default_factory=dict)  # tags that wait for an ack, in order


Claim = tuple[Subscription, list[int]]  # delivery tags


class Subscribing:
    __slots__ = ("_amqp", "_known", "_leaving", "_owed", "_session", "_subscriptions")

    def __init__(self, amqp: AmqpSide, known: KnownQueues, session: str) -> None:
        self._amqp = amqp
        self._known = known
        self._session = session
        self._subscriptions: dict[str, Subscription] = {}  # by tag
        self._leaving: dict[str, deque[Subscription]] = {}  # by tag: UNSUBSCRIBE is said and not answered
        self._owed: dict[int, Subscription] = {}

    # ---- coming and going

    def subscribe(self, frame: Frame, done: Done) -> None:
        text = frame.need("destination")
        destination = parse(text)
        if destination.kind == TEMP_QUEUE:
            text = f"{text[:256]!r} is not a valid destination for 'SUBSCRIBE'"
            raise StompRefusal("Invalid destination", f"{text}\nIt is for reply-to only, and needs no SUBSCRIBE")
        mode = frame.get("ack") or "auto"
        if mode not in ACK_MODES:
            raise StompRefusal("Invalid header", f"SUBSCRIBE has ack:{mode[:64]}, expected {', '.join(ACK_MODES)}")
        tag, id_ = _names(frame)
        if id_.startswith(TEMP_PREFIX):
            raise StompRefusal("Invalid id", f"SUBSCRIBE 'id' may not start with {TEMP_PREFIX}")
        self._refuse_duplicate(tag)
        durable = _is_durable(frame)
        queue = self._queue_of(frame, destination, text, durable and not destination.is_queue)
        made = Subscription(tag, id_, queue, mode, durable and not destination.is_queue)
        self._subscriptions[tag] = made
        self._consume(frame, destination, made, done)

    def _refuse_duplicate(self, tag: str) -> None:
        if tag in self._subscriptions:
            text = f"A subscription identified by '{tag}' already exists."
            raise StompRefusal("Duplicated subscription identifier", text, ending="")

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
            exclusive=frame.flag("exclusive", default=not durable and not given),  # who knows its name may share it
            auto_delete=frame.flag("auto-delete", default=not durable),
            arguments={name: arguments[name] for name in _of_queues(arguments)},
        )
        amqp.ask(CONSUMING, declare, QueueDeclareOk)
        selector = frame.get("selector", X_SELECTOR)
        bind = QueueBind(queue, destination.exchange, destination.key)
        if selector:
            bind.arguments = {X_SELECTOR: selector}
        amqp.ask(CONSUMING, bind, QueueBindOk)
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
        self._amqp.ask(CONSUMING, BasicQos(prefetch_count=prefetch), BasicQosOk)
        consume = BasicConsume(
            made.queue,
            made.tag,
            no_ack=made.mode == "auto",
            exclusive=frame.flag("activemq.exclusive"),
            arguments=arguments,
        )
        self._amqp.ask(CONSUMING, consume, BasicConsumeOk, done)

    def open_temporary(self, destination: str) -> str:
        """A queue for answers, whose messages come by themselves; its name."""
        queue = f"stomp-temp-{secrets.token_urlsafe(16)}"
        tag = f"T_{destination}"
        refuse_long("SEND has a reply-to that makes a subscription", tag)
        self._refuse_duplicate(tag)
        self._subscriptions[tag] = Subscription(tag, destination, queue, "auto", durable=False)
        ask = self._amqp.ask
        ask(CONSUMING, QueueDeclare(queue, exclusive=True, auto_delete=True), QueueDeclareOk)
        ask(CONSUMING, BasicConsume(queue, tag, no_ack=True), BasicConsumeOk)
        return queue

    def unsubscribe(self, frame: Frame, done: Done) -> str:
        """The queue it consumed from. What it owes may still be settled."""
        tag, id_ = _names(frame)
        ends = _is_durable(frame)
        gone = self._subscriptions.pop(tag, None)
        if gone is None:
            text = f"UNSUBSCRIBE must refer to an existing subscription.\nThere is no {id_ or tag!r}."
            raise StompRefusal("No subscription found", text)
        self._leaving.setdefault(tag, deque()).append(gone)

        def left() -> None:
            self._leaving[tag].popleft()
            if not self._leaving[tag]:
                del self._leaving[tag]
            if not is_deleted:
                done()

        is_deleted = ends and gone.durable
        self._amqp.ask(CONSUMING, BasicCancel(tag), BasicCancelOk, left)
        if is_deleted:
            self._amqp.ask(CONSUMING, QueueDelete(gone.queue), QueueDeleteOk, done)
        return gone.queue

    def cancelled(self, tag: str) -> Subscription | None:
        """By the broker: its queue is gone."""
        return None if tag in self._leaving else self._subscriptions.pop(tag, None)

    # ---- messages

    def hand_out(self, consumer_tag: str, tag: int) -> tuple[Subscription, str]:
        """Whose a delivery is, and the name by which it is acked. What was on its way when its subscription ended is
        still its own, though another may have taken the name."""
        leaving = self._leaving.get(consumer_tag)
        subscription = leaving[0] if leaving else self._subscriptions[consumer_tag]
        if subscription.mode != "auto":
            subscription.owed[tag] = None
            self._owed[tag] = subscription
        return subscription, f"{consumer_tag}@@{self._session}@@{tag}"

    def claim(self, frame: Frame, names_it: str) -> Claim:
        """The delivery tags that an ACK or NACK speaks for; they are not owed any more. ``names_it`` is the header that
        names the message; the one of other versions does too."""
        name = frame.get(names_it, "id", "message-id")
        if name is None:
            raise StompRefusal("Missing header", f'"{frame.command}" must include the "{names_it}" header')
        consumer_tag, session, number = ("", "", *name.rsplit("@@", 2))[-3:]
        if not (consumer_tag and number.isascii() and number.isdigit() and len(number) < 19):
            raise StompRefusal("Invalid header", f'"{frame.command}" must include a valid "{names_it}" header')
        tag = int(number)
        subscription = self._owed.get(tag) if session == self._session else None
        if subscription is None:
            if session == self._session and consumer_tag in self._subscriptions:
                raise StompRefusal("precondition_failed", f"PRECONDITION_FAILED - unknown delivery tag {tag}")
            raise StompRefusal("Subscription not found", f'Message with id "{name[:256]}" has no subscription')
        tags = [tag]
        if subscription.mode == "client":
            tags = []
            for each in subscription.owed:
                if each > tag:
                    break
                tags.append(each)
        for each in tags:
            del subscription.owed[each], self._owed[each]
        return subscription, tags

    def give_back(self, claims: list[Claim]) -> None:
        """They were made by a transaction that is not to be: all of it is owed again. Each subscription is put in order
        once, however many claims there are, and only where an ACK goes by the order."""
        for subscription, tags in claims:
            subscription.owed.update(dict.fromkeys(tags))
            self._owed.update(dict.fromkeys(tags, subscription))
        for subscription in {id(each): each for each, _ in claims}.values():
            if subscription.mode == "client":
                subscription.owed = dict.fromkeys(sorted(subscription.owed))


def _names(frame: Frame) -> tuple[str, str]:
    """The consumer's tag, as the plugin of RabbitMQ forms it, and the id, empty if there is none."""
    id_, destination = frame.get("id") or "", frame.get("destination")
    if not id_ and not destination:
        text = f"{frame.command} must include a 'destination' or 'id' header"
        raise StompRefusal("Missing destination or id", text)
    tag = f"T_{id_}" if id_ else f"Q_{destination}"
    if is_too_long(tag):
        raise StompRefusal("Invalid header", f"{frame.command} has an id of more than 250 bytes")
    return tag, id_


def _is_durable(frame: Frame) -> bool:
    durable = frame.flag("durable") or frame.flag("persistent")
    if durable and not frame.get("id"):
        raise StompRefusal("Missing Header", "Header 'id' is required for durable subscriptions")
    return durable


def _of_queues(arguments: Table) -> list[str]:
    return [name for name in arguments if name not in OF_CONSUMERS and name != QUEUE_NAME]


def _subscription_queue(destination: str, id_: str | None) -> str:
    """With an id the same for ever, else one of its own."""
    if id_ is None:
        return f"stomp-subscription-{secrets.token_urlsafe(16)}"
    digest = hashlib.sha256(f"{destination}\0{id_}".encode()).digest()[:16]
    return f"stomp-subscription-{urlsafe_b64encode(digest).decode().rstrip('=')}"
