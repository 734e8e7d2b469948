"""Queues that report each of their messages to a tracer, only while their virtual host is traced.

Theory of operation. The hot path does not check whether tracing is on. Instead a traced queue changes its class:
``start_tracing`` makes a ClassicQueue a TracedQueue, which has the same slots and overrides the few methods by which
messages enter, are delivered, return and leave; ``stop_tracing`` restores the class. A queue that is not traced runs
the same code as without tracing.

Every message that leaves a queue passes through ``release``, whatever the reason. The caller sets the reason in
``QueueTracer.cause`` during the call; if it is not set, it is inferred (expiry, length limit).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from typing import NamedTuple, Protocol

from leveret.backlog.lane import Lane
from leveret.delivery.consumer import Consumer
from leveret.message import Message
from leveret.queues.classic import ClassicQueue
from leveret.queues.declared_queue import DeclaredQueue, GetResult
from leveret.queues.stream import StreamQueue
from leveret.store.log import Placement

ACKED, REJECTED, DELIVERY_LIMIT = "acked", "rejected", "delivery_limit"
PURGED, QUEUE_DELETED, TOLD = "purged", "queue deleted", ""  # TOLD: reported already
ALL_LANES = -1


class Place(NamedTuple):
    """The place of a message in a queue."""

    lane: int
    sequence: int
    message: Message


class DeliveredMessages(NamedTuple):
    """Messages that were delivered to a consumer, or to a channel by basic.get."""

    places: Sequence[Place]
    taker: object
    redelivered: bool
    no_ack: bool


class QueueTracer(Protocol):
    """Receives the reports. It is called in the middle of a queue's work, so it must not change the queue."""

    cause: str | None  # the reason why messages are being released

    def entered(self, queue: DeclaredQueue, places: Sequence[Place]) -> None: ...

    def handed(self, queue: DeclaredQueue, delivery: DeliveredMessages) -> None: ...

    def came_back(self, queue: DeclaredQueue, places: Sequence[Place], tries: int, tried: bool) -> None:
        """``tries``: delivery count. ``tried`` is False if the consumer was closed before it processed the messages."""

    def left(self, queue: DeclaredQueue, lane: int, sequence: int, number: int) -> None:
        """These messages are gone, or acknowledged by a reader of a stream; ``cause`` is the reason. ALL_LANES: all
        messages."""

    def drained(self, queue: DeclaredQueue) -> None: ...

    def carrying(self, queue: DeclaredQueue, place: Place) -> AbstractContextManager[None]:
        """A context in which this message enters another queue, and may leave its own queue."""


def tracer_of(queue: DeclaredQueue) -> QueueTracer:
    tracer = queue.context.tracer
    assert tracer is not None
    return tracer


@contextmanager
def because(tracer: QueueTracer, cause: str | None) -> Iterator[None]:
    before, tracer.cause = tracer.cause, cause
    try:
        yield
    finally:
        tracer.cause = before


class TracedQueue(ClassicQueue):
    __slots__ = ()

    def publish(self, run: list[Message], size: int, timed: bool) -> None:
        tails = [lane.tail for lane in self.lanes]
        super().publish(run, size, timed)
        highest = len(self.lanes) - 1
        places: list[Place] = []
        for message in run:
            number = min(message[2].priority, highest)
            if tails[number] < self.lanes[number].tail:  # otherwise the queue was deleted
                places.append(Place(number, tails[number], message))
                tails[number] += 1
        tracer_of(self).entered(self, places)

    def drain(self) -> None:
        super().drain()
        tracer_of(self).drained(self)

    def offer(self, lane: Lane, consumer: Consumer, budget: int) -> int:
        tracer = tracer_of(self)
        redelivered = bool(lane.returned)
        if redelivered:
            sequence, _, message = lane.returned[0]
            messages = [message]
        else:
            most = 1 if consumer.one_shot else self.consumers.stretch or budget
            messages = list(islice(lane.ready, max(min(most, consumer.room()), 1)))
            sequence = lane.head
        number = 0
        try:
            with because(tracer, TOLD):
                number = super().offer(lane, consumer, budget)
        finally:
            places = numbered(lane.number, sequence, messages[:number])
            tracer.handed(self, DeliveredMessages(places, consumer, redelivered, consumer.no_ack))
        return number

    def get(self, no_ack: bool, by: object | None = None) -> GetResult | None:
        tracer = tracer_of(self)
        with because(tracer, None):  # expired messages leave first
            self.settle_down()
        with because(tracer, TOLD):
            taken = super().get(no_ack, by)
        if taken is not None:
            place = Place(taken.lane, taken.sequence, taken.message)
            tracer.handed(self, DeliveredMessages([place], by, taken.redelivered, no_ack))
        return taken

    def settle(self, lane: int, sequence: int, messages: list[Message]) -> None:
        with because(tracer_of(self), ACKED):
            super().settle(lane, sequence, messages)

    def requeue(self, lane: int, sequence: int, messages: list[Message], count: int, tried: bool = True) -> None:
        tracer = tracer_of(self)
        if self.alive:
            tracer.came_back(self, numbered(lane, sequence, messages), count + 1, tried)
        with because(tracer, DELIVERY_LIMIT):
            super().requeue(lane, sequence, messages, count, tried)

    def drop(self, lane: int, sequence: int, messages: list[Message]) -> None:
        with because(tracer_of(self), REJECTED):
            super().drop(lane, sequence, messages)

    def purge(self) -> int:
        with because(tracer_of(self), PURGED):
            return super().purge()

    def release(self, lane: int, sequence: int, number: int, size: int) -> None:
        super().release(lane, sequence, number, size)
        tracer_of(self).left(self, lane, sequence, number)

    def die(self) -> int:
        return _die(self, super().die)


class TracedStream(StreamQueue):
    """Reports publishes and acks. Messages leave a stream only by retention, many at once."""

    __slots__ = ()

    def place(self, run: list[Message], size: int, timed: bool) -> list[Placement]:
        placements = super().place(run, size, timed)
        for placement in placements:
            tracer_of(self).entered(self, numbered(0, placement.sequence, run))
        return placements

    def drain(self) -> None:
        super().drain()
        tracer_of(self).drained(self)

    def delivered(self, number: int, size: int, consumer: Consumer, first: int) -> None:
        super().delivered(number, size, consumer, first)
        kept: Sequence[Message] = getattr(consumer.unacked, "items", ())[-number:]  # as delivered
        tracer_of(self).handed(self, DeliveredMessages(numbered(0, first + 1, kept), consumer, False, False))

    def settle(self, lane: int, sequence: int, messages: list[Message]) -> None:
        super().settle(lane, sequence, messages)
        with because(tracer_of(self), ACKED):
            tracer_of(self).left(self, 0, sequence, len(messages))

    def die(self) -> int:
        return _die(self, super().die)


def _die(queue: DeclaredQueue, die: Callable[[], int]) -> int:
    tracer = tracer_of(queue)
    with because(tracer, QUEUE_DELETED):
        number = die()
        tracer.left(queue, ALL_LANES, 0, 0)
    stop_tracing(queue)
    return number


def numbered(lane: int, sequence: int, messages: Sequence[Message]) -> list[Place]:
    return [Place(lane, place, message) for place, message in enumerate(messages, sequence)]


TRACED: dict[type[DeclaredQueue], type[DeclaredQueue]] = {ClassicQueue: TracedQueue, StreamQueue: TracedStream}
PLAIN = {traced: plain for plain, traced in TRACED.items()}


def start_tracing(queue: DeclaredQueue, tracer: QueueTracer) -> None:
    """Report the messages of this queue to ``tracer`` from now on."""
    queue.context.tracer = tracer
    queue.__class__ = TRACED.get(queue.__class__, queue.__class__)


def is_traced_queue(queue: DeclaredQueue) -> bool:
    return queue.__class__ in PLAIN


def stop_tracing(queue: DeclaredQueue) -> None:
    queue.__class__ = PLAIN.get(queue.__class__, queue.__class__)
