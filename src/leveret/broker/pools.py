"""Several queues that consumers see as one: who consumes from the name of a pool is told which queues to take from.

A pool knows its followers and tells them whenever their queues are others. The session brings the followers
(session/pooled.py); the sharding room brings the pools.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from leveret.queues.classic import ClassicQueue


class Follower(Protocol):
    """One consumer of a pool."""

    def follow(self, queues: Sequence[ClassicQueue]) -> None:
        """Consume from just these from now on."""


class Pool(Protocol):
    def enter(self, follower: Follower, everything: bool) -> None:
        """Tell it what to follow, now and whenever that changes. ``everything``: all queues, not its share."""

    def leave(self, follower: Follower) -> None: ...

    def local(self) -> list[ClassicQueue]:
        """The queues of this node, in order."""

    def draining(self) -> list[ClassicQueue]:
        """Queues that get no more messages, and still have some."""

    def first(self) -> ClassicQueue:
        """The one that a declare of the pool's name is about; NotFound if there is none."""
