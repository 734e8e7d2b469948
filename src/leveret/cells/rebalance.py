"""Which queues to move so that all cells have the same share of queues and messages.

The weight of a queue is its share of all queues plus its share of all messages. Queues move from the cell with the most
to the one with the least, one after the other, as long as that makes the difference clearly smaller. Each queue moves
at most once. The same queues and cells give the same proposals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from leveret.broker.cells import Proposal

TOLERANCE = 0.1  # of the mean load of a cell: smaller differences are left


class QueueLoad(NamedTuple):
    vhost: str
    name: str
    cell: str
    messages: int


def proposals(queues: Sequence[QueueLoad], cells: Sequence[str]) -> list[Proposal]:
    """``queues``: those that can be moved. Queues of other cells than these are not considered."""
    here = sorted(queue for queue in queues if queue.cell in cells)
    if not here or len(cells) < 2:
        return []
    total = sum(queue.messages for queue in here)
    weights = {queue: 1 / len(here) + (queue.messages / total if total else 0.0) for queue in here}
    loads = dict.fromkeys(sorted(cells), 0.0)
    for queue in here:
        loads[queue.cell] += weights[queue]
    tolerance = TOLERANCE * sum(loads.values()) / len(loads)
    found: list[Proposal] = []
    left = {cell: [queue for queue in here if queue.cell == cell] for cell in loads}
    while True:
        source, to = max(loads, key=lambda cell: loads[cell]), min(loads, key=lambda cell: loads[cell])
        gap = loads[source] - loads[to]
        fitting = [queue for queue in left[source] if gap - abs(gap - 2 * weights[queue]) > tolerance]
        if not fitting:
            return found
        best = min(fitting, key=lambda queue: abs(gap - 2 * weights[queue]))
        left[source].remove(best)
        reason = f"{source} has {_share(loads[source], loads)} of the load, {to} {_share(loads[to], loads)}"
        loads[source] -= weights[best]
        loads[to] += weights[best]
        found.append(Proposal(best.vhost, best.name, source, to, best.messages, reason))


def _share(load: float, loads: dict[str, float]) -> str:
    return f"{load / sum(loads.values()):.0%}"
