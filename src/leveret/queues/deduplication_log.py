"""The IDs for deduplication of one queue, in the log: tiny messages, one for each ID, that are never consumed.

They are not a queue in memory, where queues/duplicates.py holds the IDs; but they have an id and a definition like a
queue, so that recovery, reclaim and backup treat them as one. Appended at the end, removed at the front.
"""

from __future__ import annotations

from collections.abc import Callable

from leveret.backlog.scattered_read import ScatteredRead
from leveret.message import NEVER, PERSISTENT, Address, Traits
from leveret.store.log import Log, Placement
from leveret.store.pages import Loaded, Pages
from leveret.wire.constants import DEFAULT_FRAME_MAX
from leveret.wire.content import body_of, make_content
from leveret.wire.properties import Properties

NOWHERE = Address("", "", 1, DEFAULT_FRAME_MAX)

Take = Callable[[int, bytes, float], None]  # sequence, key, deadline


class DeduplicationLog:
    __slots__ = ("_log", "_pages", "first", "id", "name", "next")

    def __init__(self, id_: int, name: str, log: Log, pages: Pages | None) -> None:
        self.id = id_
        self.name = name
        self.first = self.next = 1  # sequences
        self._log = log
        self._pages = pages

    def restore(self, first: int, stop: int) -> None:
        """Set the range that was on disk before the start."""
        self.first, self.next = first, stop

    def append(self, key: bytes, deadline: float, synced: bool) -> None:
        traits = PERSISTENT if deadline == NEVER else Traits(persistent=True, deadline=deadline)
        content = make_content(Properties(), key)
        self._log.append([(content, NOWHERE, traits)], [Placement(self.id, 0, self.next, 1)], synced)
        self.next += 1

    def forget(self, upto: int) -> None:
        """Remove the IDs below this sequence."""
        if upto > self.first:
            self._log.settle(self.id, 0, self.first, upto - self.first)
            self.first = upto

    @property
    def safe_below(self) -> int:
        """The first sequence that is not on disk yet."""
        return self.next if self._pages is None else self._pages.synced(self.id, 0)

    def read(self, take: Take, done: Callable[[], None]) -> None:
        """Read all IDs, in order; damaged ones are left out."""

        def loaded(found: list[Loaded], missing: list[int]) -> None:
            for sequence, (content, _, traits), _ in found:
                take(sequence, body_of(content), traits.deadline)

        if self._pages is None:
            done()
        else:
            ScatteredRead(self._pages, self.id, 0, range(self.first, self.next), loaded, done).go_on()
