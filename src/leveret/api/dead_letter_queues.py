"""Dead-letter queues: the queues that messages dead-lettered by other queues are routed to.

A queue gets its dead-letter exchange, and optionally a routing key, from its arguments, from a policy, or from the
option of one dead-letter queue per queue. With a key, the bindings for that key apply. Without one, or if the exchange
uses more than the key, all queues bound to the exchange count. Streams are left out: they cannot be redriven.
"""

from __future__ import annotations

from itertools import islice

from leveret.broker.dead_letter_paths import reached_by
from leveret.broker.vhost import Vhost
from leveret.http.time_slice import TimeSlice
from leveret.queues.declared_queue import DeclaredQueue

Way = tuple[str, str | None]  # exchange and key

MOST_NAMED = 20  # source queues named per dead-letter queue; the others are only counted


class Senders:
    """The queues that may dead-letter to the queue ``at``. Only some names are stored: thousands of queues may share
    thousands of dead-letter queues."""

    __slots__ = ("at", "count", "names")

    def __init__(self, at: str) -> None:
        self.at = at
        self.names: list[str] = []
        self.count = 0

    def add(self, names: list[str], *, with_itself: bool) -> None:
        self.count += len(names) - with_itself
        if len(self.names) < MOST_NAMED:
            others = (name for name in names if name != self.at)
            self.names += islice(others, MOST_NAMED - len(self.names))


async def dead_letter_queues(vhost: Vhost) -> dict[str, Senders]:
    """Dead-letter queues by name, each with the queues that may dead-letter to it. Runs in time slices."""
    ways: dict[str, Way] = {}
    senders: dict[Way, list[str]] = {}
    time_slice = TimeSlice()
    for queue in list(vhost.queues.values()):
        way = _way_of(queue)
        if way is not None:
            ways[queue.name] = way
            senders.setdefault(way, []).append(queue.name)
        await time_slice.pause_if_over()
    found: dict[str, Senders] = {}
    for way, names in senders.items():
        for reached in reached_by(vhost, *way):
            if reached in vhost.queues and not vhost.queues[reached].has_offsets:
                known = found.get(reached) or found.setdefault(reached, Senders(reached))
                known.add(names, with_itself=ways.get(reached) == way)
            await time_slice.pause_if_over()
        await time_slice.pause_if_over()
    return found


def _way_of(queue: DeclaredQueue) -> Way | None:
    target = queue.options.dead_letter
    if target is None:
        return None
    return target.exchange, target.key_of(queue.name)
