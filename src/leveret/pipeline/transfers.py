"""Transfers of messages between cells, exactly once: the cell that receives them.

Theory of operation. A transfer is a stretch of an outbox (pipeline/outboxes.py), sent again until it is answered. For
each outbox, the home cell has a *mark*: the sequence of the next message that it has not received. The mark is the one
message in an internal queue, so it is replaced in the same group of the log that puts the messages of the transfer into
their queue. After a crash both are there, or none. Messages below the mark are duplicates and are dropped.

If slots are leaving the queue, its messages go past the gate in front of it (broker/gates.py), to a hold or a shard,
or by an outbox of this cell to a shard of another one: all in the same group.

A transfer is answered when it is durable, and the next one of the same outbox is sent only then. If an outbox of this
cell passes it on, it is refused, and sent again, until it has arrived: messages that other cells send directly to its
new place do not overtake it, and a cell that is taken out of service has nothing left to pass on. The marks of
outboxes that no longer exist are removed when their cell connects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from functools import partial
from typing import Any, NamedTuple

from leveret.broker.broker import Broker
from leveret.broker.gates import past_gates
from leveret.broker.internal_queues import RECEIVED
from leveret.broker.publish_rules import traits_of
from leveret.broker.publishes import write_run
from leveret.broker.remote_writes import RoutedRun
from leveret.broker.routes import Route
from leveret.broker.vhost import Vhost
from leveret.errors import ClusterError
from leveret.http.awaited import future_with_callback
from leveret.http.durability import wait_until_durable
from leveret.logs import get_log
from leveret.message import NEVER, PERSISTENT, Address, Message, Traits
from leveret.pipeline.inflow import Inflow, quick_traits
from leveret.pipeline.outboxes import Outboxes, Transfer
from leveret.queues.classic import ClassicQueue
from leveret.queues.options import QueueOptions
from leveret.queues.queue import uniform_runs
from leveret.wire.constants import DEFAULT_FRAME_MAX
from leveret.wire.content import body_of, make_content, properties_of
from leveret.wire.properties import Properties

MARK = Address("", "", 1, DEFAULT_FRAME_MAX)
log = get_log("pipeline")


class Wire(NamedTuple):
    """A transfer as it is sent: a JSON object, and the contents of the messages one after the other."""

    head: dict[str, Any]
    contents: bytes


def encoded(transfer: Transfer) -> Wire:
    addresses: dict[Address, int] = {}
    places = [addresses.setdefault(address, len(addresses)) for _, address, _ in transfer.messages]
    head = {
        "vhost": transfer.vhost,
        "queue": transfer.queue,
        "outbox": transfer.outbox,
        "first": transfer.first,
        "addresses": [[each.exchange, each.key, each.channel, each.frame_max] for each in addresses],
        "places": places,
        "sizes": [len(content) for content, _, _ in transfer.messages],
    }
    return Wire(head, b"".join([content for content, _, _ in transfer.messages]))


def decoded(head: dict[str, Any], contents: bytes) -> Transfer:
    addresses = [Address(*fields) for fields in head["addresses"]]
    messages: list[Message] = []
    start = 0
    for place, size in zip(head["places"], head["sizes"], strict=True):
        messages.append((contents[start : start + size], addresses[place], PERSISTENT))
        start += size
    return Transfer(head["vhost"], head["queue"], head["outbox"], head["first"], messages)


class Mark:
    """How much of one outbox was received."""

    def __init__(self, vhost: Vhost, queue: ClassicQueue) -> None:
        self._vhost = vhost
        self._queue = queue
        self.next: int | None = None  # the sequence; None if nothing was received

    async def load(self) -> None:
        """After a restart."""
        lane, pager = self._queue.lane, self._queue.pager
        loaded: asyncio.Future[None]
        loaded, done = future_with_callback()
        if self._queue.ready and lane.is_empty_here and pager is not None and pager.when_loaded(lambda: done(None)):
            await loaded
        if lane.ready:
            self.next = int(body_of(lane.ready[-1][0]))

    def advance(self, sequence: int) -> None:
        """Within the group of the log that stores what was received."""
        lane = self._queue.lane
        content = make_content(Properties(delivery_mode=2), b"%d" % sequence)
        write_run([self._queue], self._vhost.queue_context.log, [(content, MARK, PERSISTENT)], len(content), False)
        while len(lane.ready) > 1:
            place, (old,) = lane.take(1)
            self._queue.release(lane.number, place, 1, len(old[0]))
        self._queue.account()
        self.next = sequence


class ReceivedTransfers:
    """All transfers to this cell."""

    def __init__(self, broker: Broker, outboxes: Outboxes) -> None:
        self._broker = broker
        self._outboxes = outboxes  # for queues that have moved on to another cell
        self._marks: dict[tuple[Vhost, str], Mark] = {}

    async def receive_encoded(self, cell: str, head: dict[str, Any], contents: bytes) -> None:
        await self.receive(cell, decoded(head, contents))

    async def receive(self, cell: str, transfer: Transfer) -> None:
        """Returns when the messages are in their queue and durable. Raises LeveretError if they were not received."""
        broker, vhost = self._broker, self._broker.vhosts.get(transfer.vhost)
        if vhost is None:
            log.warning("messages dropped", vhost=transfer.vhost, reason="the virtual host was deleted")
            return
        if broker.alarms:
            raise ClusterError(f"publishers are blocked: {', '.join(broker.alarms.values())}")
        mark = await self._mark(vhost, f"{RECEIVED}{cell}.{transfer.outbox}")
        await _until_clear(vhost, transfer.queue)
        stop = transfer.first + len(transfer.messages)
        new = transfer.messages[max((mark.next or 0) - transfer.first, 0) :]
        if new:
            inflow, runs = Inflow(vhost, insists=True), self._runs(vhost, transfer.queue, transfer.outbox, new)
            with broker.log.group():
                for run in runs:
                    inflow.deliver(run)
                mark.advance(stop)
            self._outboxes.resume()
        await wait_until_durable(broker)
        if not self._outboxes.have_passed_on(vhost, transfer.outbox):
            raise ClusterError(f"messages for queue '{transfer.queue}' are on their way to another cell")

    async def _mark(self, vhost: Vhost, name: str) -> Mark:
        mark = self._marks.get((vhost, name))
        if mark is None:
            queue = vhost.internal.queues.get(name)
            if queue is None:
                queue = vhost.internal.open(name, QueueOptions(), vhost.queue_context)
            mark = Mark(vhost, queue)
            await mark.load()
            mark = self._marks.setdefault((vhost, name), mark)
        return mark

    def _runs(self, vhost: Vhost, name: str, outbox: str, messages: list[Message]) -> list[RoutedRun]:
        queue = vhost.queues.get(name)
        if queue is None:
            reason = f"queue '{name}' was deleted"
            log.warning("messages dropped", vhost=vhost.name, messages=len(messages), reason=reason)
            return []
        now, route = vhost.queue_context.now(), Route(vhost.arrivals(name))
        found: list[RoutedRun] = []
        for run in uniform_runs([(content, address, _traits(content, now)) for content, address, _ in messages]):
            timed = any(message[2].deadline != NEVER for message in run)
            whole = RoutedRun(route, run, sum([len(message[0]) for message in run]), timed)
            for each in past_gates(vhost, whole):
                self._refuse_moving(vhost, each.route)
                found += self._outboxes.redirected(vhost, each, came_from=outbox)
        return found

    def _refuse_moving(self, vhost: Vhost, route: Route) -> None:
        for queue in route.queues:
            declared = vhost.queues.get(queue.name)
            home = None if declared is None else declared.home
            if home is not None and home.cell_name == self._broker.cells.name:
                raise ClusterError(f"queue '{queue.name}' is being moved to another cell")  # sent again later

    def keep_only(self, cell: str, outboxes: Collection[str]) -> None:
        """Remove the marks of all other outboxes of this cell, which are gone."""
        prefix = f"{RECEIVED}{cell}."
        for vhost in self._broker.vhosts.values():
            for name in [name for name in vhost.internal.queues if name.startswith(prefix)]:
                if name.removeprefix(prefix) not in outboxes:
                    vhost.internal.remove(name)
                    self._marks.pop((vhost, name), None)
        self._broker.wake()


async def _until_clear(vhost: Vhost, queue: str) -> None:
    """Return when nothing is in front of the gate of the queue, if it has one: the transfer must not overtake that."""
    while (gate := vhost.gates.get(queue)) is not None:
        cleared: asyncio.Future[None]
        cleared, done = future_with_callback()
        if not gate.when_clear(partial(done, None)):
            return
        await cleared


def _traits(content: bytes, now: float) -> Traits:
    found = quick_traits(content, now)
    return traits_of(properties_of(content), now) if found is None else found
