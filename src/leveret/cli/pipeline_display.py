"""Progress of a pipeline: one updated line on a terminal, otherwise one line per batch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from leveret.cli.tables import plain_table

if TYPE_CHECKING:
    from leveret.spark.jobs.running_job import Progress

CLEAR = "\r\x1b[K"


class Display:
    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._is_terminal = out.isatty()
        self._batches = 0
        self._begun = time.monotonic()
        self._open = False

    def show(self, progress: Progress) -> None:
        if self._is_terminal:
            self._out.write(f"{CLEAR}{line_of(progress, time.monotonic() - self._begun)}")
            self._out.flush()
            self._open = True
        elif progress.batches > self._batches:
            self._batches = progress.batches
            self.note(line_of(progress, time.monotonic() - self._begun))

    def note(self, text: str) -> None:
        self._out.write(f"{CLEAR if self._open else ''}{text}\n")
        self._out.flush()
        self._open = False

    def close(self) -> None:
        """End the current line."""
        if self._open:
            self._out.write("\n")
            self._open = False


def line_of(progress: Progress, seconds: float) -> str:
    lag = "-" if progress.lag is None else f"{progress.lag:,}"
    return (
        f"{seconds:6.0f} s  batches {progress.batches:,}  rows {progress.rows:,}  rate {progress.rate:,.0f}/s  "
        f"lag {lag}  last batch {progress.batch_ms:,} ms"
    )


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    return "".join(f"{line}\n" for line in plain_table(heads, rows)) if heads else ""
