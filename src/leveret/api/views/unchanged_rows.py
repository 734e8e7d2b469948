"""Rows of queues to which nothing happens, kept as they were written.

Who asks for ten thousand queues every five seconds asks mostly for the same again. A queue whose rates are zero and
whose counters, messages, consumers and policies are those of last time has the same row, but for the age of its first
message: it is not made again, which costs a tenth. All is forgotten when nobody has asked for a while.
"""

from __future__ import annotations

import asyncio
from operator import attrgetter

from leveret.api.views.queue import AGE, QueueView
from leveret.backlog.counters import QueueCounters
from leveret.broker.vhost import Vhost
from leveret.http.responses import encoded
from leveret.queues.declared_queue import DeclaredQueue
from leveret.stats.stats import Stats

FORGET_SECONDS = 60.0
NO_AGE = f',"{AGE}":null}}'.encode()

counts = attrgetter(*QueueCounters.__slots__)
sizes = attrgetter("accounted", "bytes", "held", "unacked")


class StillRows:
    def __init__(self, stats: Stats) -> None:
        self._stats = stats
        self._known: dict[DeclaredQueue, tuple[object, bytes]] = {}
        self._forgetting: asyncio.TimerHandle | None = None

    def written(self, view: QueueView, vhost: Vhost, queue: DeclaredQueue) -> bytes:
        ready = queue.ready
        if queue.delayed_messages or not self._stats.is_still(queue) or (ready and queue.has_offsets):
            return encoded(view.row(vhost, queue))
        marks = (ready, counts(queue.counters), sizes(queue), _seen_of(queue), vhost.policies.in_order())
        known = self._known.get(queue)
        if known is None or known[0] != marks:
            row = view.row(vhost, queue)
            del row[AGE]
            known = self._known[queue] = (marks, encoded(row)[:-1])
        if not ready:
            return known[1] + NO_AGE
        age = view.oldest_age(queue, queue.first_message())
        return b'%b,"%b":%b}' % (known[1], AGE.encode(), encoded(age))

    def asked(self) -> None:
        """Somebody begins to ask."""
        if self._forgetting is not None:
            self._forgetting.cancel()
        self._known = {queue: known for queue, known in self._known.items() if queue.alive}
        self._forgetting = asyncio.get_running_loop().call_later(FORGET_SECONDS, self._forget)

    def _forget(self) -> None:
        self._known = {}


def _seen_of(queue: DeclaredQueue) -> tuple[object, ...]:
    """What a row tells of consumers, and of messages on disk; of most queues it is the same nothing."""
    consumers, pager = queue.consumers, None if queue.backlog is None else queue.backlog.pager
    paged = 0 if pager is None else pager.bytes
    if not consumers:
        return paged, consumers.paused
    first, active = next(iter(consumers)), getattr(consumers, "active", None)
    return paged, consumers.paused, len(consumers), first.tag, first.exclusive, active and active.tag
