"""Which records of the log count. Every member reads the same records in the same order and must conclude the same.

A BATCH record counts if it has the epoch of the last claim, and is the next part of the next batch. A CLAIM counts if
its epoch is higher than the last. All other records are void: what a deposed leader still had under way, and records
that the engine stored although it had refused the one before. A batch whose last part is missing when the next claim
comes is dropped: it was never granted, and the new leader uses its number again.

A gap in the sequences is an error, as is a record that cannot be explained: a member that skips one would have other
data than the rest from there on.
"""

from __future__ import annotations

from typing import NamedTuple

from leveret.errors import ClusterError
from leveret.replication.claims import Claim, Position, decode_claim
from leveret.replication.records import CLAIM, MOST_PARTS, Head, body_of, read_head

REJOIN = "Stop this node, remove its data directory, and start it again: it will copy the leader's data"


class Completed(NamedTuple):
    """A batch of which all parts were read."""

    position: Position
    body: bytes | memoryview


class LogReader:
    def __init__(self, cell: int, position: Position, leader: Claim | None = None) -> None:
        """Continue behind ``position``. ``leader``: the claim of its epoch, if it is known."""
        self.leader = leader
        self.voids = 0  # records that did not count
        self._cell = cell
        self._sequence, self._epoch, self._batch = position
        self._parts: list[memoryview] = []

    @property
    def position(self) -> Position:
        """Up to where the log was read, and the last whole batch."""
        return Position(self._sequence, self._epoch, self._batch)

    def read(self, sequence: int, payload: bytes) -> Claim | Completed | None:
        """What this record completes, if anything. A record that was read before is ignored."""
        if sequence <= self._sequence:
            return None
        if sequence != self._sequence + 1:
            raise ClusterError(
                f"records {self._sequence + 1} to {sequence - 1} are not in the replicated log any more: this node was "
                f"away for too long. {REJOIN}"
            )
        head = read_head(payload, self._cell, sequence)
        self._sequence = sequence
        if head is not None and head.kind == CLAIM:
            return self._claimed(head, payload)
        if head is not None and self._counts(head):
            return self._part(head, payload)
        self.voids += 1
        return None

    def _claimed(self, head: Head, payload: bytes) -> Claim | None:
        if head.epoch <= self._epoch:
            self.voids += 1
            return None
        if head.batch != self._batch + 1:
            raise ClusterError(
                f"epoch {head.epoch} of the replicated log begins with batch {head.batch}, but this node has batches "
                f"up to {self._batch}: its data directory belongs to another log. {REJOIN}"
            )
        self._parts.clear()
        self._epoch = head.epoch
        self.leader = decode_claim(head, self._sequence, payload)
        return self.leader

    def _counts(self, head: Head) -> bool:
        if head.epoch > self._epoch:
            raise ClusterError(
                f"record {self._sequence} of the replicated log is of epoch {head.epoch}, whose claim this node has "
                f"not read (it knows epoch {self._epoch}): its data directory belongs to another log. "
                f"{REJOIN}"
            )
        return (head.epoch, head.batch, head.part) == (self._epoch, self._batch + 1, len(self._parts))

    def _part(self, head: Head, payload: bytes) -> Completed | None:
        if head.part >= MOST_PARTS:
            raise ClusterError(
                f"batch {head.batch} of the replicated log has over {MOST_PARTS} parts: upgrade this node"
            )
        self._parts.append(body_of(payload))
        if not head.is_last:
            return None
        parts, self._parts = self._parts, []
        self._batch = head.batch
        return Completed(self.position, parts[0] if len(parts) == 1 else b"".join(parts))
