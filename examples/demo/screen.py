"""The output of the demo while it runs: a live table in a terminal, otherwise a table every few seconds."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from leveret.cli.pipeline_display import table

PLAIN_EVERY = 10  # seconds between two tables where there is no terminal


class Screen:
    def __init__(self) -> None:
        self._is_terminal = sys.stdout.isatty()
        self._lines = 0
        self._shown = float("-inf")

    def show(
        self, seconds: float, heads: Sequence[str], rows: Sequence[Sequence[object]], notes: Sequence[str]
    ) -> None:
        if not self._is_terminal and seconds - self._shown < PLAIN_EVERY:
            return
        self._shown = seconds
        text = "\n" + table(heads, rows) + "".join(f"{note}\n" for note in notes)
        if self._is_terminal and self._lines:
            sys.stdout.write(f"\x1b[{self._lines}A\x1b[J")  # back up, and clear what was there
        sys.stdout.write(text)
        sys.stdout.flush()
        self._lines = text.count("\n")

    def say(self, text: str) -> None:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
        self._lines = 0
