"""Stand-ins that remember what was done to them: consumers, a log, a queue's harness."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from leveret.backlog.context import MemoryGauge
from leveret.broker.timers import Timers
from leveret.clock import FrozenClock
from leveret.delivery.consumer import Consumer, Source
from leveret.message import NEVER, PERSISTENT, TRANSIENT, Address, Message, Traits
from leveret.queues.classic import ClassicQueue
from leveret.queues.context import QueueCallbacks, QueueContext
from leveret.queues.declared_queue import Declaration
from leveret.queues.options import QueueOptions
from leveret.queues.queue import Queue
from leveret.store.log import GRANTED, Log, Placement
from leveret.store.memory_log import MemoryLog
from leveret.wire.content import body_of, make_content
from leveret.wire.properties import Properties

ADDRESS = Address("", "q", 1, 131072)


def message(
    body: bytes = b"m",
    *,
    deadline: float = NEVER,
    priority: int = 0,
    persistent: bool = False,
    address: Address = ADDRESS,
) -> Message:
    traits = PERSISTENT if persistent else TRANSIENT
    if deadline != NEVER or priority:
        traits = Traits(persistent=persistent, deadline=deadline, priority=priority)
    return (make_content(Properties(), body), address, traits)


def messages(*bodies: bytes) -> list[Message]:
    return [message(body) for body in bodies]


def size_of(run: Sequence[Message]) -> int:
    return sum(len(content) for content, _, _ in run)


class SpyLoop:
    """An event loop that counts wakes and reports new deadlines."""

    def __init__(self, rearm: Callable[[], None] = lambda: None) -> None:
        self.wakes = 0
        self._rearm = rearm

    def wake(self) -> None:
        self.wakes += 1

    def rearm(self) -> None:
        self._rearm()


class Given(NamedTuple):
    """What a spy consumer was given: where it came from, and how often it was delivered before."""

    body: bytes
    lane: int
    sequence: int
    count: int
    message: Message


class SpyConsumer(Consumer):
    """Takes as many as it has credit for and remembers them. ``greed`` bounds what one take() takes."""

    __slots__ = ("cancelled", "given", "greed", "takes")

    def __init__(self, tag: str = "spy", queue: Source | None = None, credit: int = 1 << 60, **more: object) -> None:
        super().__init__(tag, queue, credit, **more)  # type: ignore[arg-type]
        self.given: list[Given] = []
        self.cancelled = 0
        self.greed = 1 << 60
        self.takes = 0

    @property
    def bodies(self) -> list[bytes]:
        return [given.body for given in self.given]

    def room(self) -> int:
        return self.credit

    def take(self, ready: deque[Message], lane: int, sequence: int, limit: int) -> tuple[int, int]:
        self.takes += 1
        number = min(limit, self.credit, self.greed)
        size = 0
        for place in range(sequence, sequence + number):
            taken = ready.popleft()
            size += len(taken[0])
            self._keep(taken, lane, place, 0)
        return number, size

    def take_again(self, message: Message, lane: int, sequence: int, count: int) -> None:
        self._keep(message, lane, sequence, count)

    def _keep(self, message: Message, lane: int, sequence: int, count: int) -> None:
        self.credit -= not self.no_ack
        self.given.append(Given(body_of(message[0]), lane, sequence, count, message))

    def cancelled_by_queue(self) -> None:
        self.cancelled += 1

    # ---- answers, for the first message given with that body that is still held

    def ack(self, body: bytes) -> None:
        given = self._forget(body)
        self.queue.settle(given.lane, given.sequence, [given.message])
        self.restore(1)

    def requeue(self, body: bytes) -> None:
        given = self._forget(body)
        self.queue.requeue(given.lane, given.sequence, [given.message], given.count)
        self.restore(1)

    def drop(self, body: bytes) -> None:
        given = self._forget(body)
        self.queue.drop(given.lane, given.sequence, [given.message])
        self.restore(1)

    def _forget(self, body: bytes) -> Given:
        given = next(given for given in self.given if given.body == body)
        self.given.remove(given)
        return given


class SpyLog(MemoryLog):
    """Records every write. Grants at once, or returns receipts that the test grants later."""

    def __init__(self, *, grants: bool = True) -> None:
        super().__init__()
        self.appended: list[tuple[list[bytes], list[Placement]]] = []
        self.settled: list[tuple[int, int, int, int]] = []
        self.forgotten: list[int] = []
        self._grants = grants

    def append(self, messages: Sequence[Message], placements: Sequence[Placement], synced: bool = True) -> int:
        self.appended.append(([body_of(content) for content, _, _ in messages], list(placements)))
        self.issued = GRANTED if self._grants else len(self.appended)
        return self.issued

    def settle(self, queue: int, lane: int, sequence: int, number: int) -> None:
        self.settled.append((queue, lane, sequence, number))

    def forget(self, queue: int) -> None:
        self.forgotten.append(queue)


class QueueHarness:
    """The context of one queue: a frozen clock, timers, a gauge, a log and a list of dirty queues."""

    def __init__(self, log: Log | None = None) -> None:
        self.clock = FrozenClock()
        self.timers = Timers(self.clock)
        self.log = SpyLog() if log is None else log
        self.gauge = MemoryGauge()
        self.retired: list[Queue] = []
        self.callbacks = QueueCallbacks()
        self.callbacks.delete_unused = self.retired.append  # type: ignore[method-assign]
        self.context = QueueContext(
            now=self.clock.now, schedule=self.timers.at, log=self.log, gauge=self.gauge, callbacks=self.callbacks
        )
        self._ids = 0

    def queue(
        self, name: str = "q", *, durable: bool = False, auto_delete: bool = False, **arguments: object
    ) -> ClassicQueue:
        """Arguments are named without x- and with underscores."""
        table = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
        self._ids += 1
        options = QueueOptions.of(table, durable)
        declared = Declaration(self._ids, name, "/", options, durable, auto_delete, arguments=table)
        return ClassicQueue(declared, self.context)

    def publish(self, queue: ClassicQueue, *run: Message) -> None:
        queue.publish(list(run), size_of(run), any(traits.deadline != NEVER for _, _, traits in run))

    def turn(self) -> None:
        """Drain the dirty until none is left."""
        dirty = self.context.dirty
        for _ in range(1_000):
            if not dirty:
                return
            touched = dirty[:]
            dirty.clear()
            for queue in touched:
                queue.drain()
        raise AssertionError("the queues do not come to rest")

    def advance(self, seconds: float) -> None:
        self.timers.advance(seconds, self.turn)


def ready(queue: ClassicQueue) -> list[bytes]:
    """The bodies of what is ready, in the order in which it would go out."""
    return [body_of(message[0]) for lane in reversed(queue.lanes) for _, _, message in lane]
