"""The bindings that methods of a channel name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.routing.bindings import Binding, Destination
from leveret.wire.methods import ExchangeBind, ExchangeUnbind, QueueBind, QueueUnbind

if TYPE_CHECKING:
    from leveret.session.channel import Channel


def exchange_binding(method: ExchangeBind | ExchangeUnbind) -> Binding:
    return Binding(method.source, Destination("exchange", method.destination), method.routing_key, method.arguments)


def queue_binding(channel: Channel, method: QueueBind | QueueUnbind) -> Binding:
    name = channel.named_queue(method.queue)
    key = method.routing_key
    if not key and not method.queue:
        key = name  # shorthand for the last declared queue, bound by its name
    return Binding(method.exchange, Destination("queue", name), key, method.arguments)
