"""Browses a classic queue without consuming it, in portions that are read on demand.

The walk (backlog/walk.py) visits a few hundred messages per tick, so that a queue of millions does not block the event
loop, and pauses between portions: only one portion is in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from itertools import compress
from typing import NamedTuple

from leveret.backlog.backlog import Backlog
from leveret.backlog.lane import Waiting
from leveret.backlog.walk import STEP, Walk
from leveret.message import Message
from leveret.pipeline.arrow_batches import Rows
from leveret.pipeline.arrow_schema import MOST_BYTES, MOST_ROWS
from leveret.pipeline.topics import AT_ONCE, TopicFilter


class OffsetRange(NamedTuple):
    """Messages with ``start`` <= sequence < ``stop``."""

    partition: int
    start: int
    stop: int
    only: TopicFilter | None = None


class _Portion:
    """Messages that were visited but not yielded yet."""

    def __init__(self, asked: OffsetRange) -> None:
        self._asked = asked
        self._clear()

    def _clear(self) -> None:
        self.messages: list[Message] = []
        self._offsets: list[int] = []
        self._redelivered: list[int] = []  # places
        self._size = 0

    def visit(self, lane: int, waiting: Waiting) -> bool:
        sequence, tries, message = waiting
        if self._asked.only is None or self._asked.only.takes(message[1].key):
            if tries > 0:
                self._redelivered.append(len(self.messages))
            self._offsets.append(sequence)
            self.messages.append(message)
            self._size += len(message[0])
        return False  # the message stays in the queue

    def glance(self, offsets: Sequence[int], messages: list[Message]) -> None:
        """Visit several messages, none of which was delivered before."""
        only = self._asked.only
        if only is not None:
            takes = [only.takes(message[1].key) for message in messages]
            offsets, messages = list(compress(offsets, takes)), list(compress(messages, takes))
        self._offsets += offsets
        self.messages += messages
        self._size += sum([len(message[0]) for message in messages])

    @property
    def is_full(self) -> bool:
        return len(self.messages) + STEP > MOST_ROWS or self._size > MOST_BYTES

    def take(self, queue: str) -> Rows:
        redelivered = [False] * len(self.messages)
        for place in self._redelivered:
            redelivered[place] = True
        rows = Rows(queue, self._asked.partition, self._offsets, redelivered, None, self.messages)
        self._clear()
        return rows


async def rows_of(queue: Backlog, asked: OffsetRange) -> AsyncGenerator[Rows]:
    """The ready messages in delivery order."""
    queue.settle_down()
    progress = asyncio.Event()
    portion = _Portion(asked)
    walk = Walk(queue, portion.visit, progress.set, glance=portion.glance, first=asked.start, stop=asked.stop)
    while not walk.is_over:
        progress.clear()
        if not walk.step(STEP if asked.only is None else AT_ONCE) and not walk.is_over:
            await progress.wait()  # the next messages are on disk
        if portion.is_full:
            yield portion.take(queue.name)
        await asyncio.sleep(0)
    if portion.messages:
        yield portion.take(queue.name)
