"""The batches between the journal and the writer: the one being filled, those in flight, and what waits for disk space.

A write that fails for want of space, or of file descriptors, is repeated when there is some: its records are taken out
of the batches in flight and *held*, without a place on disk. Meanwhile settles alone are written, to a reserve, since
they free space. Each failure begins a new era; the writer drops batches of earlier ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from leveret.store.batch import Batch, Group, Unit
from leveret.store.layout import Layout
from leveret.store.records import SETTLE


class BatchWriter(Protocol):
    """Where batches go. ``Journal.done`` or ``Journal.failed`` follows, on the loop."""

    def submit(self, batch: Batch) -> None:
        """Write the batch, after all that were submitted before."""

    def submit_later(self) -> None:
        """Call ``Journal.hand_over`` in a while."""

    def wait_for_acks(self) -> None:
        """Call ``Journal.acks_awaited`` after ``ack_wait.WAIT`` seconds."""


class BatchQueue:
    def __init__(self, layout: Layout, always_sync: bool) -> None:
        self.layout = layout
        self.writer: BatchWriter | None = None  # until Journal.start
        self.next = Batch(0)
        self.in_flight: deque[Batch] = deque()
        self.held: list[Group | Unit] | None = None  # while the disk is full: what waits for space
        self.is_stuck = False  # so full that not even settles can be written
        self.always_sync = always_sync
        self.era = 0  # one more with each failure
        self._written = (1, 0)  # segment and offset up to which all is written
        self._when_written: list[Callable[[], None]] = []

    def place(self, group: Group) -> None:
        """Put a group into the next batch, or hold it while there is no space."""
        if not group:
            return
        if self.held is not None and (self.is_stuck or group[0].kind != SETTLE):
            self.held.append(group)
        else:
            self.layout.place(group, self.next)

    def submit(self, receipt: int) -> None:
        """Send the next batch to the writer, if there is anything in it; ``receipt`` is granted when it is done."""
        batch = self.next
        batch.removals += self.layout.segments.take_dead()
        if not batch.is_needed:
            return
        assert self.writer is not None
        batch.receipt = receipt
        batch.sync = batch.sync and self.always_sync
        batch.end = self.layout.end
        self.clear_next()
        self.in_flight.append(batch)
        self.writer.submit(batch)

    def clear_next(self) -> None:
        self.next = Batch(self.era)

    # ---- from the writer

    def finish(self, batch: Batch) -> None:
        """The writer has done this batch, and with it all before."""
        first: Batch | None = None
        while self.in_flight and first is not batch:
            first = self.in_flight.popleft()
            self.layout.finish(first)
        for segment in self.layout.segments:
            if segment.is_sealed and not segment.is_safe and segment.id < batch.end[0]:
                segment.is_safe = True  # the writer syncs a segment before it begins the next
        self._written = batch.end

    def take_back(self) -> list[Batch]:
        """The writer could not do the batches in flight: nothing of them, nor of the next one, counts as placed."""
        batches = [*self.in_flight, self.next]
        self.in_flight.clear()
        self.era += 1
        self.clear_next()
        for batch in reversed(batches):
            self._undo(batch)
        return batches

    def _undo(self, batch: Batch) -> None:
        """Copies are not made and files are not removed: what they were to replace is still there."""
        self.layout.undo_returns(batch.noted)
        for id_ in batch.removals:
            self.layout.segments[id_].is_going = False
        for group in batch.groups:
            for draft in group:
                if draft.home is not None:
                    self.layout.move_back(draft)
        batch.groups = [group for group in batch.groups if group[0].home is None]

    # ---- shortage of space

    def hold(self, batches: list[Batch]) -> None:
        """There was no space for these batches: their records wait until there is."""
        self.is_stuck = self.held is not None  # even the reserve was not enough
        held, self.held = self.held or [], []
        self.layout.leave_segment()
        for batch in batches:
            self.next.changes += batch.changes
            self.next.sync = self.next.sync or batch.sync
            for group in batch.groups:
                self.layout.pin(group)
                self.place(group)
        self.held += held
        self.call_when_written()
        if not self.is_stuck:
            self.begin_segment()  # a run of the broker without a segment would look like a clean shutdown

    def release(self) -> list[Group | Unit]:
        """There is space again: what was held, to be placed."""
        held, self.held, self.is_stuck = self.held or [], None, False
        if self.layout.is_between:
            self.begin_segment()
        return held

    def begin_segment(self) -> None:
        self.next.write(self.layout.roll().id, [])

    @property
    def held_bytes(self) -> int:
        return sum(
            group.size if isinstance(group, Unit) else sum(draft.size for draft in group) for group in self.held or ()
        )

    # ---- for readers of the journal

    def start_at(self, segment: int) -> None:
        """All before this segment was written by previous runs."""
        self._written = (segment, 0)

    def is_written(self, segment: int, offset: int) -> bool:
        """Whether the record there can be read: a copy has its place before it is written."""
        return (segment, offset) < self._written

    def when_written(self, call: Callable[[], None]) -> None:
        """Call back when more is written, or never will be."""
        self._when_written.append(call)

    def call_when_written(self) -> None:
        calls, self._when_written = self._when_written, []
        for call in calls:
            call()
