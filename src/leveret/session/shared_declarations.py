"""Methods that change definitions, in a cell whose definitions the first cell changes.

The change is requested there. When this cell has it too, the method is handled as usual, and finds that there is
nothing left to do: the queue exists, the binding exists. Permissions are checked before the request.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from leveret.broker.cells import Answered, SharedChanges
from leveret.broker.equivalence import refuse_reserved
from leveret.broker.permission_rules import GENERATED_NAME
from leveret.broker.vhost import MADE_UP
from leveret.broker.vhost_metadata import with_queue_type
from leveret.errors import AccessRefused
from leveret.queues.direct_reply import REPLY_TO
from leveret.routing.bindings import Binding
from leveret.session.declaration_bindings import exchange_binding, queue_binding
from leveret.session.home_requests import ask_home
from leveret.wire.methods import (
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueUnbind,
)

if TYPE_CHECKING:
    from leveret.session.channel import Channel, Handler

Ask = Callable[[Answered], None]


def change_first(channel: Channel, method: Method, handler: Handler) -> bool:
    """Whether the method needs a change in the first cell; it is handled after that."""
    changes, prepare = channel.vhost.cells.changes, PREPARATIONS.get(method.id)
    assert changes is not None
    ask = None if prepare is None else prepare(channel, changes, method)
    if ask is None:
        return False
    ask_home(channel, method, ask, lambda _: handler(channel, method))
    return True


def _declare_exchange(channel: Channel, changes: SharedChanges, method: ExchangeDeclare) -> Ask | None:
    vhost = channel.vhost
    current = vhost.exchanges.get(method.exchange)
    if method.passive or (current is not None and not current.auto_delete):  # else the first cell may just delete it
        return None
    channel.caller.access.check("declare exchange", method.exchange, arguments=method.arguments)
    if not method.exchange:
        raise AccessRefused("operation not permitted on the default exchange")
    wanted = vhost.types.make(
        method.type, method.exchange, method.durable, method.auto_delete, method.internal, method.arguments
    )
    return partial(changes.declare_exchange, vhost.name, wanted)


def _delete_exchange(channel: Channel, changes: SharedChanges, method: ExchangeDelete) -> Ask | None:
    if method.exchange not in channel.vhost.exchanges:
        return None
    channel.caller.access.check("delete exchange", method.exchange)
    return partial(changes.delete_exchange, channel.vhost.name, method.exchange, method.if_unused)


def _declare_queue(channel: Channel, changes: SharedChanges, method: QueueDeclare) -> Ask | None:
    vhost, access = channel.vhost, channel.caller.access
    if method.passive or method.queue in vhost.queues or access.pool(method.queue) is not None:
        return None
    if method.queue.startswith(REPLY_TO):
        return None
    access.check("declare queue", method.queue or GENERATED_NAME, arguments=method.arguments)
    if method.queue:
        refuse_reserved(method.queue, "queue", vhost.name)  # the first cell cannot tell a generated name from another
    is_bound_to_client = method.exclusive or method.auto_delete
    arguments = with_queue_type(
        vhost, method.queue, method.arguments, durable=method.durable, is_bound_to_client=is_bound_to_client
    )
    name = method.queue or f"{MADE_UP}{secrets.token_urlsafe(16)}"

    def ask(answered: Answered) -> None:
        method.queue, method.passive = name, True  # for the handler: the declaration was checked by the first cell
        changes.declare_queue(
            vhost.name,
            name,
            durable=method.durable,
            auto_delete=method.auto_delete,
            owner=channel.connection.name if method.exclusive else "",
            arguments=arguments,
            answered=answered,
        )

    return ask


def _bind_queue(channel: Channel, changes: SharedChanges, method: QueueBind) -> Ask | None:
    return _bind(channel, changes, queue_binding(channel, method))


def _bind_exchange(channel: Channel, changes: SharedChanges, method: ExchangeBind) -> Ask | None:
    return _bind(channel, changes, exchange_binding(method))


def _bind(channel: Channel, changes: SharedChanges, binding: Binding) -> Ask | None:
    channel.caller.check_binding(binding)
    if binding in channel.vhost.bindings:
        return None
    return partial(changes.bind, channel.vhost.name, binding)


def _unbind_queue(channel: Channel, changes: SharedChanges, method: QueueUnbind) -> Ask | None:
    return _unbind(channel, changes, queue_binding(channel, method))


def _unbind_exchange(channel: Channel, changes: SharedChanges, method: ExchangeUnbind) -> Ask | None:
    return _unbind(channel, changes, exchange_binding(method))


def _unbind(channel: Channel, changes: SharedChanges, binding: Binding) -> Ask | None:
    channel.caller.check_unbinding(binding)
    if binding not in channel.vhost.bindings:
        return None
    return partial(changes.unbind, channel.vhost.name, binding)


PREPARATIONS: dict[tuple[int, int], Callable[[Channel, SharedChanges, Any], Ask | None]] = {
    ExchangeDeclare.id: _declare_exchange,
    ExchangeDelete.id: _delete_exchange,
    ExchangeBind.id: _bind_exchange,
    ExchangeUnbind.id: _unbind_exchange,
    QueueDeclare.id: _declare_queue,
    QueueBind.id: _bind_queue,
    QueueUnbind.id: _unbind_queue,
}
