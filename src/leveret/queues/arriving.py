"""Messages that a queue must look at one by one when they come: each to the lane of its priority, with its deadline
watched where that is needed.  Hot path.

Messages that die no earlier than all before them in their lane need no entry among the deadlines: whoever looks at the
front of the lane sees them in time. ``Lane.in_turn`` is the latest deadline up to which that is so; a message without
one makes it infinite, until the lane is empty again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.message import NEVER, Message, Traits
from leveret.queues.expiry import dying_by, watch_deadlines

if TYPE_CHECKING:
    from leveret.queues.classic import ClassicQueue
    from leveret.queues.lane import Lane


def take_closely(queue: ClassicQueue, run: list[Message], timed: bool) -> None:
    if timed:
        watch_deadlines(queue)
    if queue.options.ttl is not None:
        run = dying_by(queue.surroundings.now() + queue.options.ttl, run)
    if len(queue.lanes) == 1:
        _take(queue, queue.lane, run)
        return
    lanes, highest = queue.lanes, len(queue.lanes) - 1
    if queue.deadlines is None:
        for message in run:
            priority = message[2].priority
            lanes[priority if priority < highest else highest].incoming.append(message)
        return
    for message in run:
        _take(queue, lanes[min(message[2].priority, highest)], [message])


def _take(queue: ClassicQueue, lane: Lane, run: list[Message]) -> None:
    if queue.deadlines is not None:
        sequence = lane.tail
        in_turn = lane.in_turn if len(lane) else 0.0
        if queue.surroundings.watches_all:
            in_turn = NEVER
        last: Traits | None = None
        deadline, is_early = 0.0, False
        for traits in [message[2] for message in run]:
            if traits is not last:
                last, deadline = traits, traits.deadline
                is_early = deadline < in_turn
                if not is_early:
                    in_turn = deadline
            if is_early:
                queue.deadlines.watch(lane.number, sequence, deadline)
            sequence += 1
        lane.in_turn = in_turn
    lane.incoming.extend(run)
