"""Publishes to queues that answer later: on another node, or with replicas that must have the message first.

An ordinary queue accepts a run in a function call, and its write is part of the broker's log, whose receipts are
numbers (store/log.py). A queue that *answers later* has a log of its own (``Queue.remote_log``). That log opens one
Receipt for each copy that must exist, at a remote leader or a replica, and resolves it when the copy exists or fails:

    open ──> received ──> granted
      │          └──────> refused, lost
      └─────────────────> unanswered, unroutable, lost

A confirm or a commit waits for all receipts of its publishes. A log may refuse a part of a run: each message gets its
own confirm, or the publisher would publish again what is in the queue. Receipts of different logs are never compared.
Until a receipt is received, its messages count against the flow control of the publisher, large ones for several.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from leveret.message import Message

CREDIT = 4 << 10  # bytes for which a run counts as one more message


class RemoteLog(Protocol):
    """The log of a queue that answers later."""

    @property
    def reachable_cell(self) -> str:
        """The cell where the queue is; empty if that is not a cell, or away."""

    def submit(self, size: int, timed: bool, publish: PendingPublish) -> None:
        """Take ``publish.run``, and open its receipts.

        All receipts that are open when the queue is deleted must be resolved then, so that no publisher waits forever.
        """

    def forward(self, size: int, timed: bool, run: list[Message], publisher: Publisher) -> None:
        """Take a run whose publisher waits for no answer: it spends credits, and gets them back."""

    def sync(self, publish: PendingPublish) -> None:
        """Open a receipt of ``publish``, which has no messages, for everything that was settled in the queue so far."""

    def unanswered(self) -> list[Receipt]:
        """Those of all runs that were submitted and are not resolved."""


class Publisher(Protocol):
    """The channel that published a run, or the broker itself (broker/remote_writes.py)."""

    def spend(self, credits: int) -> None:
        """About this many more messages were sent to a log and are not yet received."""

    def refund(self, credits: int) -> None:
        """This many of these messages were received or lost."""

    def resolved(self, publish: PendingPublish) -> None:
        """Every receipt of the publish is resolved."""


class Unattended:
    """The publisher of a run that no client waits for, such as a dead letter."""

    def spend(self, credits: int) -> None: ...

    def refund(self, credits: int) -> None: ...

    def resolved(self, publish: PendingPublish) -> None: ...


class Receipts(Unattended):
    """The publishes of one request, which waits for their receipts."""

    def __init__(self) -> None:
        self._unresolved = 0  # runs
        self._waiting: list[Callable[[], None]] = []
        self.unreceived = 0  # messages, counted once for each log
        self.refused = 0  # messages whose queue refused them, did not answer or was deleted
        self.is_unanswered = False  # a queue did not answer
        self.unroutable = 0  # messages that no queue has received, since all of theirs were deleted

    def open(self, run: list[Message]) -> PendingPublish:
        self._unresolved += 1
        return PendingPublish(self, run)

    def spend(self, credits: int) -> None:
        self.unreceived += credits

    def refund(self, credits: int) -> None:
        self.unreceived -= credits

    def resolved(self, publish: PendingPublish) -> None:
        self._unresolved -= 1
        self.refused += len(publish.rejected)
        self.is_unanswered |= publish.is_unanswered
        self.unroutable += 0 if publish.is_received else len(publish.run)
        if not self._unresolved:
            waiting, self._waiting = self._waiting, []
            for call in waiting:
                call()

    def when_resolved(self, call: Callable[[], None]) -> None:
        """Call ``call`` when all publishes are answered."""
        if self._unresolved:
            self._waiting.append(call)
        else:
            call()


class PendingPublish:
    """One run on its way to all queues of its route. ``first``, ``last``: its confirm numbers, 0 without confirms."""

    __slots__ = (
        "_unresolved",
        "first",
        "is_received",
        "is_rejected",
        "is_unanswered",
        "last",
        "mandatory",
        "publisher",
        "rejected",
        "run",
    )

    def __init__(
        self, publisher: Publisher, run: list[Message], *, mandatory: bool = False, first: int = 0, last: int = 0
    ) -> None:
        self.publisher = publisher
        self.run = run
        self.mandatory = mandatory
        self.first, self.last = first, last
        self.is_received = False  # by at least one queue
        self.is_rejected = False  # a message at least, by at least one queue, or lost on the way to it
        self.is_unanswered = False  # rejected, since at least one queue may have it and has not answered
        self.rejected: Collection[int] = ()  # the places of these messages in the run
        self._unresolved = 1  # receipts; one of them stands for the queues of this broker

    def open(self, size: int = 0) -> Receipt:
        """``size``: bytes of the run."""
        self._unresolved += 1
        credits = len(self.run) + size // CREDIT
        self.publisher.spend(credits)
        return Receipt(self, credits)

    def reject(self, places: Collection[int] | None = None) -> None:
        """Of these messages, or of all."""
        self.is_rejected = True
        self.rejected = range(len(self.run)) if places is None else {*self.rejected, *places}

    def resolve(self, ack: bool) -> None:
        """One more receipt is resolved."""
        if not ack:
            self.reject()
        self._unresolved -= 1
        if not self._unresolved:
            self.publisher.resolved(self)


class Receipt:
    """The pending answer of one log for one run. Resolving it twice has no effect."""

    __slots__ = ("_credits", "_is_open", "_is_unreceived", "_publish")

    def __init__(self, publish: PendingPublish, credits: int) -> None:
        self._publish = publish
        self._credits = credits
        self._is_open = self._is_unreceived = True

    @property
    def is_open(self) -> bool:
        return self._is_open

    def received(self) -> None:
        """The queue has the messages: the publisher may send more, and a mandatory message has found its queue."""
        if self._is_open:
            self._publish.is_received = True
            self._refund()

    def granted(self) -> None:
        """The messages are as durable as this log guarantees."""
        self.received()
        self._resolve(ack=True)

    def refused(self, places: Collection[int] | None = None) -> None:
        """The queue has rejected the messages at these places of the run, or all. It has the others."""
        self.received()
        if places is not None and self._is_open:
            self._publish.reject(places)
        self._resolve(ack=places is not None)

    def unroutable(self) -> None:
        """There is no queue, as for a message without a route: it is returned if it is mandatory, and confirmed."""
        self._resolve(ack=True)

    def unanswered(self, places: Collection[int] | None = None) -> None:
        """No answer for these messages came in time, or before the connection was lost. The queue may have them."""
        if self._is_open:
            self._publish.is_unanswered = True
        self.refused(places)

    def lost(self) -> None:
        """The log will never answer: its queue was deleted, or its node is gone."""
        self._resolve(ack=False)

    def _refund(self) -> None:
        if self._is_unreceived:
            self._is_unreceived = False
            self._publish.publisher.refund(self._credits)

    def _resolve(self, *, ack: bool) -> None:
        if self._is_open:
            self._is_open = False
            self._refund()
            self._publish.resolve(ack)
