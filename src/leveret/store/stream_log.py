"""Streams and the log: the time of their messages, and how far their files are behind the journal.

The files of a stream are written after the journal (queues/stream_writer.py). Members of a cell write these files
themselves, from the records of the journal (store/replica_streams.py). For the same contents everywhere, a message has
the time of its record: ``arrival`` fixes the time of the records that are drafted next. Retention is applied by the
leader alone, and ``trimmed`` passes its result to the other members.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leveret.store.replicator import Replicator

LANE = 0  # of all messages of a stream


class StreamLog:
    """The part of the log that only streams use; as it is, of a log in memory."""

    def add(self, queue: int) -> None:
        """The queue is a stream."""

    def forget(self, queue: int) -> None:
        """The queue is deleted."""

    def arrival(self) -> int:
        """The time of messages that are appended now, in microseconds since 1970; 0: the log does not keep it."""
        return 0

    def trimmed(self, queue: int, first: int) -> None:
        """Retention has removed all messages below the offset ``first`` from the files."""

    # ---- for the replicator

    def start(self, replicator: Replicator) -> None:
        """Pass retention on to the other members."""

    def granted(self) -> dict[int, int]:
        """For each stream the sequence below which all messages are granted."""
        return {}

    def are_synced(self, granted: dict[int, int]) -> bool:
        """Whether the files have all messages below these sequences."""
        return True


def microseconds(time: float) -> int:
    """As it is stored in the files of streams."""
    return int(time * 1_000_000)
