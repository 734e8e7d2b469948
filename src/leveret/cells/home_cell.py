"""The other cells, where remote queues are, as the queues of each virtual host see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from leveret.broker.broker import Broker
from leveret.cells.link import MOST_CHANNELS, Link
from leveret.errors import AmqpError, NotFound, PreconditionFailed

if TYPE_CHECKING:
    from leveret.cells.remote_replies import RemoteReplies

PATIENCE = 10.0  # seconds that publishes and requests wait for a cell that is away


class LinkedQueue(Protocol):
    def link_is_up(self) -> None:
        """Both links are connected again."""


class HomeCell:
    """One cell, for one virtual host. There are two links: when the home cell blocks publishers, it reads nothing more
    from the first, and acks must go on."""

    def __init__(self, name: str, broker: Broker) -> None:
        self.name = name
        self.publishing = Link(broker)
        self.consuming = Link(broker)
        self.queues: dict[LinkedQueue, None] = {}
        self.replies: RemoteReplies | None = None  # to requesters there
        self.is_away = False  # requests have waited for it in vain: the next ones fail at once

    @property
    def is_up(self) -> bool:
        return self.publishing.is_up and self.consuming.is_up

    @property
    def is_reachable(self) -> bool:
        """Whether one link is up, at least. Those to a cell that is hung are lost after some seconds."""
        return self.publishing.is_up or self.consuming.is_up

    def link_is_up(self) -> None:
        self.is_away = False
        for queue in list(self.queues):
            queue.link_is_up()
        if self.replies is not None:
            self.replies.link_is_up()

    def unreachable(self, queue: str, vhost: str) -> AmqpError:
        if self.consuming.is_full:
            return PreconditionFailed(
                f"no channel to home cell '{self.name}' of queue '{queue}' in vhost '{vhost}': all {MOST_CHANNELS} are "
                "in use, one for each consumer: consume in that cell"
            )
        return NotFound(f"home cell '{self.name}' of queue '{queue}' in vhost '{vhost}' is down or inaccessible")
