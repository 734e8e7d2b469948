"""AMQP methods that declare, bind, purge and delete exchanges and queues, by broker/caller.py."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from leveret.errors import NotFound
from leveret.queues.declared_queue import DeclaredQueue, HomeRequests
from leveret.queues.direct_reply import REPLY_TO
from leveret.routing.bindings import Binding
from leveret.session.declaration_bindings import exchange_binding, queue_binding
from leveret.session.home_requests import ask_home
from leveret.wire.methods import (
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
)

if TYPE_CHECKING:
    from leveret.session.channel import Channel

LINE_BREAKS = str.maketrans("", "", "\r\n")
NAMES: dict[tuple[int, int], tuple[str, ...]] = {  # fields from which RabbitMQ removes line breaks
    **dict.fromkeys((ExchangeDeclare.id, ExchangeDelete.id), ("exchange",)),
    **dict.fromkeys((ExchangeBind.id, ExchangeUnbind.id), ("destination", "source")),
    **dict.fromkeys((QueueDeclare.id, QueueDelete.id), ("queue",)),
    **dict.fromkeys((QueueBind.id, QueueUnbind.id), ("queue", "exchange")),
}


def remove_line_breaks(method: Method) -> None:
    """Other methods (basic.publish, consume, get, queue.purge) use names unchanged, as in RabbitMQ."""
    for field in NAMES.get(method.id, ()):
        setattr(method, field, getattr(method, field).translate(LINE_BREAKS))


def _known_safe(channel: Channel, durable: bool) -> int:
    """The reply waits for everything that is written to the log after this receipt.

    A durable object that exists already may have been declared a moment ago and not be on disk yet: the reply to a
    second declaration waits for it too.
    """
    broker = channel.connection.broker
    return broker.last_granted if durable else broker.log.issued


def _declare_exchange(channel: Channel, method: ExchangeDeclare) -> None:
    issued = _known_safe(channel, method.durable)
    if method.passive:
        channel.caller.existing_exchange(method.exchange)
    else:
        channel.caller.declare_exchange(
            method.exchange,
            method.type,
            durable=method.durable,
            auto_delete=method.auto_delete,
            internal=method.internal,
            arguments=method.arguments,
        )
    channel.reply_to(method, ExchangeDeclareOk(), issued)


def _delete_exchange(channel: Channel, method: ExchangeDelete) -> None:
    issued = channel.connection.broker.log.issued
    channel.caller.delete_exchange(method.exchange, if_unused=method.if_unused)
    channel.reply_to(method, ExchangeDeleteOk(), issued)


def _bind_exchange(channel: Channel, method: ExchangeBind) -> None:
    channel.reply_to(method, ExchangeBindOk(), _bind(channel, exchange_binding(method)))


def _bind(channel: Channel, binding: Binding) -> int:
    """The reply waits for everything that is written to the log after the returned receipt."""
    issued = channel.connection.broker.log.issued
    return issued if channel.caller.bind(binding) else _known_safe(channel, channel.vhost.lasts(binding))


def _unbind_exchange(channel: Channel, method: ExchangeUnbind) -> None:
    issued = channel.connection.broker.log.issued
    channel.caller.unbind(exchange_binding(method))
    channel.reply_to(method, ExchangeUnbindOk(), issued)


def _declare_queue(channel: Channel, method: QueueDeclare) -> None:
    issued = _known_safe(channel, method.durable and not method.exclusive)
    pool = channel.caller.access.pool(method.queue)
    if method.queue.startswith(REPLY_TO):
        _declare_replies(channel, method)
        return
    if pool is not None or method.passive:
        # Declaring a pool succeeds whatever the arguments: the reply counts the messages of its first queue.
        name = channel.named_queue(method.queue) if pool is None else pool.first().name
        queue = channel.caller.queue_to("look at queue", name)
        queue.note_use()
    else:
        queue = channel.caller.declare_queue(
            method.queue,
            durable=method.durable,
            exclusive=method.exclusive,
            auto_delete=method.auto_delete,
            arguments=method.arguments,
        )
    channel.last_queue = queue.name
    channel.vhost.settle_down(queue)
    name = queue.name if pool is None else method.queue  # some clients compare it with the declared name
    if queue.home is not None and not method.nowait:
        ask_home(
            channel,
            method,
            queue.home.count,
            lambda counts: channel.reply_to(method, QueueDeclareOk(name, *counts), issued),
        )
        return
    channel.reply_to(method, QueueDeclareOk(name, queue.ready, len(queue.consumers)), issued)


def _declare_replies(channel: Channel, method: QueueDeclare) -> None:
    """A responder may check in this way whether the requester is still connected."""
    vhost, name = channel.vhost, method.queue
    if name == REPLY_TO or name in vhost.reply_queues:
        channel.reply_to(method, QueueDeclareOk(name, 0, 1))
    elif (remote := vhost.remote_reply_queue(name)) is not None:
        ask_home(channel, method, remote.look_up, lambda _: channel.reply_to(method, QueueDeclareOk(name, 0, 1)))
    else:
        raise NotFound(f"no queue '{name}' in vhost '{vhost.name}'")


def _delete_queue(channel: Channel, method: QueueDelete) -> None:
    issued = channel.connection.broker.log.issued
    name = channel.named_queue(method.queue)
    queue = channel.vhost.queues.get(name)
    if queue is not None and queue.home is not None:
        _delete_remote(channel, method, queue, queue.home)
        return
    # As in RabbitMQ, delete-ok precedes the cancel: py-amqp raises ConsumerCancelled from delete() otherwise.
    cancelled = channel.held_cancels = []
    try:
        number = channel.caller.delete_queue(name, if_unused=method.if_unused, if_empty=method.if_empty)
    finally:
        channel.held_cancels = None
    channel.reply_to(method, QueueDeleteOk(number), issued)
    for tag in cancelled:
        channel.cancelled(tag)


def _delete_remote(channel: Channel, method: QueueDelete, queue: DeclaredQueue, home: HomeRequests) -> None:
    channel.caller.access.check("delete queue", queue.name)

    def deleted(number: int) -> None:
        channel.vhost.remove_queue(queue)  # the home cell has reported it, but maybe not yet to this one
        channel.reply_to(method, QueueDeleteOk(number))

    ask_home(channel, method, partial(home.delete, method.if_unused, method.if_empty), deleted)


def _purge_queue(channel: Channel, method: QueuePurge) -> None:
    issued = channel.connection.broker.log.issued
    name = channel.named_queue(method.queue)
    home = channel.caller.queue_to("purge", name).home
    if home is not None:
        ask_home(channel, method, home.purge, lambda number: channel.reply_to(method, QueuePurgeOk(number)))
        return
    number = channel.caller.purge_queue(name)
    channel.reply_to(method, QueuePurgeOk(number), issued)


def _bind_queue(channel: Channel, method: QueueBind) -> None:
    channel.reply_to(method, QueueBindOk(), _bind(channel, queue_binding(channel, method)))


def _unbind_queue(channel: Channel, method: QueueUnbind) -> None:
    issued = channel.connection.broker.log.issued
    channel.caller.unbind(queue_binding(channel, method))
    channel.answer(QueueUnbindOk(), issued)


HANDLERS: dict[tuple[int, int], Callable[..., None]] = {
    ExchangeDeclare.id: _declare_exchange,
    ExchangeDelete.id: _delete_exchange,
    ExchangeBind.id: _bind_exchange,
    ExchangeUnbind.id: _unbind_exchange,
    QueueDeclare.id: _declare_queue,
    QueueDelete.id: _delete_queue,
    QueuePurge.id: _purge_queue,
    QueueBind.id: _bind_queue,
    QueueUnbind.id: _unbind_queue,
}
