"""Moves of committed stages to the queues that their messages are routed to.

Theory of operation. A stage is an invisible queue. Once its commit is recorded, its messages are published in slices:
each slice leaves the stage and enters its queues in one group of the log, so after a crash every message is in one of
the two, and the next start continues the move. All moves of a broker share one background task, which moves one slice
per tick, so that other work is not delayed longer than that. A move pauses while too much waits for the disk, while its
messages are read from disk, or while queues that answer later have not received their part of the slice, which they do
before it leaves the stage (broker/remote_writes.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import groupby, islice
from typing import NamedTuple

from leveret.broker.broker import Broker
from leveret.broker.remote_writes import RoutedRun, write_remotely
from leveret.broker.vhost import Vhost
from leveret.errors import LeveretError, NotFound, StoreError
from leveret.message import Message
from leveret.pipeline.inflow import RUN, SLICE_COST, Inflow, Look, WriteWindow, front
from leveret.queues.classic import ClassicQueue

LOST = "the commit may not be stored: the disk failed, or the broker stopped; restart the broker and repeat the commit"


class Load(NamedTuple):
    """A stage to move, and how closely its messages must be inspected."""

    queue: ClassicQueue
    look: Look


class Slice(NamedTuple):
    """Messages that were taken out of a stage and not released yet."""

    queue: ClassicQueue
    sequence: int
    number: int
    size: int
    runs: list[RoutedRun]


class Moved(NamedTuple):
    messages: int
    unroutable: int


Over = Callable[["Moved | LeveretError"], None]


class Moves:
    """All moves of one broker: a background task that moves one slice per tick."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._ready: deque[Move] = deque()

    def go_on(self, move: Move) -> None:
        self._ready.append(move)
        self.broker.background.send(self)

    def step(self) -> bool:
        if self._ready:
            move = self._ready.popleft()
            if move.step():
                self._ready.append(move)
        return bool(self._ready)


class Move:
    """The stages of one commit. ``over`` is called when all of it is on disk, or with the error."""

    def __init__(self, moves: Moves, vhost: Vhost, loads: Iterator[Load], over: Over) -> None:
        self._moves = moves
        self._broker = moves.broker
        self._vhost = vhost
        self._loads = loads
        self._load: Load | None = None  # being moved
        self._over: Over | None = over
        self._inflow = Inflow(vhost, insists=True)
        self._lead = WriteWindow(moves.broker)

    def start(self) -> None:
        self._moves.go_on(self)

    def step(self) -> bool:
        """Move one slice; False if there is nothing to do now."""
        broker = self._broker
        if broker.is_lost:
            self._lost()
            return False
        if (receipt := self._lead.too_long()) is not None:
            broker.when_granted(lambda: self._moves.go_on(self), lost=self._lost, receipt=receipt)
            return False
        if self._load is None:
            self._load = next(self._loads, None)
        if self._load is None:
            broker.when_granted(self._all_granted, lost=self._lost)
            return False
        return self._move_some(*self._load)

    def _move_some(self, queue: ClassicQueue, look: Look) -> bool:
        if not queue.alive:
            self._end(NotFound(f"no vhost '{self._vhost.name}': it was deleted before the commit was done"))
            return False
        runs = self._slice(queue, look)
        if runs:
            return self._publish(queue, runs, look)
        if queue.ready and queue.pager is not None:
            return not queue.pager.when_loaded(lambda: self._moves.go_on(self))
        self._load = None
        return True

    def _slice(self, queue: ClassicQueue, look: Look) -> list[list[Message]]:
        """The next runs to move, from the front of the stage, as far as it is in memory."""
        lane = queue.lane
        chosen: list[list[Message]] = []
        left = SLICE_COST
        for run in runs_in(front(list(islice(lane.ready, lane.stretch(RUN))))):
            cost = self._inflow.cost(run, look)
            if cost > left:
                if chosen:
                    break
                run = run[: max(len(run) * left // cost, 1)]
            chosen.append(run)
            left -= cost
            if left <= 0 or self._vhost.work.is_spent:
                break
        return chosen

    def _publish(self, queue: ClassicQueue, runs: list[list[Message]], look: Look) -> bool:
        """Move a slice; False if the move continues after queues that answer later have received their part."""
        number = sum(map(len, runs))
        size = sum([len(message[0]) for run in runs for message in run])
        sequence, _ = queue.lane.take(number)
        routed = [each for run in runs for each in self._inflow.routed(run, look, has_traits=False)]
        taken = Slice(queue, sequence, number, size, routed)
        if not [True for run in routed if run.route.answers_later]:
            self._leave(taken)
            return True

        def written() -> None:
            if queue.alive:
                self._leave(taken)
            self._moves.go_on(self)

        write_remotely(self._vhost, routed, written)
        return False

    def _leave(self, taken: Slice) -> None:
        """Publish a slice to the queues of this broker, and remove it from its stage."""
        queue = taken.queue
        with self._broker.log.group():
            for run in taken.runs:
                self._inflow.deliver(run, run.local())
            queue.release(queue.lane.number, taken.sequence, taken.number, taken.size)
        queue.account()
        if queue.pager is not None:
            queue.pager.refill()
        self._lead.wrote(taken.size)

    def _lost(self) -> None:
        self._end(StoreError(LOST))

    def _all_granted(self) -> None:
        self._end(Moved(self._inflow.published, self._inflow.unroutable))

    def _end(self, outcome: Moved | LeveretError) -> None:
        over, self._over = self._over, None
        if over is not None:
            over(outcome)


def runs_in(messages: list[Message]) -> list[list[Message]]:
    """Split where the address changes. Messages read from disk have one address object per record."""
    addresses = [message[1] for message in messages]
    if not addresses or addresses.count(addresses[0]) == len(addresses):
        return [messages] if messages else []
    alike = groupby(messages, key=lambda message: (message[1].exchange, message[1].key))
    return [list(run) for _, run in alike]
