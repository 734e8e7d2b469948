"""Publishes to queues that answer later: on another node, or with replicas that must have the message first.

An ordinary queue accepts a run in a function call, and its write is part of the broker's log, whose receipts are
numbers (store/log.py). A queue that *answers later* has a log of its own (``Queue.remote_log``). That log opens one
Receipt for each copy that must exist, at a remote leader or a replica, and resolves it when the copy exists or fails:

    open ──> received ──> granted
      │          └──────> refused, lost
      └─────────────────> lost

A confirm or a commit waits for all receipts of its publishes. Receipts of different logs are never compared. Until a
receipt is received, its messages count against the flow control of the publisher.
"""

from __future__ import annotations

from typing import Protocol

from leveret.message import Message


class RemoteLog(Protocol):
    """The log of a queue that answers later."""

    def submit(self, size: int, timed: bool, publish: PendingPublish) -> None:
        """Take ``publish.run``, and open its receipts.

        All receipts that are open when the queue is deleted must be resolved then, so that no publisher waits forever.
        """

    def sync(self, publish: PendingPublish) -> None:
        """Open a receipt of ``publish``, which has no messages, for everything that was settled in the queue so far."""


class Publisher(Protocol):
    """The channel that published a run, or the broker itself (broker/remote_writes.py)."""

    def spend(self, credits: int) -> None:
        """This many more messages were sent to a log and are not yet received."""

    def refund(self, credits: int) -> None:
        """This many of these messages were received or lost."""

    def resolved(self, publish: PendingPublish) -> None:
        """Every receipt of the publish is resolved."""


class Unattended:
    """The publisher of a run that no client waits for, such as a dead letter."""

    def spend(self, credits: int) -> None: ...

    def refund(self, credits: int) -> None: ...

    def resolved(self, publish: PendingPublish) -> None: ...


class PendingPublish:
    """One run on its way to all queues of its route. ``first``, ``last``: its confirm numbers, 0 without confirms."""

    __slots__ = ("_unresolved", "first", "is_received", "is_rejected", "last", "mandatory", "publisher", "run")

    def __init__(
        self, publisher: Publisher, run: list[Message], *, mandatory: bool = False, first: int = 0, last: int = 0
    ) -> None:
        self.publisher = publisher
        self.run = run
        self.mandatory = mandatory
        self.first, self.last = first, last
        self.is_received = False  # by at least one queue
        self.is_rejected = False  # by at least one queue, or lost on the way to it
        self._unresolved = 1  # receipts; one of them stands for the queues of this broker

    def open(self) -> Receipt:
        self._unresolved += 1
        self.publisher.spend(len(self.run))
        return Receipt(self)

    def resolve(self, ack: bool) -> None:
        """One more receipt is resolved."""
        self.is_rejected = self.is_rejected or not ack
        self._unresolved -= 1
        if not self._unresolved:
            self.publisher.resolved(self)


class Receipt:
    """The pending answer of one log for one run. Resolving it twice has no effect."""

    __slots__ = ("_is_open", "_is_unreceived", "_publish")

    def __init__(self, publish: PendingPublish) -> None:
        self._publish = publish
        self._is_open = self._is_unreceived = True

    def received(self) -> None:
        """The queue has the messages: the publisher may send more, and a mandatory message has found its queue."""
        if self._is_open:
            self._publish.is_received = True
            self._refund()

    def granted(self) -> None:
        """The messages are as durable as this log guarantees."""
        self.received()
        self._resolve(ack=True)

    def refused(self) -> None:
        """The queue has rejected the messages."""
        self.received()
        self._resolve(ack=False)

    def lost(self) -> None:
        """The log will never answer: its queue was deleted, or its node is gone."""
        self._resolve(ack=False)

    def _refund(self) -> None:
        if self._is_unreceived:
            self._is_unreceived = False
            self._publish.publisher.refund(len(self._publish.run))

    def _resolve(self, *, ack: bool) -> None:
        if self._is_open:
            self._is_open = False
            self._refund()
            self._publish.resolve(ack)
