"""The interface of a queue that clients declare, for virtual hosts, sessions, the HTTP API and statistics.

A queue type implements it as a subclass: ClassicQueue, StreamQueue. It includes the interface of a destination
(queues/queue.py). Features of some types only are capabilities, so that no other module depends on the classes:

    backlog       messages wait in lanes and leave when they are settled; None otherwise
    stream        messages have offsets and stay; None otherwise
    has_offsets   whether ``stream`` is not None
    home          the queue is in another cell, which answers requests about it; None otherwise
    can_reject    may refuse single messages

The class has no slots of its own, since Python allows only one base with slots: each type lists the attributes below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from leveret.backlog.backlog import Backlog, Observer
from leveret.backlog.counters import QueueCounters
from leveret.backlog.walk import START, STEP, Position, Visitor
from leveret.clock import TimeSlice
from leveret.delivery.consumer import Consumer, Outstanding
from leveret.delivery.consumer_ring import ConsumerRing
from leveret.delivery.receipts import RemoteLog
from leveret.errors import AccessRefused, AmqpError
from leveret.message import Message
from leveret.queues.context import QueueContext
from leveret.queues.options import QueueOptions
from leveret.queues.queue import Queue

if TYPE_CHECKING:
    from leveret.queues.ack_timeouts import AckTimeouts
    from leveret.queues.duplicates import Duplicates
    from leveret.queues.limits import Limits
    from leveret.queues.stream import StreamQueue


HERE = ""  # the own cell


class GetResult(NamedTuple):
    """A message that basic.get took; ``left``: the number of messages that are still ready."""

    lane: int
    sequence: int
    delivery_count: int  # before this delivery
    redelivered: bool
    message: Message
    left: int


class QueueCounts(NamedTuple):
    ready: int
    consumers: int


class HomeRequests(Protocol):
    """Requests about a queue that is in another cell. ``answered`` gets the result or an error, at once or later."""

    @property
    def cell_name(self) -> str: ...

    def count(self, answered: Callable[[QueueCounts | AmqpError], None]) -> None: ...

    def purge(self, answered: Callable[[int | AmqpError], None]) -> None: ...

    def delete(self, if_unused: bool, if_empty: bool, answered: Callable[[int | AmqpError], None]) -> None:
        """The result is the number of messages that were deleted with it."""

    def joined(self, consumer: Consumer, answered: Callable[[AmqpError | None], None]) -> None:
        """Whether the home cell has accepted the consumer."""


class Declaration(NamedTuple):
    """How a queue was declared. ``options``: the effective options, from its arguments and from policies."""

    id: int
    name: str
    vhost: str
    options: QueueOptions
    durable: bool = False
    auto_delete: bool = False
    owner: object | None = None  # the connection of an exclusive queue
    arguments: Mapping[str, object] = {}
    home: str = HERE  # the cell where it is


def home_of(queue: DeclaredQueue) -> str:
    """The cell where it is."""
    return HERE if queue.home is None else queue.home.cell_name


class MessageWalk(Protocol):
    """A walk through the messages of a queue (backlog/walk.py)."""

    is_over: bool
    enough: bool  # set by the visitor: no more messages in this step
    ends: dict[int, int]  # the last sequence of each lane that was visited completely

    def step(self, most: int = STEP) -> bool:
        """Visit some messages; False if there is nothing to do until ``on_progress`` is called, or at the end."""


class DeclaredQueue(Queue):
    __slots__ = ()

    id: int
    vhost: str
    options: QueueOptions
    context: QueueContext
    arguments: dict[str, object]  # as declared
    durable: bool
    auto_delete: bool
    owner: object | None  # the connection of an exclusive queue
    counts_deliveries: bool  # consumers get the delivery count of each message
    returning: int  # settlements in progress that return messages: no other message overtakes these
    consumers: ConsumerRing
    counters: QueueCounters
    observers: list[Observer]
    unacked: int
    bytes: int  # of content, except in files of a stream
    held: int  # bytes of content that is delivered and not settled
    accounted: int  # bytes of memory that are counted in the gauge

    keeps_all: bool = False
    has_offsets: bool = False
    remote_log: RemoteLog | None = None
    home: HomeRequests | None = None
    # Parts for options that not every type has.
    ack_timeouts: AckTimeouts | None = None
    duplicates: Duplicates | None = None
    limits: Limits | None = None

    # ---- capabilities

    @property
    def backlog(self) -> Backlog | None:
        """The lanes in which messages wait."""
        return None

    @property
    def stream(self) -> StreamQueue | None:
        """Offsets, files and readers."""
        return None

    @property
    def is_lasting(self) -> bool:
        """Whether the definition survives a restart."""
        return self.stored

    # ---- counting

    @property
    def ready(self) -> int:
        raise NotImplementedError

    @property
    def delayed_messages(self) -> int:
        """Messages that wait for a delayed retry."""
        return 0

    @property
    def total_bytes(self) -> int:
        """Bytes of content, in memory and on disk, ready and unacknowledged."""
        return self.bytes

    @property
    def ready_bytes(self) -> int:
        """Bytes of content that is ready."""
        return self.total_bytes - self.held

    def first_message(self) -> Message | None:
        """The message that would be delivered next, if it is in memory."""
        raise NotImplementedError

    def account(self) -> None:
        """Update the memory gauge and the counters."""
        raise NotImplementedError

    # ---- messages

    def catch_up(self) -> None:
        """Drain now, before the tick ends, as far as possible in a time slice."""
        raise NotImplementedError

    def settle_down(self, time_slice: TimeSlice | None = None) -> bool:
        """Do the deliveries and expiries that are due, before the queue is read. False if the time slice ended
        first."""
        raise NotImplementedError

    def when_loaded(self, call: Callable[[], None]) -> bool:
        """Call back when the first message was loaded from disk, or when the pause of all deliveries is over; False if
        ``get`` need not wait."""
        return False

    def get(self, no_ack: bool, by: object | None = None) -> GetResult | None:
        """Take the first ready message for ``by`` (basic.get); check ``when_loaded`` first."""
        raise NotImplementedError

    def purge(self) -> int:
        """Remove all ready messages; returns their number. Unacknowledged messages stay with their holders."""
        raise NotImplementedError

    def walk(self, visit: Visitor, on_progress: Callable[[], None], after: Position = START) -> MessageWalk:
        """Visit all messages without consuming them, or those behind the position of an earlier walk."""
        raise NotImplementedError

    # ---- settling

    def settle(self, lane: int, sequence: int, messages: list[Message]) -> None:
        raise NotImplementedError

    def requeue(self, lane: int, sequence: int, messages: list[Message], count: int, tried: bool = True) -> None:
        raise NotImplementedError

    def drop(self, lane: int, sequence: int, messages: list[Message]) -> None:
        raise NotImplementedError

    def extend_ack_timeout(self, unacked: Outstanding, tag: int, seconds: float | None) -> bool:
        timeouts = self.ack_timeouts
        if timeouts is None or timeouts.seconds is None:
            return False
        timeouts.extend(unacked, tag, timeouts.seconds if seconds is None else seconds)
        return True

    # ---- consumers

    def refuse_second(self, consumer: Consumer) -> None:
        """Refuse a second consumer if one of the two is exclusive."""
        holder = next(iter(self.consumers), None)
        if (consumer.exclusive and (holder or self.options.single_active)) or (holder and holder.exclusive):
            raise AccessRefused(f"queue '{self.name}' in vhost '{self.vhost}' in exclusive use")

    def add_consumer(self, consumer: Consumer) -> None:
        raise NotImplementedError

    def remove_consumer(self, consumer: Consumer) -> None:
        raise NotImplementedError

    def dismiss(self, consumer: Consumer) -> None:
        """Cancel a consumer that takes a single message and has received it."""
        self.remove_consumer(consumer)
        consumer.cancelled_by_queue()

    def cancel_consumers(self) -> None:
        """Cancel all consumers, because the queue is deleted."""
        for consumer in list(self.consumers):
            self.consumers.remove(consumer)
            self.context.callbacks.count_memory(-consumer.memory)
            consumer.cancelled_by_queue()

    def note_use(self) -> None:
        """The queue was declared, consumed from or read by basic.get: the time of x-expires starts again."""

    # ---- options and deletion

    def apply(self, options: QueueOptions) -> None:
        """Use these options from now on."""
        raise NotImplementedError

    def die(self) -> int:
        """Delete the queue; returns the number of ready messages that were deleted with it."""
        raise NotImplementedError
