"""The first cell chooses the cell of a new queue: the one with the fewest queues, or that of the client. A cell
that is taken out of service gets none.

Exclusive and auto-delete queues, and those with a generated name, belong to the connection that declares them, and stay
in its cell. The argument x-queue-leader-locator decides for one queue, the policy key queue-leader-locator for all
queues that match and are declared without the argument.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from leveret.broker.broker import Broker
from leveret.broker.vhost import Vhost
from leveret.queues.declared_queue import HERE, DeclaredQueue, home_of
from leveret.queues.leader_locator import BALANCED


class Placement:
    """broker.cells.QueuePlacement. ``usual``: the locator of queues without one; ``others``: the cells that are
    connected."""

    def __init__(self, broker: Broker, usual: str, others: Callable[[], Iterable[str]]) -> None:
        self._broker = broker
        self._usual = usual
        self._others = others
        self._counts: Counter[str] | None = None  # queues by home, from the first choice on

    def home_of_new(self, vhost: Vhost, name: str, arguments: Mapping[str, object], asked_by: str = HERE) -> str:
        leaving = self._broker.cells.leaving
        locator = vhost.policies.leader_locator(name, arguments) or self._usual
        if asked_by not in leaving and locator != BALANCED:
            return asked_by
        counts = self._counted()
        cells = (HERE, *[cell for cell in self._others() if cell not in leaving])
        fewest = [cell for cell in cells if counts[cell] == min(counts[each] for each in cells)]
        return asked_by if asked_by in fewest else fewest[0]

    def _counted(self) -> Counter[str]:
        if self._counts is None:
            queues = (queue for vhost in self._broker.vhosts.values() for queue in vhost.queues.values())
            self._counts = Counter(home_of(queue) for queue in queues if queue.owner is None)
        return self._counts

    def added(self, queue: DeclaredQueue, number: int = 1) -> None:
        if self._counts is not None and queue.owner is None:
            self._counts[home_of(queue)] += number

    def moved(self) -> None:
        """A queue has moved to another cell: count again."""
        self._counts = None

    def removed(self, queue: DeclaredQueue) -> None:
        self.added(queue, -1)
