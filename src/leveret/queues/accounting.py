"""What a queue holds in memory, told to the gauge of the broker.  Hot path.

What is on disk only does not count, be it paged out or leased. Whoever holds too much pages out here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.queues.surroundings import PER_MESSAGE

if TYPE_CHECKING:
    from leveret.queues.classic import ClassicQueue


def account(queue: ClassicQueue) -> None:
    gauge, pager = queue.surroundings.gauge, queue.pager
    here = queue.bytes
    messages = queue.unacked
    if pager is not None:
        if pager.withheld is not None:
            messages -= pager.withheld.number
        here -= pager.elsewhere
        if here > pager.limit or gauge.is_short:
            pager.page_out(gauge.is_short)
            here = queue.bytes - pager.elsewhere
    received = 0
    for lane in queue.lanes:
        ready = len(lane.ready)
        messages += ready + len(lane.returned) - lane.holes
        if lane.page_stop:
            messages += len(lane.fresh)
            received += lane.page_stop + len(lane.fresh) - 1
        else:
            received += lane.head + ready - 1
    held = here + messages * PER_MESSAGE
    gauge.used += held - queue.accounted
    queue.accounted = held
    queue.counters.received = received
