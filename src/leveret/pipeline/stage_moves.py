"""Moves of committed stages to the queues that their messages are routed to.

Theory of operation. A stage is an invisible queue. Once its commit is recorded, its messages are published in slices:
each slice leaves the stage and enters its queues in one group of the log, so after a crash every message is in one of
the two, and the next start continues the move. All moves of a broker share one background task, which moves one slice
per tick, so that other work is not delayed longer than that. A move pauses while too much waits for the disk, or while
its messages are read from disk.

Queues behind gates (broker/gates.py) get their messages directly, since a gate keeps them in memory; a move pauses
while earlier messages are in front of the gate. Queues of other cells get theirs by outboxes of this cell
(pipeline/outboxes.py), which enter them in the same group. A move pauses while one of its outboxes is full. At its end
it waits until the other cells have received everything, so that clients find the messages there after the commit; but
not for long, because a cell that is away gets them in any case.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, islice, takewhile
from typing import NamedTuple

from leveret.broker.broker import Broker
from leveret.broker.gates import gates_of, past_gates
from leveret.broker.remote_writes import RoutedRun
from leveret.broker.vhost import Vhost
from leveret.errors import LeveretError, NotFound, StoreError
from leveret.message import Message
from leveret.pipeline.inflow import RUN, SLICE_COST, Inflow, Look, WriteWindow, front
from leveret.pipeline.outboxes import MOST_WAITING, Outbox, Outboxes, when_all_passed
from leveret.pipeline.packs import is_pack, unpacked
from leveret.pipeline.run_merge import merged_runs
from leveret.pipeline.unroutable import MandatoryAddresses, UnroutableKey
from leveret.queues.classic import ClassicQueue

LOST = "the commit may not be stored: the disk failed, or the broker stopped; restart the broker and repeat the commit"


PATIENCE = 10.0  # seconds that the end of a move waits for other cells


class Load(NamedTuple):
    """A stage to move, how closely its messages must be inspected, and which of them are mandatory."""

    queue: ClassicQueue
    look: Look
    mandatory: MandatoryAddresses


class Moved(NamedTuple):
    messages: int
    unroutable: int
    unroutable_keys: Sequence[UnroutableKey] = ()
    unroutable_mandatory: int = 0


Over = Callable[["Moved | LeveretError"], None]


class Moves:
    """All moves of one broker: a background task that moves one slice per tick."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.outboxes = Outboxes(broker)
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
        self._outboxes: set[Outbox] = set()  # that it has written to

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
        full = next((outbox for outbox in self._outboxes if outbox.is_full), None)
        if full is not None and full.when_passed(full.queue.lane.tail - MOST_WAITING, lambda: self._moves.go_on(self)):
            return False
        if self._load is None:
            self._load = next(self._loads, None)
        if self._load is None:
            broker.when_granted(self._all_granted, lost=self._lost)
            return False
        self._inflow.without_queue.mandatory_addresses = self._load.mandatory
        return self._move_some(self._load.queue, self._load.look)

    def _move_some(self, queue: ClassicQueue, look: Look) -> bool:
        if not queue.alive:
            self._end(NotFound(f"no vhost '{self._vhost.name}': it was deleted before the commit was done"))
            return False
        messages = self._front(queue)
        if messages and is_pack(messages[0][0]):
            return self._publish(queue, messages[:1], self._unpacked(messages[0][0]), Look.PLAIN)
        if messages:
            runs = self._slice(messages, look)
            return self._publish(queue, messages[: sum(map(len, runs))], runs, look)
        if queue.ready and queue.pager is not None:
            return not queue.pager.when_loaded(lambda: self._moves.go_on(self))
        self._load = None
        return True

    def _front(self, queue: ClassicQueue) -> list[Message]:
        """The next messages of the stage, as far as it is in memory: a pack, or messages that are in none."""
        lane = queue.lane
        number = lane.stretch(RUN)
        if not number:
            return []
        if is_pack(lane.ready[0][0]):
            return [lane.ready[0]]
        return front(list(takewhile(lambda message: not is_pack(message[0]), islice(lane.ready, number))))

    def _unpacked(self, pack: bytes) -> list[list[Message]]:
        """All of it at once, since it leaves its stage at once: its size is limited for that."""
        return [*merged_runs(unpacked(pack), self._inflow.routes)]

    def _slice(self, messages: list[Message], look: Look) -> list[list[Message]]:
        """The first runs of these, as many as may be moved at once."""
        chosen: list[list[Message]] = []
        left = SLICE_COST
        for run in runs_in(messages):
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

    def _publish(self, queue: ClassicQueue, moved: Sequence[Message], runs: list[list[Message]], look: Look) -> bool:
        """Publish runs to the queues and outboxes of this broker, and remove them, the ``moved`` messages at the front
        of the stage, from there. False if they have to wait for a gate on their way."""
        if self._wait_for_gates(runs):
            return False
        number = len(moved)
        size = sum([len(message[0]) for message in moved])
        sequence, _ = queue.lane.take(number)
        routed = [each for run in runs for each in self._inflow.routed(run, look, has_traits=False)]
        local = [each for run in routed for each in self._redirected(run)]
        with self._broker.log.group():
            for each in local:
                self._inflow.deliver(each)
            queue.release(queue.lane.number, sequence, number, size)
        queue.account()
        if queue.pager is not None:
            queue.pager.refill()
        self._lead.wrote(size)
        for outbox in self._outboxes:
            outbox.resume()
        return True

    def _wait_for_gates(self, runs: list[list[Message]]) -> bool:
        """Whether earlier messages are in front of a gate; then the move goes on later. Messages that are routed by
        more than their address do not wait: their order may change while an exchange is resized."""
        routes = [self._inflow.routes.of(run[0][1]) for run in runs] if self._vhost.gates else []
        gates = [gate for route in routes if route is not None for gate in gates_of(self._vhost, route)]
        return any(gate.when_clear(lambda: self._moves.go_on(self)) for gate in gates)

    def _redirected(self, run: RoutedRun) -> Iterator[RoutedRun]:
        """The same run, with the queues behind gates, and with outboxes for queues of other cells."""
        if not run.route.answers_later:
            yield run
            return
        outboxes = self._moves.outboxes
        for each in past_gates(self._vhost, run):
            self._outboxes |= outboxes.used_by(self._vhost, each)
            yield from outboxes.redirected(self._vhost, each)

    def _lost(self) -> None:
        self._end(StoreError(LOST))

    def _all_granted(self) -> None:
        if not when_all_passed(self._outboxes, lambda: self._end(self._moved())):
            self._end(self._moved())
            return
        context = self._vhost.queue_context
        context.schedule(context.now() + PATIENCE, self._give_up_waiting)

    def _give_up_waiting(self) -> None:
        """Everything is committed; another cell is away. Without effect if the move has ended."""
        self._end(self._moved())

    def _moved(self) -> Moved:
        lost = self._inflow.without_queue
        return Moved(self._inflow.published, lost.total, lost.keys, lost.mandatory)

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
