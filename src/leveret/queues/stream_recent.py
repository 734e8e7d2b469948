"""The newest messages of a stream, in memory, for readers at its end."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from leveret.store.stream_files import StreamRun

MOST_BYTES = 2 << 20
SWEEP_FROM = 1024  # runs at the front that are gone before the lists are cut


class Recent:
    """Runs in the order of their offsets, without gaps up to the end of the stream."""

    __slots__ = ("_firsts", "_runs", "_start", "bytes", "number")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._runs: list[StreamRun] = []
        self._start = 0  # runs before this index are gone
        self.bytes = 0
        self.number = 0  # of messages

    def covers(self, offset: int) -> bool:
        return self._start < len(self._firsts) and self._firsts[self._start] <= offset

    def add(self, runs: Sequence[StreamRun], size: int) -> None:
        self._firsts += [run.first for run in runs]
        self._runs += runs
        self.bytes += size
        self.number += sum([len(run.messages) for run in runs])
        while self.bytes > MOST_BYTES:
            gone = self._runs[self._start].messages
            self._start += 1
            self.bytes -= sum([len(message[0]) for message in gone])
            self.number -= len(gone)
        if self._start > max(SWEEP_FROM, len(self._runs) // 2):
            del self._runs[: self._start], self._firsts[: self._start]
            self._start = 0

    def since(self, offset: int, most: int) -> list[StreamRun]:
        """Runs with the messages from ``offset`` on, about ``most``; ``offset`` must be covered."""
        found: list[StreamRun] = []
        at = bisect_right(self._firsts, offset) - 1
        number = self._firsts[at] - offset
        while number < most and at < len(self._runs):
            found.append(self._runs[at])
            number += len(self._runs[at].messages)
            at += 1
        return found

    def clear(self) -> None:
        self._firsts.clear()
        self._runs.clear()
        self._start = self.bytes = self.number = 0
