"""The source of a consumer: a queue, or a subscription to a topic, which has a queue of its own.

A subscription that is not durable has an exclusive queue, which is deleted with its consumer or connection. It is not
auto-delete: a consumer with prefetch 0 consumes again for each message.

A durable subscription has a durable queue named after client ID and subscription. Subscribing again with another topic,
selector or noLocal replaces the subscription, as JMS requires. But AMQP cannot list the bindings of a queue. So each
durable queue has a *marker*: an exchange whose name contains a digest of the terms of the subscription. It routes
nothing. It is auto-delete and bound to the queue, so it is deleted with the queue. Without this marker, the
subscription is new or has changed.

If the broker supports it, a selector and noLocal are conditions of the binding: messages that do not match are not
stored. Otherwise the client filters (``Source.matches``), and deletes the stored copy by an ack of type UNMATCHED.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256

from leveret.client.jms.destinations import Destination, Topic
from leveret.client.jms.errors import IllegalState, InvalidDestination, InvalidSelector
from leveret.client.jms.messages import ORIGIN_HEADER
from leveret.client.jms.registrar import Registrar
from leveret.client.messages import Delivery
from leveret.delivery.selector import X_SELECTOR, Selector, compile_selector, selectable
from leveret.errors import NotFound, PreconditionFailed
from leveret.wire.fields import Table


@dataclass(slots=True)
class Source:
    """A queue to consume from, and how."""

    queue: str
    destination: Destination  # of the application
    arguments: Table = field(default_factory=dict)  # of basic.consume
    exclusive: bool = False
    selector: Selector | None = None  # applied by the client
    without_origin: str = ""  # whose messages the client filters out
    registrar: Registrar | None = None  # of a subscription
    is_durable: bool = False

    @property
    def filters(self) -> bool:
        """Whether the client filters messages."""
        return self.selector is not None or bool(self.without_origin)

    def matches(self, delivery: Delivery) -> bool:
        if self.without_origin and delivery.headers.get(ORIGIN_HEADER) == self.without_origin:
            return False
        return self.selector is None or self.selector.matches(selectable(delivery.properties))

    async def close(self) -> None:
        """Ends a subscription that is not durable."""
        self.release()
        registrar = self.registrar
        if registrar is not None and not self.is_durable and not registrar.connection.is_closed:
            async with registrar.channel() as channel:
                await channel.delete_queue(self.queue)

    def release(self) -> None:
        """Allow another consumer of a durable subscription."""
        if self.registrar is not None and self.is_durable:
            self.registrar.release(self.queue)


async def open_source(
    registrar: Registrar,
    destination: Destination,
    *,
    selector: str = "",
    no_local: bool = False,
    subscription: str = "",
) -> Source:
    """``subscription``: the name of a durable subscription to a topic."""
    registrar.refuse_foreign(destination)
    compiled = compiled_selector(selector)
    if isinstance(destination, Topic):
        local = no_local or destination.is_without_local
        source = await _subscribed(registrar, destination, compiled, without_local=local, name=subscription)
    elif subscription:
        raise InvalidDestination(f"'{destination.name}' is not a topic: only topics have durable subscriptions")
    elif no_local or destination.is_without_local:
        raise InvalidDestination(f"'{destination.name}' is not a topic: noLocal needs a topic; use a selector")
    else:
        await registrar.prepare(destination)
        source = _queue_source(registrar, destination, compiled)
    if destination.consumer_priority is not None:
        source.arguments["x-priority"] = destination.consumer_priority
    source.exclusive = source.exclusive or destination.is_exclusive
    try:
        await registrar.refuse_unusable(source.queue, is_for_one=source.exclusive)
    except BaseException:
        source.release()
        raise
    return source


async def unsubscribe(registrar: Registrar, name: str) -> None:
    """Ends a durable subscription, and deletes the messages stored for it."""
    queue = durable_queue(registrar, name)
    try:
        async with registrar.channel() as channel:
            await channel.declare_queue(queue, passive=True)
    except NotFound:
        raise InvalidDestination(
            f"client '{registrar.client_id}' has no durable subscription '{name}' to end"
        ) from None
    if registrar.is_claimed(queue):
        raise _in_use(registrar, name)
    await _delete_unused(registrar, queue, name)


def durable_queue(registrar: Registrar, name: str) -> str:
    if not registrar.client_id:
        raise IllegalState(f"durable subscription '{name}' needs a client id: give the factory or the connection one")
    if ":" in registrar.client_id:
        raise IllegalState(
            f"client id '{registrar.client_id}' has a colon, the separator before the subscription name: remove it"
        )
    return Destination.exactly(f"subscription:{registrar.client_id}:{name}").name


def compiled_selector(selector: str) -> Selector | None:
    if not selector.strip():
        return None
    try:
        return compile_selector(selector)
    except PreconditionFailed as refusal:
        raise InvalidSelector(f"selector {selector!r} cannot be read: {refusal}") from None


def _queue_source(registrar: Registrar, queue: Destination, selector: Selector | None) -> Source:
    if selector is None:
        return Source(queue.name, queue)
    if not registrar.broker_selects:
        raise InvalidSelector(
            f"a consumer of queue '{queue.name}' cannot have a selector: this broker does not support selectors, "
            "and other consumers need the unselected messages; select on a topic, or bind queues by routing keys"
        )
    return Source(queue.name, queue, {X_SELECTOR: selector.text})


async def _subscribed(
    registrar: Registrar, topic: Topic, selector: Selector | None, *, without_local: bool, name: str
) -> Source:
    origin = registrar.origin if without_local else ""
    binding: Table = {}
    if registrar.broker_selects and (selector is not None or origin):
        binding[X_SELECTOR] = _condition(selector, origin)
        selector, origin = None, ""
    if not name:
        queue = await registrar.subscription_queue(topic, binding)
        return Source(queue, topic, selector=selector, without_origin=origin, registrar=registrar)
    terms = (topic.key, selector.text if selector else "", str(without_local), str(binding.get(X_SELECTOR, "")))
    queue = durable_queue(registrar, name)
    registrar.claim(queue)
    try:
        await _make_durable(registrar, queue, topic, name, binding, terms)
    except BaseException:
        registrar.release(queue)
        raise
    return Source(
        queue, topic, exclusive=True, selector=selector, without_origin=origin, registrar=registrar, is_durable=True
    )


def _condition(selector: Selector | None, origin: str) -> str:
    quoted = origin.replace("'", "''")
    foreign = f'("{ORIGIN_HEADER}" IS NULL OR "{ORIGIN_HEADER}" <> \'{quoted}\')' if origin else ""
    if selector is None:
        return foreign
    return f"{foreign} AND ({selector.text})" if foreign else selector.text


async def _make_durable(
    registrar: Registrar, queue: str, topic: Topic, name: str, binding: Table, terms: tuple[str, ...]
) -> None:
    """Unless it exists with the same terms."""
    exchange = registrar.layout.topic_exchange
    marker = f"{queue[:180]}:{sha256(repr((exchange, *terms)).encode()).hexdigest()[:32]}"
    await registrar.prepare(topic)
    try:
        async with registrar.channel() as channel:
            await channel.declare_exchange(marker, "fanout", passive=True)
        return
    except NotFound:
        await _delete_unused(registrar, queue, name)
    async with registrar.channel() as channel:
        await channel.declare_queue(queue, durable=True)
        await channel.bind_queue(queue, exchange, topic.key, dict(binding))
        await channel.declare_exchange(marker, "fanout", durable=True, auto_delete=True, internal=True)
        await channel.bind_queue(queue, marker)


async def _delete_unused(registrar: Registrar, queue: str, name: str) -> None:
    try:
        async with registrar.channel() as channel:
            await channel.delete_queue(queue, if_unused=True)
    except PreconditionFailed:
        raise _in_use(registrar, name) from None


def _in_use(registrar: Registrar, name: str) -> IllegalState:
    return IllegalState(
        f"durable subscription '{name}' of client '{registrar.client_id}' has a consumer: close it before the "
        "subscription is changed or ended"
    )
