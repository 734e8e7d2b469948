"""SUBSCRIBE, ACK and NACK: subscriptions are consumers of one channel.

A subscription to a queue consumes from it. A subscription to a topic or an exchange has a queue of its own, bound to
it: deleted with the subscription, or kept under a name derived from destination and id if it is durable. A selector is
then an argument of the binding, so that messages that do not match are not stored.

In the ack mode ``client``, an ACK acknowledges all earlier messages of its subscription, not of the channel. So each
subscription keeps its unacknowledged delivery tags.
"""

from __future__ import annotations

import hashlib
import secrets
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from itertools import takewhile

from leveret.session.direct_channel import DirectChannel
from leveret.stomp.declarations import KnownQueues, arguments_of, declaration
from leveret.stomp.destinations import QUEUE, TEMP_PREFIX, TEMP_QUEUE, Destination, parse
from leveret.stomp.errors import StompError, is_too_long, refuse_long
from leveret.stomp.frame import Frame
from leveret.wire.fields import Table

ACK_MODES = ("auto", "client", "client-individual")
X_SELECTOR = "x-selector"
OF_CONSUMERS = ("x-priority", "x-stream-offset", X_SELECTOR, "x-pull-one", "x-shard-all")  # the others are of queues
QUEUE_NAME = "x-queue-name"
NOT_OF_QUEUES = (*OF_CONSUMERS, QUEUE_NAME)
MOST_PREFETCH = 65_535


@dataclass(slots=True, eq=False)
class Subscription:
    tag: str  # of the consumer
    id: str  # header subscription of MESSAGE; empty if SUBSCRIBE had none
    queue: str
    mode: str
    durable: bool
    unacked: dict[int, None] = field(default_factory=dict)  # delivery tags, in order
    is_leaving: bool = False  # by UNSUBSCRIBE


Claim = tuple[Subscription, list[int]]  # delivery tags


class Subscriptions:
    __slots__ = ("_by_delivery_tag", "_channel", "_known", "_named_by", "_session", "_subscriptions")

    def __init__(self, channel: DirectChannel, known: KnownQueues, session: str, version: str) -> None:
        self._channel = channel
        self._known = known
        self._session = session
        self._named_by = "id" if version == "1.2" else "message-id"  # the header of ACK and NACK with the message ID
        self._subscriptions: dict[str, Subscription] = {}  # by tag
        self._by_delivery_tag: dict[int, Subscription] = {}

    # ---- SUBSCRIBE and UNSUBSCRIBE

    def subscribe(self, frame: Frame, receipt: bytes) -> None:
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
        if tag in self._subscriptions:
            text = f"A subscription identified by '{tag}' already exists."
            raise StompError("Duplicated subscription identifier", text, ending="")
        durable = _is_durable(frame)
        queue = self._queue_of(frame, destination, text, durable and not destination.is_queue)
        made = Subscription(tag, id_, queue, mode, durable and not destination.is_queue)
        self._subscriptions[tag] = made
        self._consume(frame, destination, made, receipt)

    def _queue_of(self, frame: Frame, destination: Destination, text: str, durable: bool) -> str:
        arguments = {name: value for name, value in arguments_of(frame).items() if name not in NOT_OF_QUEUES}
        if destination.is_queue:
            if destination.kind == QUEUE and destination.name not in self._known:
                self._known.declare(self._channel, declaration(frame, destination.name, arguments))
            return destination.name
        given = frame.get(QUEUE_NAME)
        refuse_long(f"SUBSCRIBE has an {QUEUE_NAME}", given or "")
        queue = given or _subscription_queue(text, frame.need("id") if durable else None)
        exclusive = frame.flag("exclusive", default=not durable and not given)  # one with a given name may be shared
        auto_delete = frame.flag("auto-delete", default=not durable)
        self._channel.declare_queue(queue, durable, exclusive, auto_delete, arguments)
        selector = frame.get("selector", X_SELECTOR)
        self._channel.bind_queue(
            queue, destination.exchange, destination.key, {X_SELECTOR: selector} if selector else {}
        )
        return queue

    def _consume(self, frame: Frame, destination: Destination, made: Subscription, receipt: bytes) -> None:
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
        self._channel.set_prefetch(prefetch)
        is_exclusive = frame.flag("activemq.exclusive")
        no_ack = made.mode == "auto"
        self._channel.consume(
            made.queue, made.tag, no_ack=no_ack, exclusive=is_exclusive, arguments=arguments, reply=receipt
        )

    def temporary_queue(self, destination: str) -> str:
        """The queue for replies to /temp-queue/name, declared and consumed from when it is first used."""
        parse(destination)
        tag = f"T_{destination}"
        refuse_long("SEND has a reply-to that makes a subscription", tag)
        found = self._subscriptions.get(tag)
        if found is None:
            queue = f"stomp-temp-{secrets.token_urlsafe(16)}"
            found = self._subscriptions[tag] = Subscription(tag, destination, queue, "auto", durable=False)
            self._channel.declare_queue(queue, durable=False, exclusive=True, auto_delete=True)
            self._channel.set_prefetch(0)
            self._channel.consume(queue, tag, no_ack=True, arguments={})
        return found.queue

    def unsubscribe(self, frame: Frame, receipt: bytes) -> None:
        """End a subscription. Messages that it has received may still be acknowledged."""
        tag, id_ = _names(frame)
        ends = _is_durable(frame)
        gone = self._subscriptions.get(tag)
        if gone is None:
            text = f"UNSUBSCRIBE must refer to an existing subscription.\nThere is no {id_ or tag!r}."
            raise StompError("No subscription found", text)
        gone.is_leaving = True
        is_deleted = ends and gone.durable
        self._channel.cancel(tag, b"" if is_deleted else receipt)  # delivers what has arrived
        del self._subscriptions[tag]
        if is_deleted:
            self._channel.delete_queue(gone.queue, receipt)

    def cancelled(self, tag: str) -> Subscription | None:
        """The subscription whose queue was deleted; None if the client is ending it."""
        return None if self._subscriptions[tag].is_leaving else self._subscriptions.pop(tag)

    # ---- messages

    def delivered(self, consumer_tag: str, tag: int) -> tuple[Subscription, str]:
        """The subscription of a delivery, and the message ID to acknowledge it by."""
        subscription = self._subscriptions[consumer_tag]
        if subscription.mode != "auto":
            subscription.unacked[tag] = None
            self._by_delivery_tag[tag] = subscription
        return subscription, f"{consumer_tag}@@{self._session}@@{tag}"

    def claim(self, frame: Frame) -> Claim:
        """Take the delivery tags that an ACK or NACK settles. The headers of other versions are accepted too."""
        name = frame.get(self._named_by, "id", "message-id")
        if name is None:
            raise StompError("Missing header", f'"{frame.command}" must include the "{self._named_by}" header')
        consumer_tag, session, number = ("", "", *name.rsplit("@@", 2))[-3:]
        if not (consumer_tag and number.isascii() and number.isdigit() and len(number) < 19):
            raise StompError("Invalid header", f'"{frame.command}" must include a valid "{self._named_by}" header')
        tag = int(number)
        subscription = self._by_delivery_tag.get(tag) if session == self._session else None
        if subscription is None:
            if session == self._session and consumer_tag in self._subscriptions:
                raise StompError("precondition_failed", f"PRECONDITION_FAILED - unknown delivery tag {tag}")
            raise StompError("Subscription not found", f'Message with id "{name[:256]}" has no subscription')
        tags = [tag]
        if subscription.mode == "client":
            tags = list(takewhile(lambda each: each <= tag, subscription.unacked))
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


def _subscription_queue(destination: str, id_: str | None) -> str:
    """A name derived from destination and id, or a unique one without an id."""
    if id_ is None:
        return f"stomp-subscription-{secrets.token_urlsafe(16)}"
    digest = hashlib.sha256(f"{destination}\0{id_}".encode()).digest()[:16]
    return f"stomp-subscription-{urlsafe_b64encode(digest).decode().rstrip('=')}"
