"""Holds new messages of moved slots until the older messages in their old shard are settled.

Theory of operation. When slots leave a shard, its messages stay; later messages of these slots must not overtake them.
The later messages wait in an internal queue, the hold, one for each old shard, until all messages that were in that
shard at the move are settled (backlog/watermarks.py). Then they move, in order, each to the shard that owns its slot:

    HOLDING ──the old shard is drained──> MOVING ──the hold is empty──> ENDING ──that is on disk──> gone

While a hold moves, new publishes still go to it; otherwise they would overtake the messages in it. When it is empty
they go to their shards directly. Each stretch leaves the hold in the group of the log in which it enters the shards:
after a crash it is in one of the two. The start of a move is recorded before the first stretch, and its end only after
the last stretch is on disk; so after a crash each slot is in the state of its row, or has an empty hold.

A shard of another cell gets its part of a stretch by an outbox (pipeline/outboxes.py), which the stretch enters in the
same group. So every message arrives there once. Only one stretch is on its way at a time. Messages that arrive
meanwhile would keep the hold from ever being empty, so before its last stretch the owners are asked to keep new ones
back (``last_stretch``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple, Protocol

from leveret.broker.broker import Broker
from leveret.broker.publishes import Origin, deliver
from leveret.broker.remote_writes import RoutedRun
from leveret.broker.routes import Route
from leveret.broker.vhost import Vhost
from leveret.delivery.consumer import Consumer
from leveret.errors import ResourceFault
from leveret.message import Message
from leveret.queues.classic import ClassicQueue
from leveret.queues.declared_queue import DeclaredQueue
from leveret.queues.queue import uniform_runs
from leveret.sharding.slot_gate import size_and_time
from leveret.sharding.slots import slot_of

STRETCH = 4096  # messages that are moved in one group, at most
STRETCH_BYTES = 1 << 20
AT_ONCE = 1 << 16  # messages moved in one tick; more than publishers can add in that time


class State(Enum):
    HOLDING = 1
    MOVING = 2
    ENDING = 3


class Stretch(NamedTuple):
    lane: int
    sequence: int
    messages: list[Message]


class RoutedStretch(NamedTuple):
    stretch: Stretch
    runs: list[RoutedRun]


class Mover(Consumer):
    """Consumes from the hold, so that the queue loads its messages from disk as for any consumer."""

    __slots__ = ("_hold", "taken")

    def __init__(self, hold: Hold, queue: DeclaredQueue) -> None:
        super().__init__("mover", queue, 0)
        self._hold = hold
        self.taken: list[Stretch] = []

    def room(self) -> int:
        return STRETCH if self._hold.may_move else 0

    def take(self, ready: deque[Message], lane: int, sequence: int, limit: int) -> tuple[int, int]:
        messages: list[Message] = []
        size = 0
        while len(messages) < min(limit, STRETCH) and size < STRETCH_BYTES:
            messages.append(ready.popleft())
            size += len(messages[-1][0])
        self.taken.append(Stretch(lane, sequence, messages))
        return len(messages), size

    def take_again(self, message: Message, lane: int, sequence: int, count: int) -> None:
        self.taken.append(Stretch(lane, sequence, [message]))

    def cancelled_by_queue(self) -> None:
        """The hold is deleted when it is empty, or with its virtual host."""


class SlotOwners(Protocol):
    """Finds the shard of each slot (sharding/ordered_slots.py)."""

    @property
    def has_no_shard(self) -> bool:
        """Whether there is no shard at all."""

    def target(self, slot: int) -> DeclaredQueue: ...

    def drained(self, hold: Hold) -> None:
        """The old shard is drained. May be called while another queue is drained."""

    def last_stretch(self, hold: Hold) -> None:
        """The rest of the hold is on its way to other cells: keep new messages back until it is freed."""

    def record(self) -> None:
        """Record which holds exist and which of them are moving, before this changes."""

    def freed(self, hold: Hold) -> None:
        """The hold is empty: its slots use their new shards."""

    def ended(self, hold: Hold) -> None:
        """All messages of the hold are on disk in their new shards."""


class Hold:
    def __init__(self, broker: Broker, vhost: Vhost, old: str, queue: ClassicQueue, owners: SlotOwners) -> None:
        self._broker = broker
        self._vhost = vhost
        self.old = old  # the name of the old shard
        self.queue = queue
        self.slots: set[int] = set()
        self.state = State.HOLDING
        self.owners = owners
        self._marks = 0
        self._is_busy = False
        self._is_sending = False  # a stretch is on its way to other cells
        self._mover = Mover(self, queue)
        queue.add_consumer(self._mover)
        queue.observers.append(self._move_on)

    # ---- waiting for the old shard

    def wait_for(self, shard: DeclaredQueue | None) -> None:
        """Wait until all messages that are in the shard now have left it. Replaces an earlier wait."""
        self._marks += 1
        mark = self._marks
        backlog = None if shard is None else shard.backlog
        if backlog is None:
            self.owners.drained(self)
        else:
            backlog.when_gone(lambda: self.owners.drained(self) if mark == self._marks else None)

    def release(self) -> None:
        """Start the move. May be called while another queue is drained: messages move when the hold is drained."""
        if self.state is not State.HOLDING:
            return
        self.state = State.MOVING
        try:
            self.owners.record()
        except ResourceFault:  # the store is read-only: nothing moves
            self.state = State.HOLDING
            return
        self.queue.touch()
        self._broker.wake()

    # ---- moving

    @property
    def may_move(self) -> bool:
        return self.state is not State.HOLDING and not self._is_sending and not self.owners.has_no_shard

    def _move_on(self, queue: ClassicQueue) -> None:
        """Called after each drain of the hold: publish the messages that the mover took to their shards."""
        if self._is_busy:
            return
        self._is_busy = True
        try:
            moved = self._move_taken()
            while 0 < moved < AT_ONCE and self.may_move and not queue.lane.is_empty_here:
                queue.drain()
                more = self._move_taken()
                moved += more or AT_ONCE
        finally:
            self._is_busy = False
        if self.state is State.MOVING and not (queue.outstanding or self._is_sending or self._await_arrival()):
            self._emptied()

    def _move_taken(self) -> int:
        taken, self._mover.taken = self._mover.taken, []
        routed = [RoutedStretch(stretch, self._runs(stretch.messages)) for stretch in taken]
        is_remote = any(run.route.answers_later for each in routed for run in each.runs)
        if is_remote and not self.queue.ready:
            self.owners.last_stretch(self)
        for each in routed:
            self._finish(each)
        if is_remote and self._await_arrival():
            return 0
        return sum(len(stretch.messages) for stretch in taken)

    def _await_arrival(self) -> bool:
        """Whether something of the hold is on its way to another cell, possibly since the previous run."""
        transfers = self._broker.cells.transfers
        if transfers is not None:
            self._is_sending = transfers.when_passed_on(self._vhost, self.queue.name, self._arrived)
        return self._is_sending

    def _arrived(self) -> None:
        self._is_sending = False
        self.queue.touch()
        self._broker.wake()

    def _finish(self, routed: RoutedStretch) -> None:
        runs = [part for run in routed.runs for part in self._redirected(run)]
        with self._broker.log.group():
            for route, messages, size, timed in runs:
                deliver(route, self._broker.log, messages, size, timed, origin=Origin.PROMISED)
            self.queue.settle(*routed.stretch)

    def _redirected(self, run: RoutedRun) -> Iterable[RoutedRun]:
        transfers = self._broker.cells.transfers
        if transfers is None or not run.route.answers_later:
            return (run,)
        return transfers.redirected(self._vhost, run, came_from=self.queue.name)

    def _runs(self, messages: list[Message]) -> list[RoutedRun]:
        by_shard: dict[DeclaredQueue, list[Message]] = {}
        for message in messages:
            by_shard.setdefault(self.owners.target(slot_of(message[1].key)), []).append(message)
        runs: list[RoutedRun] = []
        for shard, part in by_shard.items():
            runs += [RoutedRun(Route([shard]), each, *size_and_time(each)) for each in uniform_runs(part)]
        return runs

    # ---- the end

    def _emptied(self) -> None:
        self.state = State.ENDING
        self.owners.freed(self)
        self._broker.when_granted(lambda: self.owners.ended(self))  # on a read-only store the row is not changed
