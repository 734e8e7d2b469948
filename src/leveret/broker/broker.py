"""The broker: all objects of one node, without sockets and files.  Hot path.

Callers that give the broker work (input of a connection, a timer, a call in the process) call ``wake``, and ``tick``
follows once in the same iteration of the event loop: it drains the touched queues and writes the output of all
connections. So a thousand publishes in one read cost one drain and one write.

Length: everything that the objects of a broker share is created here, and a tick reads from top to bottom.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count

from leveret.auth.permissions import Permissions
from leveret.auth.users import Users
from leveret.backlog.context import Drainable, MemoryGauge
from leveret.broker.alarms import ENGINE, Events, MemoryAlarm
from leveret.broker.background import BackgroundTasks
from leveret.broker.cells import Cells
from leveret.broker.dead_letters import DeadLetters
from leveret.broker.interceptors import Interceptors
from leveret.broker.leases import LeaseBook
from leveret.broker.memory_users import Footprint, MemoryUsers
from leveret.broker.message_sizes import MessageSizes
from leveret.broker.parameters import GlobalParameters
from leveret.broker.plugins import Plugins
from leveret.broker.policies import Policies
from leveret.broker.queue_callbacks import BrokerCallbacks
from leveret.broker.registry import AwaitsReceipt, AwaitsTick, GrantCallback, Outgoing, Registry
from leveret.broker.rows import AuthRecords
from leveret.broker.timers import EventLoop, NoLoop, Timers
from leveret.broker.vhost import QueueRemoval, Vhost
from leveret.clock import Clock
from leveret.delivery.consumer_ring import BY_BROKER
from leveret.delivery.delivery_pause import DeliveryPause
from leveret.errors import NotFound
from leveret.logs import get_log
from leveret.message import NEVER
from leveret.queues.context import QueueContext, StreamWorkers
from leveret.queues.discard_counters import DiscardCounters
from leveret.routing.bounds import Bounds, RoutingWork
from leveret.routing.exchange import Exchange
from leveret.routing.types import ExchangeTypes
from leveret.store.definitions import Change, Drop, Put, VhostRow
from leveret.store.disk import Disk
from leveret.store.log import GRANTED, Log
from leveret.store.memory_disk import MemoryDisk
from leveret.store.pages import Pages
from leveret.wire.fields import Table

DRAIN_BUDGET = 0.02  # seconds of one tick for deliveries; the remaining queues are first in the next tick


class Broker:
    def __init__(
        self,
        *,
        node_name: str,
        clock: Clock,
        log: Log,
        memory_high_watermark: int,
        resident: Callable[[], int | None] = lambda: None,
        baseline: int | None = None,
        pages: Pages | None = None,
        queue_memory: int = 64 << 20,
        stream_disk: Disk | None = None,
        bounds: Bounds | None = None,
    ) -> None:
        self.node_name = node_name
        self.announced: Table = {}  # server properties for AMQP clients that the composition root adds
        self.clock = clock
        self.timers = Timers(clock)
        self.log = log
        self.pages = pages
        self.queue_memory = queue_memory
        self.stream_disk = stream_disk or MemoryDisk()
        self.stream_workers = StreamWorkers()
        self.events = Events()
        self.alarms: dict[str, str] = {}  # the raised alarms, with the reason that is sent to publishers
        self.gauge = MemoryGauge()
        if pages is not None:
            pages.listener = self
        self.memory = MemoryAlarm(self.gauge, memory_high_watermark, resident, baseline)
        self.memory_users = MemoryUsers(self.gauge, lambda: self.memory.high_watermark)
        auth_records = AuthRecords(self.record, self._forget_routes)
        self.users = Users(auth_records)
        self.permissions = Permissions(auth_records)
        self.interceptors = Interceptors(self._forget_routes)
        self.bounds = bounds or Bounds()
        self.routing_work = RoutingWork(self.bounds.steps)
        self.message_sizes, self.discards = MessageSizes(), DiscardCounters()
        self.awaiting_tick: deque[AwaitsTick] = deque()
        self.exchange_types = ExchangeTypes(secrets.randbits(64))
        self.registry = Registry()
        self.memory_users.watch("connections", self.registry.memory)
        self.vhosts: dict[str, Vhost] = {}
        self.cells = Cells()
        self.parameters = GlobalParameters(self.record)
        self.background = BackgroundTasks(self.wake, clock.work_time)
        self._under_way = self.background.under_way
        self.plugins = Plugins(self.record)
        self.policies = Policies(self.vhost, self.record, self.background, self.plugins)
        self.deliveries = DeliveryPause(clock.machine_time, self)
        self.dirty: list[Drainable] = []
        self._unsynced: dict[Drainable, None] = {}
        self.outgoing: list[Outgoing] = []  # connections with output to write
        self._loop: EventLoop = NoLoop()
        self.awaiting: dict[AwaitsReceipt, None] = {}  # wait for receipts of the log, to send confirms for example
        self.last_granted = GRANTED
        self.is_lost = False  # the store is read-only: no more receipts are granted
        log.listener = self
        self.is_stopping = False  # durable auto-delete queues are not deleted with their consumers
        self.flushed = GRANTED  # receipts up to this one were passed to the log's writer
        self._records = True
        self.leases = LeaseBook(self)
        self._ids = count(1)
        self._events = get_log("broker")

    # ---- virtual hosts

    def add_vhost(self, name: str, *, max_queues: int | None = None, max_connections: int | None = None) -> Vhost:
        if name in self.vhosts:
            return self.vhosts[name]
        footprint = Footprint(self.memory_users.definitions, name)
        context = QueueContext(
            now=self.clock.now,
            schedule=self.timers.at,
            log=self.log,
            gauge=self.gauge,
            pages=self.pages,
            queue_memory=self.queue_memory,
            wall_ahead=self.clock.wall_ahead,
            unsynced=self._unsynced,
            dirty=self.dirty,
            stream_disk=self.stream_disk,
            stream_workers=self.stream_workers,
            background=self.background,
            callbacks=BrokerCallbacks(self, footprint),
            deliveries=self.deliveries,
            discards=self.discards,
            remote_queues=self.cells.remote_queues,
        )
        vhost = Vhost(
            name,
            self,
            context,
            self.exchange_types,
            footprint,
            max_queues=max_queues,
            max_connections=max_connections,
            bounds=self.bounds,
            work=self.routing_work,
        )
        context.dead_letters = DeadLetters(vhost, self.clock)
        self.record(Put(VhostRow(name, max_queues, max_connections)))
        self.vhosts[name] = vhost
        return vhost

    def limit_vhost(self, name: str, *, max_queues: int | None, max_connections: int | None) -> None:
        vhost = self.vhost(name)
        self.record(Put(VhostRow(name, max_queues, max_connections)))
        vhost.max_queues, vhost.max_connections = max_queues, max_connections

    def vhost(self, name: str) -> Vhost:
        found = self.vhosts.get(name)
        if found is None:
            raise NotFound(f"no vhost '{name}'")
        return found

    def delete_vhost(self, name: str) -> None:
        """Delete the virtual host with everything in it, and close its connections."""
        vhost = self.vhost(name)
        vhost.policies.forget_exchanges()
        self.record(Drop(VhostRow, (name,)))
        for connection in list(self.registry.connections):
            if connection.vhost is vhost:
                connection.force_close(f"vhost '{name}' is deleted")
        self.background.begin(QueueRemoval(vhost, list(vhost.queues.values())))
        vhost.footprint.forget()
        vhost.internal.remove_all()
        del self.vhosts[name]
        self.permissions.clear_vhost(name)

    def _forget_routes(self) -> None:
        """Permissions or interceptors have changed: cached routes are out of date."""
        for vhost in self.vhosts.values():
            vhost.epoch += 1

    # ---- definitions

    def record(self, change: Change) -> None:
        """Write a change of the definitions; a reply to it waits for ``log.issued``."""
        if self._records:
            self.log.record(change)
            if self.cells.watcher is not None:
                self.cells.watcher.recorded(change)

    @contextmanager
    def unrecorded(self) -> Iterator[None]:
        """A context in which nothing is recorded, because the declared objects are on disk already."""
        self._records = self.memory_users.definitions.is_bounded = False
        try:
            yield
        finally:
            self._records = self.memory_users.definitions.is_bounded = True

    def refuse_exchange(self, exchange: Exchange, vhost: str) -> None:
        self.plugins.refuse_exchange(exchange, vhost)

    def exchange_policies_changed(self, vhost: Vhost, exchange: str, definition: Mapping[str, object]) -> None:
        self.policies.exchange_changed(vhost, exchange, definition)

    def next_id(self) -> int:
        return next(self._ids)

    def reserve_ids(self, upto: int) -> None:
        """Never use IDs up to this one again."""
        self._ids = count(max(upto + 1, next(self._ids)))

    def note_redelivered(self) -> None:
        """Before a clean shutdown: messages delivered in a previous run stay marked as redelivered."""
        for vhost in self.vhosts.values():
            for queue in vhost.every_queue():
                backlog = queue.backlog
                if queue.stored and backlog is not None and backlog.pager is not None:
                    backlog.note_redelivered()

    # ---- receipts

    def granted(self, receipt: int) -> None:
        """Everything up to ``receipt`` is as durable as promised. Called by the log once per batch, on the loop."""
        self.last_granted = receipt
        for queue in list(self._unsynced):
            queue.touch()
        self._unsynced.clear()
        for waiting in list(self.awaiting):
            if not waiting.granted(receipt):
                del self.awaiting[waiting]
        if self.outgoing or self.dirty:
            self.wake()

    @property
    def is_awaiting(self) -> bool:
        return bool(self.awaiting or self._unsynced)

    def when_granted(
        self, call: Callable[[], None], *, lost: Callable[[], None] = lambda: None, receipt: int | None = None
    ) -> None:
        """Call ``call`` when everything written so far, or up to this receipt, is as durable as promised, or ``lost``
        if it never will be."""
        wanted = self.log.issued if receipt is None else receipt
        if wanted <= self.last_granted:
            call()
        elif self.is_lost:
            lost()
        else:
            self.awaiting[GrantCallback(wanted, call, lost)] = None
            self.wake()

    def granted_early(self, receipts: set[int]) -> None:
        """Messages of these receipts were settled before they had to be on disk."""
        for waiting in list(self.awaiting):
            waiting.granted_early(receipts)

    def lost(self) -> None:
        """The log has failed: receipts that are not granted yet never will be."""
        self.is_lost = True
        for waiting in list(self.awaiting):
            waiting.lost()
        self.awaiting.clear()
        if self.outgoing:
            self.wake()

    def release_waiting(self) -> None:
        """At shutdown: release everything that waits for the disk."""
        waiting, self.awaiting = self.awaiting, {}
        for each in waiting:
            each.lost()
        self.deliveries.release()
        for vhost in self.vhosts.values():
            for queue in vhost.every_queue():
                if queue.backlog is not None and queue.backlog.pager is not None:
                    queue.backlog.pager.tell_waiting()

    @property
    def has_work(self) -> bool:
        """Whether a tick is needed."""
        return bool(
            self.dirty or self.outgoing or self._under_way or self.awaiting_tick or self.log.issued != self.flushed
        )

    # ---- ticks

    def attach(self, loop: EventLoop) -> None:
        """Run on this event loop from now on."""
        self._loop = loop
        self.timers.attach(loop)

    def wake(self) -> None:
        """Request a tick: the broker has work."""
        self._loop.wake()

    def tick(self) -> None:
        """Deliver from touched queues, then write. Work that exceeds a burst limit is left for the next tick."""
        self.routing_work.spent = 0
        self.background.new_tick()
        if self.dirty:
            if self.deliveries.until is not None:
                self.deliveries.check()
            touched = self.dirty[:]
            self.dirty.clear()
            work_time = self.clock.work_time
            end = work_time() + DRAIN_BUDGET if len(touched) > 1 else NEVER  # a lone message needs no clock
            for number, queue in enumerate(touched, 1):
                try:
                    queue.drain()
                except Exception:  # noqa: BLE001 - an error in one queue must not stop the others
                    self._events.exception("internal error while delivering", queue=queue.name)
                if end != NEVER and work_time() > end:
                    self.dirty[:0] = touched[number:]  # first in the next tick
                    break
        if self._under_way:
            self.background.run()  # requests another tick while tasks are under way
        self.flushed = self.log.issued
        self.log.flush()
        if self.outgoing:
            outgoing = self.outgoing
            self.outgoing = []
            for outbox in outgoing:
                outbox.flush()
        if self.gauge.used + self.gauge.other > self.memory.shortage or self.gauge.is_short:
            self.check_memory()
        while self.awaiting_tick and not self.routing_work.is_spent:
            self.awaiting_tick.popleft().resume_in_tick()
        if self.awaiting_tick or self.dirty or self.outgoing or self.log.issued != self.flushed:
            self.wake()

    # ---- pausing

    def pause_deliveries(self, reason: str) -> None:
        """Deliver nothing from any queue, and block publishers, until ``resume_deliveries``. Messages are accepted and
        settled as before; basic.get waits."""
        self.deliveries.begin(reason)

    def resume_deliveries(self, until: float | None = None) -> None:
        """Deliver, and pause again if this is not called once more before ``until`` (``Clock.machine_time``)."""
        self.deliveries.end(until)

    def stop_deliveries(self, reason: str) -> None:
        """Deliver nothing any more: another node leads."""
        self.deliveries.begin_final(reason)

    def deliveries_paused(self, reason: str) -> None:
        for vhost in self.vhosts.values():
            for queue in vhost.queues.values():
                queue.consumers.paused |= BY_BROKER
        if not self.deliveries.is_final:  # else publishers are blocked by another alarm
            self.set_alarm(ENGINE, reason)

    def deliveries_resumed(self) -> None:
        for vhost in self.vhosts.values():
            for queue in vhost.queues.values():
                queue.consumers.paused &= ~BY_BROKER
                if queue.consumers.total:
                    queue.touch()
            for reply_queue in vhost.reply_queues.values():
                reply_queue.touch()
        self.set_alarm(ENGINE, None)
        self.wake()

    # ---- alarms

    def look_at_memory(self, resident: int | None) -> None:
        """Called twice a second with the resident size of the process."""
        self.memory_users.read_watched()
        self.memory.look(resident)
        self.check_memory()

    def check_memory(self) -> None:
        memory = self.memory
        if memory.check_shortage():
            for vhost in self.vhosts.values():
                for queue in vhost.every_queue():
                    queue.touch()  # pages out as much as possible
        if memory.check():
            used = {"used": memory.used(), "high_watermark": memory.high_watermark}
            self.set_alarm("memory", memory.reason, **used)

    def spill_refused(self, size: int) -> None:
        """Count bytes that the spill could not write and keeps in memory (negative: released); no queue counts them."""
        self.gauge.used += size
        self.check_memory()

    def set_alarm(self, name: str, reason: str | None, **facts: object) -> None:
        """Raise an alarm, or clear it (reason None). A connection is blocked when it publishes during an alarm."""
        if reason == self.alarms.get(name):
            return
        if reason is not None:
            self.alarms[name] = reason
            self._events.warning(f"{reason}, publishers are blocked", alarm=name, **facts)
        else:
            del self.alarms[name]
            others = f" still blocked by: {', '.join(self.alarms)}" if self.alarms else " unblocked"
            self._events.info(f"{name} alarm cleared, publishers{others}", alarm=name, **facts)
            if not self.alarms:
                for connection in list(self.registry.connections):
                    connection.unblock()
        self.events.tell("alarm raised" if reason else "alarm over", alarm=name, reason=reason, **facts)
        if self.has_work:
            self.wake()
