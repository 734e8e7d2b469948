"""Reports the counts of the queues of this cell to the first one, which shows them: those that have changed.

There may be very many queues, so each report is a background task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from leveret.broker.broker import Broker
from leveret.queues.declared_queue import DeclaredQueue

AT_ONCE = 1_000  # queues in one frame, and between two checks of the time slice
Key = tuple[str, str]  # virtual host and queue


class CountsReport:
    def __init__(self, broker: Broker, send: Callable[[dict[str, Any]], None]) -> None:
        self._broker = broker
        self._send = send
        self._known: dict[Key, tuple[int, int]] = {}  # as last reported
        self._seen: dict[Key, tuple[int, int]] = {}  # by the report that is under way
        self._left: Iterator[tuple[Key, DeclaredQueue]] | None = None

    def begin(self) -> None:
        """Unless the last report is still under way."""
        if self._left is None:
            self._seen, self._left = {}, self._queues()
            self._broker.background.begin(self)

    def forget(self) -> None:
        """The first cell needs all of them again."""
        self._known, self._left = {}, None

    def _queues(self) -> Iterator[tuple[Key, DeclaredQueue]]:
        for vhost in [each for each in self._broker.vhosts.values() if not each.cell]:
            for queue in list(vhost.queues.values()):
                if queue.home is None and queue.alive:
                    yield (vhost.name, queue.name), queue

    def step(self) -> bool:
        time_slice = self._broker.background.new_slice()
        while self._left is not None and not time_slice.is_over:
            counts = {key: (queue.ready, queue.unacked) for key, queue in islice(self._left, AT_ONCE)}
            self._seen |= counts
            if changed := [[*key, *value] for key, value in counts.items() if self._known.get(key) != value]:
                self._send({"counts": changed})
            if not counts:
                self._known, self._seen, self._left = self._seen, {}, None
        return self._left is not None
