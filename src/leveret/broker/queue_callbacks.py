"""The calls of the queues of a virtual host to the broker."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING

from leveret.broker.memory_users import Footprint
from leveret.errors import ResourceFault
from leveret.logs import get_log
from leveret.queues.context import QueueCallbacks
from leveret.queues.declared_queue import DeclaredQueue
from leveret.queues.duplicates import DeduplicationLog

if TYPE_CHECKING:
    from leveret.broker.broker import Broker


class BrokerCallbacks(QueueCallbacks):
    def __init__(self, broker: Broker, footprint: Footprint) -> None:
        self._broker = broker
        self._footprint = footprint  # of the virtual host

    def count_memory(self, size: int) -> None:
        self._footprint.count(size)

    def delete_unused(self, queue: DeclaredQueue) -> None:
        broker = self._broker
        if (broker.is_stopping and queue.stored) or queue.vhost not in broker.vhosts:
            return
        try:
            broker.vhosts[queue.vhost].remove_queue(queue)
        except ResourceFault as refusal:  # no client waits for an answer: the queue stays
            get_log("broker").warning("queue cannot be deleted", queue=queue.name, reason=refusal.text)

    def drop_leases(self, queue: DeclaredQueue) -> None:
        self._broker.leases.forget(queue)

    def open_trace(self, queue: DeclaredQueue) -> DeduplicationLog | None:
        return self._broker.vhosts[queue.vhost].internal.trace(queue)

    def when_granted(self, call: Callable[[], None]) -> None:
        self._broker.when_granted(call)

    def set_alarm(self, name: str, reason: str | None) -> None:
        self._broker.set_alarm(name, reason)

    def random(self) -> float:
        return secrets.randbelow(1 << 24) / (1 << 24)
