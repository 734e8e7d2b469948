"""A log that stores nothing: for embedded brokers without a data directory, and tests. Grants everything at once."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from leveret.message import Message
from leveret.store.definitions import Change
from leveret.store.log import GRANTED, LogListener, NoListener, Placement
from leveret.store.stream_log import StreamLog


class MemoryLog:
    def __init__(self) -> None:
        self.issued = GRANTED
        self.listener: LogListener = NoListener()
        self.streams = StreamLog()

    def append(self, messages: Sequence[Message], placements: Sequence[Placement], synced: bool = True) -> int:
        return GRANTED

    def settle(self, queue: int, lane: int, sequence: int, number: int) -> None:
        pass

    def returned(self, queue: int, lane: int, sequence: int, number: int, tries: int) -> None:
        pass

    def forget(self, queue: int) -> None:
        pass

    def record(self, change: Change) -> int:
        return GRANTED

    def promise(self) -> int:
        return GRANTED

    def group(self) -> AbstractContextManager[None]:
        return nullcontext()

    def flush(self) -> None:
        pass
