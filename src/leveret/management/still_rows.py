"""Rows of queues to which nothing happens, kept as they were written.

Who asks for ten thousand queues every five seconds asks mostly for the same again. A queue that is empty, whose rates
are zero and whose counters, consumers and policies are those of last time has the same row: it is not made again, which
costs a tenth. All is forgotten when nobody has asked for a while.
"""

from __future__ import annotations

import asyncio
from operator import attrgetter

from leveret.broker.vhost import Vhost
from leveret.management.answers import encoded
from leveret.management.queue_view import QueueView
from leveret.management.stats import Stats
from leveret.queues.classic import ClassicQueue
from leveret.queues.counters import QueueCounters

FORGET_SECONDS = 60.0

counts = attrgetter(*QueueCounters.__slots__)


class StillRows:
    def __init__(self, stats: Stats) -> None:
        self._stats = stats
        self._known: dict[ClassicQueue, tuple[object, bytes]] = {}
        self._forgetting: asyncio.TimerHandle | None = None

    def written(self, view: QueueView, vhost: Vhost, queue: ClassicQueue) -> bytes:
        if queue.ready or queue.unacked or queue.waiting or not self._stats.is_still(queue):
            return encoded(view.row(vhost, queue))
        consumers = queue.consumers
        first, active = next(iter(consumers), None), getattr(consumers, "active", None)
        marks = (
            counts(queue.counters),
            queue.accounted,
            consumers.paused,
            len(consumers),
            None if first is None else (first.tag, first.exclusive),
            None if active is None else active.tag,
            vhost.policies.in_order(),
        )
        known = self._known.get(queue)
        if known is not None and known[0] == marks:
            return known[1]
        row = encoded(view.row(vhost, queue))
        self._known[queue] = (marks, row)
        return row

    def asked(self) -> None:
        """Somebody begins to ask."""
        if self._forgetting is not None:
            self._forgetting.cancel()
        self._known = {queue: known for queue, known in self._known.items() if queue.alive}
        self._forgetting = asyncio.get_running_loop().call_later(FORGET_SECONDS, self._forget)

    def _forget(self) -> None:
        self._known = {}
