"""Consumers: the interface between a queue and the sessions that it delivers to.

AMQP sessions and callers in the same process have their own subclasses of ``Consumer``.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from leveret.delivery.selector import Selector
from leveret.message import Message
from leveret.wire.fields import table_memory

if TYPE_CHECKING:
    from leveret.delivery.unacked import Portion

UNLIMITED = 1 << 60  # credit
PER_CONSUMER = 450  # bytes of resident memory, measured with 20,000 consumers: 430


class Outstanding(Protocol):
    """Deliveries that are not settled, by tag (delivery/unacked.py)."""

    next_tag: int

    def holds(self, tag: int) -> bool: ...

    def place_of(self, tag: int) -> tuple[int, int]:
        """Lane and sequence of an outstanding delivery."""

    def take_back(self, tag: int) -> Portion | None:
        """Take back a delivery whose ack timeout has passed. None if it is no longer outstanding."""


class Source(Protocol):
    """The part of a queue that the holder of its messages uses."""

    counts_deliveries: bool  # redelivered messages have the header x-delivery-count
    returning: int  # settlements in progress that requeue messages: until they are done, only these are delivered

    def settle(self, lane: int, sequence: int, messages: list[Message]) -> None:
        """Remove these messages. On disk, this may happen later."""

    def requeue(self, lane: int, sequence: int, messages: list[Message], count: int, tried: bool = True) -> None:
        """Put these messages back in their places; ``count``: how often they were requeued before. Without ``tried``
        their holder was closed before it settled them."""

    def drop(self, lane: int, sequence: int, messages: list[Message]) -> None:
        """Drop or dead-letter messages that were rejected without requeue."""

    def extend_ack_timeout(self, unacked: Outstanding, tag: int, seconds: float | None) -> bool:
        """Extend the ack timeout of a delivery to ``seconds`` from now, or to the timeout of the queue. False if the
        queue has none."""

    def touch(self) -> None:
        """A holder may have room again: drain the queue within this tick."""


class Holder:
    """The receiver of deliveries that have to be settled: a consumer, or a channel that used basic.get."""

    __slots__ = ("credit", "queue", "unacked")

    def __init__(self, queue: Source, credit: int, unacked: Outstanding | None = None) -> None:
        self.queue = queue
        self.credit = credit  # how many more messages may be delivered before some must be settled
        self.unacked = unacked  # its deliveries

    def restore(self, number: int) -> None:
        """``number`` of its messages were settled or returned."""
        self.credit += number
        self.queue.touch()


class Consumer(Holder):
    """One subscription to one queue.

    ``take`` and ``take_again`` are called only when ``room()`` was above zero in the same tick.
    """

    __slots__ = ("arguments", "exclusive", "limit", "memory", "no_ack", "one_shot", "priority", "selector", "tag")

    def __init__(
        self,
        tag: str,
        queue: Source,
        credit: int,
        *,
        no_ack: bool = False,
        exclusive: bool = False,
        priority: int = 0,
        arguments: dict[str, object] | None = None,
        unacked: Outstanding | None = None,
    ) -> None:
        super().__init__(queue, credit, unacked)
        self.limit = credit  # the credit without unacked deliveries
        self.tag = tag
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.priority = priority
        self.arguments = arguments or {}
        self.memory = PER_CONSUMER + table_memory(self.arguments)  # approximate bytes
        self.selector: Selector | None = None  # deliver only matching messages
        self.one_shot = False  # cancelled after one message

    @property
    def is_limited(self) -> bool:
        """Whether it has a prefetch limit."""
        return self.credit < UNLIMITED

    @property
    def is_at_limit(self) -> bool:
        """Whether it has as many unacknowledged messages as its prefetch limits allow."""
        return self.credit <= 0

    def room(self) -> int:
        """How many messages can be delivered to it now."""
        raise NotImplementedError

    def take(self, ready: deque[Message], lane: int, sequence: int, limit: int) -> tuple[int, int]:
        """Pop up to ``limit`` messages off the left of ``ready``; returns how many, and their bytes.

        ``sequence`` belongs to ready[0]. May stop early once a burst of bytes is full, but takes at least one.
        """
        raise NotImplementedError

    def take_again(self, message: Message, lane: int, sequence: int, count: int) -> None:
        """Take one message that was delivered ``count`` times before."""
        raise NotImplementedError

    def starts_at(self, offset: int) -> None:
        """A stream delivers from this offset on."""

    def activity_changed(self, active: bool) -> None:
        """It has become the active consumer of a queue with a single one, or another one has taken its place."""

    def cancelled_by_queue(self) -> None:
        """The queue was deleted, or the consumer was one-shot."""
        raise NotImplementedError

    @property
    def client_tag(self) -> str:
        """The tag that the client has chosen, also if the client is in another cell."""
        return self.tag

    @property
    def label(self) -> str:
        """The name of the consumer in logs and the management API."""
        return self.tag
