"""What the journal knows about streams: the time of their records, and how far their files are.

Messages of a stream are settled in the journal once they are synced in its files. So what is live in the journal is
what the files may not have yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.store.lane_log import lane_key
from leveret.store.stream_log import LANE, StreamLog, microseconds

if TYPE_CHECKING:
    from leveret.store.journal import Journal
    from leveret.store.replicator import Replicator


class JournalStreams(StreamLog):
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._queues: set[int] = set()
        self._replicator: Replicator | None = None

    def add(self, queue: int) -> None:
        self._queues.add(queue)

    def forget(self, queue: int) -> None:
        self._queues.discard(queue)

    def arrival(self) -> int:
        return microseconds(self._journal.publish_time())

    def trimmed(self, queue: int, first: int) -> None:
        if self._replicator is not None:
            self._replicator.trimmed(queue, first)

    def start(self, replicator: Replicator) -> None:
        self._replicator = replicator

    def granted(self) -> dict[int, int]:
        lanes = self._journal.lanes
        return {queue: log.synced for queue in self._queues if (log := lanes.get(lane_key(queue, LANE))) is not None}

    def are_synced(self, granted: dict[int, int]) -> bool:
        self._journal.settle_now()
        for queue, stop in granted.items():
            log = self._journal.lanes.get(lane_key(queue, LANE))
            first = None if log is None else log.index.first()
            if first is not None and first < stop:
                return False
        return True
