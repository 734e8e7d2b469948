"""Pseudo-queues: clients use the name of a sharded exchange as the name of a queue, and reach a shard.

The name is replaced before permissions are checked: a user needs access to the shards, as with RabbitMQ's plugin.
Interceptors do that here, session/declarations.py does it for declares, and session/pooled_consumer.py for consumers.
"""

from __future__ import annotations

from collections.abc import Callable

from leveret.broker.access import UserAccess
from leveret.broker.broker import Broker
from leveret.broker.interceptors import InterceptContext, Interceptor
from leveret.errors import PreconditionFailed
from leveret.sharding.sharded_exchange import ShardedExchange
from leveret.wire.methods import (
    BasicGet,
    Method,
    QueueBind,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
)

REMEDIES: dict[type[Method], str] = {
    QueueBind: "bind the exchange of that name, or a queue of another name",
    QueueUnbind: "unbind its shards by their own names, or change the policy",
    QueuePurge: "purge its shards by their own names",
    QueueDelete: "delete its shards by their own names, or clear the policy",
}

Find = Callable[[str, str], ShardedExchange | None]


class PseudoQueues:
    def __init__(self, find: Find, broker: Broker) -> None:
        self._find = find
        self._broker = broker
        self._interceptors = broker.interceptors
        self._out: list[Callable[[], None]] = []

    def needed(self, is_needed: bool) -> None:
        """Register the interceptors only while there are sharded exchanges, so that they cost nothing otherwise."""
        if is_needed and not self._out:
            chosen: dict[type[Method], Interceptor] = {BasicGet: self._get, **dict.fromkeys(REMEDIES, self._refuse)}
            self._out = [self._interceptors.register(method, call, last=True) for method, call in chosen.items()]
        elif not is_needed:
            for out in self._out:
                out()
            self._out = []

    def _sharded(self, context: InterceptContext, name: str) -> ShardedExchange | None:
        """The sharded exchange of this name; also None if the user may not see it."""
        found = self._find(context.vhost, name)
        if found is None:
            return None
        broker = self._broker
        access = UserAccess(broker.permissions, broker.vhost(context.vhost), context.user)
        return found if access.pool(name) is not None else None

    def _get(self, context: InterceptContext, method: Method) -> Method:
        assert isinstance(method, BasicGet)
        sharded = self._sharded(context, method.queue)
        shard = None if sharded is None else sharded.least_consumed()
        if shard is not None:
            method.queue = shard.name
        return method

    def _refuse(self, context: InterceptContext, method: Method) -> Method:
        assert isinstance(method, QueueBind | QueueUnbind | QueuePurge | QueueDelete)
        if self._sharded(context, method.queue) is not None:
            raise PreconditionFailed(
                f"{method.NAME} is not possible on pseudo-queue '{method.queue}' in vhost '{context.vhost}', which "
                f"stands for the shards of the exchange: {REMEDIES[type(method)]}"
            )
        return method
