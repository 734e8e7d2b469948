"""Which shards each consumer of a pool consumes from.

A consumer has one shard of its node, so that all shards have the same number of consumers, plus or minus one; and all
draining shards, since held messages wait for them to be empty. Consumers with ``x-shard-all`` have all shards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from leveret.broker.pools import Follower
from leveret.queues.declared_queue import DeclaredQueue


class ConsumerAssignment:
    def __init__(self) -> None:
        self._everything: dict[Follower, None] = {}
        self._own: dict[Follower, DeclaredQueue | None] = {}

    def enter(self, follower: Follower, everything: bool) -> None:
        if everything:
            self._everything[follower] = None
        else:
            self._own[follower] = None

    def leave(self, follower: Follower) -> None:
        self._everything.pop(follower, None)
        self._own.pop(follower, None)

    def share(
        self,
        shards: Sequence[DeclaredQueue],
        local: Sequence[DeclaredQueue],
        draining: Sequence[DeclaredQueue],
        only: Follower | None,
    ) -> None:
        """Assign the shards of all consumers, or of a new one."""
        self._assign(local, may_move=only is None)
        for follower in [*self._everything]:
            if only in (None, follower):
                follower.follow([*shards, *draining])
        for follower, own in [*self._own.items()]:
            if only in (None, follower):
                follower.follow([*([] if own is None else [own]), *draining])

    def _assign(self, local: Sequence[DeclaredQueue], may_move: bool) -> None:
        if not local:
            return
        counts: Counter[DeclaredQueue] = Counter(dict.fromkeys(local, 0))
        for follower, own in self._own.items():
            if own is not None and own in counts:
                counts[own] += 1
            else:
                self._own[follower] = None
        for follower, own in self._own.items():
            if own is None:
                fewest = min(local, key=lambda queue: (counts[queue], len(queue.consumers)))
                self._own[follower] = fewest
                counts[fewest] += 1
        if may_move:
            self._even_out(local, counts)

    def _even_out(self, local: Sequence[DeclaredQueue], counts: Counter[DeclaredQueue]) -> None:
        for follower, own in [*self._own.items()]:
            fewest = min(local, key=lambda queue: counts[queue])
            if own is not None and counts[own] - counts[fewest] > 1:
                counts[own] -= 1
                counts[fewest] += 1
                self._own[follower] = fewest
