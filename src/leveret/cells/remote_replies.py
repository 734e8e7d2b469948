"""Replies to requesters in another cell (queues/direct_reply.py).

All replies to one cell go through one channel with confirms, which addresses another reply queue whenever the requester
changes. So nothing is kept for a requester, whose queue exists in its own cell only. That cell returns replies to a
requester that has gone, which is no error: they count as unroutable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, Self

from leveret.cells.home_cell import HomeCell
from leveret.cells.remote_publishes import RemotePublishes, Sent
from leveret.cells.remote_requests import RemoteRequests
from leveret.delivery.receipts import PendingPublish, Publisher, Receipt, RemoteLog
from leveret.errors import AmqpError
from leveret.message import Message
from leveret.queues.context import QueueContext
from leveret.queues.direct_reply import REPLY_TO
from leveret.queues.duplicates import Duplicates
from leveret.queues.limits import Limits
from leveret.store.log import Placement


class ReplyPublishes(RemotePublishes):
    def to(self, queue: str) -> Self:
        """What is published next is for this queue."""
        self._queue = queue
        return self

    def _resolve(self, entry: Sent) -> None:
        if entry.is_lost:
            entry.receipt.unroutable()
        super()._resolve(entry)


class RemoteReplies:
    """To the requesters of one cell, for one virtual host."""

    def __init__(self, vhost: str, home: HomeCell, context: QueueContext) -> None:
        self.publishes = ReplyPublishes(REPLY_TO, home, context)
        self.requests = RemoteRequests(REPLY_TO, vhost, home, context)

    def link_is_up(self) -> None:
        self.publishes.resume()
        self.requests.resume()


class ReplyQueueProxy:
    """What routes lead to: a name, and the log that sends replies there."""

    __slots__ = ("_replies", "dirty", "name", "remote_log")

    alive = True
    stored = synced = keeps_all = can_reject = False
    limits: Limits | None = None
    duplicates: Duplicates | None = None
    reachable_cell = ""  # responders do not move to the cells of their requesters

    def __init__(self, name: str, replies: RemoteReplies) -> None:
        self.name = name
        self.dirty = False
        self.remote_log: RemoteLog | None = self
        self._replies = replies

    def look_up(self, answered: Callable[[AmqpError | None], None]) -> None:
        self._replies.requests.count_of(
            self.name, lambda answer: answered(answer if isinstance(answer, AmqpError) else None)
        )

    # ---- delivery.receipts.RemoteLog

    def submit(self, size: int, timed: bool, publish: PendingPublish) -> None:
        self._replies.publishes.to(self.name).submit(size, publish.run, publish)

    def forward(self, size: int, timed: bool, run: list[Message], publisher: Publisher) -> None:
        self._replies.publishes.to(self.name).forward(size, run, publisher)

    def sync(self, publish: PendingPublish) -> None:
        """Nothing is settled here."""

    def unanswered(self) -> list[Receipt]:
        return self._replies.publishes.unanswered()

    # ---- queues.queue.Queue

    def publish(self, run: list[Message], size: int, timed: bool) -> NoReturn:
        raise AssertionError("a remote queue gets its messages through its log")

    def place(self, run: list[Message], size: int, timed: bool) -> list[Placement]:
        raise AssertionError("the cell of the requester has its messages")

    def drain(self) -> None: ...

    def touch(self) -> None: ...
