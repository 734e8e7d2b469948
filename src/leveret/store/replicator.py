"""The contract between the store and a replicated log. Without one, batches go from the journal to the writer directly.

With one, a batch is done when both are done with it: the writer, and the log.
"""

from __future__ import annotations

from typing import Protocol

from leveret.store.batch import Batch
from leveret.store.batch_queue import BatchWriter


class LocalWriter(BatchWriter, Protocol):
    """The writer of this node's journal: server/flusher.py."""

    def finish(self, batch: Batch) -> None:
        """This batch, and with it all before, is done: grant it."""

    def give_up(self, reason: str) -> None:
        """Write and grant nothing more: another node leads."""


class StreamProgress(Protocol):
    """How far the files of this node's streams are, which are written after the journal: store/stream_log.py."""

    def granted(self) -> dict[int, int]:
        """For each stream the sequence below which all messages are granted."""

    def are_synced(self, granted: dict[int, int]) -> bool:
        """Whether the files have all messages below these sequences."""


class Replicator(BatchWriter, Protocol):
    """Takes the place of the writer: replication/journal_replicator.py. All calls are on the loop."""

    @property
    def accepts_damage(self) -> bool:
        """Whether damaged parts of the journal are left out, as without a log. Otherwise another member must lead."""

    def start(self, writer: LocalWriter, streams: StreamProgress) -> None:
        """Pass batches on to this writer."""

    def trimmed(self, queue: int, first: int) -> None:
        """The files of this stream begin at the offset ``first`` now: other members may remove what is below."""

    def written(self, batch: Batch) -> None:
        """The writer has done this batch, and with it all before."""

    def failed(self, problem: OSError) -> None:
        """The writer could not do the batches in flight. Nothing more is granted."""

    def damaged(self, reason: str) -> None:
        """A part of the journal cannot be read here, and other members have it. Nothing more is granted."""
