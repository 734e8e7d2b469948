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


class Replicator(BatchWriter, Protocol):
    """Takes the place of the writer: replication/journal_replicator.py. All calls are on the loop."""

    def start(self, writer: LocalWriter) -> None:
        """Pass batches on to this writer."""

    def written(self, batch: Batch) -> None:
        """The writer has done this batch, and with it all before."""

    def failed(self, problem: OSError) -> None:
        """The writer could not do the batches in flight. Nothing more is granted."""
