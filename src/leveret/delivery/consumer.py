"""Who takes messages from a queue: the contract between a queue and whatever stands behind a consumer.

A queue knows consumers only by this. Sessions over AMQP and callers in the same process each bring their own.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from leveret.delivery.selector import Selector
from leveret.message import Message
from leveret.wire.fields import table_memory

if TYPE_CHECKING:
    from leveret.delivery.unacked import Portion

UNLIMITED = 1 << 60  # credit that nobody uses up
PER_CONSUMER = 450  # bytes of resident memory, measured with 20,000 of them: 430


class Outstanding(Protocol):
    """Deliveries that are not settled, by tag (delivery/unacked.py)."""

    next_tag: int

    def holds(self, tag: int) -> bool: ...

    def take_back(self, tag: int) -> Portion | None:
        """It was held for too long. None if it is not held any more."""


class Source(Protocol):
    """What a holder needs of the queue that its messages came from."""

    counts_deliveries: bool  # consumers are told how often a message came back
    returning: int  # settlements that are giving messages back: until they are done, only these are delivered

    def settle(self, lane: int, sequence: int, messages: list[Message]) -> None:
        """These are done with: forget them. May be lazy on disk."""

    def requeue(self, lane: int, sequence: int, messages: list[Message], count: int, tried: bool = True) -> None:
        """These come back to their places; they came back ``count`` times before. Not ``tried``: their holder went
        before it could decide."""

    def drop(self, lane: int, sequence: int, messages: list[Message]) -> None:
        """These were refused for good."""

    def touch(self) -> None:
        """A holder may have room again: look at it within this turn."""


class Holder:
    """Somebody who was given messages and answers for them: a consumer, or a channel that used basic.get."""

    __slots__ = ("credit", "queue", "unacked")

    def __init__(self, queue: Source, credit: int, unacked: Outstanding | None = None) -> None:
        self.queue = queue
        self.credit = credit  # how many more may be given before something must be settled
        self.unacked = unacked  # where what it holds is kept

    def restore(self, number: int) -> None:
        """``number`` of its messages were settled or returned."""
        self.credit += number
        self.queue.touch()


class Consumer(Holder):
    """One subscription to one queue.

    ``take`` and ``take_again`` are called only when ``room()`` was above zero in the same turn.
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
        self.limit = credit  # the credit that it has when it holds nothing
        self.tag = tag
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.priority = priority
        self.arguments = arguments or {}
        self.memory = PER_CONSUMER + table_memory(self.arguments)  # bytes, about
        self.selector: Selector | None = None  # it wants only what matches
        self.one_shot = False  # it wants one message, and goes

    @property
    def is_limited(self) -> bool:
        """Whether it is given only so many messages before it has to settle some."""
        return self.credit < UNLIMITED

    def room(self) -> int:
        """How many messages it can take now."""
        raise NotImplementedError

    def take(self, ready: deque[Message], lane: int, sequence: int, limit: int) -> tuple[int, int]:
        """Pop up to ``limit`` messages off the left of ``ready``; give back how many, and their bytes.

        ``sequence`` belongs to ready[0]. May stop early once a burst of bytes is full, but takes at least one.
        """
        raise NotImplementedError

    def take_again(self, message: Message, lane: int, sequence: int, count: int) -> None:
        """Take one message that was delivered ``count`` times before."""
        raise NotImplementedError

    def cancelled_by_queue(self) -> None:
        """The queue is gone; nothing more will come."""
        raise NotImplementedError

    @property
    def label(self) -> str:
        """For logs and management: who this is."""
        return self.tag
