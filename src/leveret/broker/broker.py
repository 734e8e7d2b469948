"""The broker: all that lives on one node, without a socket or a file.  Hot path.

``turn`` is the heartbeat of the house: whoever gave the broker work (bytes from a peer, a timer, a call in the process)
wakes it, and once per turn of the loop it drains the queues that were touched and has the connections write what was
gathered for them. So a thousand publishes in one read cost one drain and one write.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from leveret.auth.permissions import Permissions
from leveret.auth.users import Users
from leveret.broker.alarms import MemoryAlarm
from leveret.broker.interceptors import Interceptors
from leveret.broker.registry import AwaitsReceipt, Outgoing, Registry
from leveret.broker.timers import Timers
from leveret.broker.vhost import Vhost
from leveret.clock import Clock
from leveret.errors import NotFound
from leveret.logs import get_log
from leveret.queues.classic import ClassicQueue
from leveret.queues.queue import Queue
from leveret.queues.surroundings import MemoryGauge, Surroundings
from leveret.routing.types import ExchangeTypes
from leveret.store.log import GRANTED, Log


class Broker:
    def __init__(
        self,
        *,
        node_name: str,
        clock: Clock,
        log: Log,
        memory_mark: int,
        resident: Callable[[], int | None] = lambda: None,
    ) -> None:
        self.node_name = node_name
        self.clock = clock
        self.timers = Timers(clock)
        self.log = log
        self.gauge = MemoryGauge()
        self.memory = MemoryAlarm(self.gauge, memory_mark, resident)
        self.users = Users()
        self.permissions = Permissions()
        self.interceptors = Interceptors()
        self.permissions.on_change = self.interceptors.on_change = self._forget_routes
        self.exchange_types = ExchangeTypes()
        self.registry = Registry()
        self.vhosts: dict[str, Vhost] = {}
        self.dirty: list[Queue] = []
        self.outgoing: list[Outgoing] = []  # those with something to write
        self.wake: Callable[[], None] = lambda: None  # asks the loop for a turn
        self.awaiting: dict[AwaitsReceipt, None] = {}  # those with confirms that hang on receipts of the log
        self.last_granted = GRANTED
        log.on_granted = self.granted
        self._ids = count(1)
        self._events = get_log("broker")

    # ---- virtual hosts

    def add_vhost(self, name: str, *, max_queues: int | None = None, max_connections: int | None = None) -> Vhost:
        if name in self.vhosts:
            return self.vhosts[name]
        surroundings = Surroundings(
            now=self.clock.now,
            schedule=self.timers.at,
            log=self.log,
            gauge=self.gauge,
            dirty=self.dirty,
        )
        vhost = Vhost(
            name,
            surroundings,
            self.exchange_types,
            lambda: next(self._ids),
            max_queues=max_queues,
            max_connections=max_connections,
        )
        surroundings.retire = lambda queue: self._retire(vhost, queue)
        self.vhosts[name] = vhost
        return vhost

    def vhost(self, name: str) -> Vhost:
        found = self.vhosts.get(name)
        if found is None:
            raise NotFound(f"no vhost '{name}'")
        return found

    def delete_vhost(self, name: str) -> None:
        """With everything in it; connections to it are closed."""
        vhost = self.vhost(name)
        for connection in list(self.registry.connections):
            if connection.vhost is vhost:
                connection.force_close(f"vhost '{name}' is deleted")
        for queue in list(vhost.queues.values()):
            vhost.remove_queue(queue)
        del self.vhosts[name]
        self.permissions.clear_vhost(name)

    def _retire(self, vhost: Vhost, queue: Queue) -> None:
        if isinstance(queue, ClassicQueue):
            vhost.remove_queue(queue)

    def _forget_routes(self) -> None:
        """Who may publish, or what a publish means, has changed: what channels remember is out of date."""
        for vhost in self.vhosts.values():
            vhost.epoch += 1

    # ---- receipts

    def granted(self, receipt: int) -> None:
        """Everything up to ``receipt`` is as durable as promised; the log says so once per batch, on the loop."""
        self.last_granted = receipt
        for waiting in list(self.awaiting):
            if not waiting.granted(receipt):
                del self.awaiting[waiting]
        if self.outgoing:
            self.wake()

    # ---- the turn

    def turn(self) -> None:
        """Deliver from touched queues, then write. What a burst limit left over is for the next turn."""
        if self.dirty:
            touched = self.dirty[:]
            self.dirty.clear()
            for queue in touched:
                try:
                    queue.drain()
                except Exception:  # noqa: BLE001 - one queue's bug must not stop the others
                    self._events.exception("bug while delivering", queue=queue.name)
        if self.outgoing:
            outgoing = self.outgoing
            self.outgoing = []
            for outbox in outgoing:
                outbox.flush()
        if self.gauge.used > self.memory.mark or self.memory.raised:
            self.check_memory()
        if self.dirty or self.outgoing:
            self.wake()

    def check_memory(self) -> None:
        if not self.memory.check():
            return
        if self.memory.raised:
            self._events.warning("memory mark passed, publishers wait", used=self.memory.used(), mark=self.memory.mark)
            for connection in list(self.registry.connections):
                if connection.publishes:
                    connection.block("memory mark passed")
        else:
            self._events.info("memory below the mark, publishers go on", used=self.memory.used())
            for connection in list(self.registry.connections):
                connection.unblock()
