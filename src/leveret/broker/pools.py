"""A pool: several queues that a consumer sees as one, such as the shards behind a pseudo-queue.

A pool assigns queues to its followers and calls them whenever their queues change. The session provides the followers
(session/pooled_consumer.py), the sharding package the pools.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from leveret.queues.declared_queue import DeclaredQueue


class Follower(Protocol):
    """One consumer of a pool."""

    def follow(self, queues: Sequence[DeclaredQueue]) -> None:
        """Consume from exactly these queues from now on."""


class Pool(Protocol):
    def enter(self, follower: Follower, everything: bool) -> None:
        """Assign queues to it, now and whenever they change. ``everything``: all queues instead of a share."""

    def leave(self, follower: Follower) -> None: ...

    def local(self) -> list[DeclaredQueue]:
        """The queues of this node, in order."""

    def draining(self) -> list[DeclaredQueue]:
        """Queues that receive no more messages and still hold some."""

    def first(self) -> DeclaredQueue:
        """The queue that a declare of the pool's name refers to; NotFound if there is none."""
