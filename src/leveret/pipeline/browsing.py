"""Going through a classic queue without consuming it, in portions that are asked for one by one.

The walk (queues/walking.py) takes a few hundred messages a turn, so that a queue of millions never holds the loop, and
stands still while nobody asks: what is in memory is one portion.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import NamedTuple

from leveret.pipeline.arrow_batches import Rows
from leveret.pipeline.arrow_schema import MOST_BYTES, MOST_ROWS
from leveret.pipeline.topics import TopicFilter
from leveret.queues.classic import ClassicQueue
from leveret.queues.lane import Waiting
from leveret.queues.walking import STEP, Walk


class Asked(NamedTuple):
    """Messages with ``start`` <= sequence < ``stop``."""

    partition: int
    start: int
    stop: int
    only: TopicFilter | None = None


class _Portion:
    """Messages that were met and not yet handed on."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self.found: list[Waiting] = []
        self.size = 0

    def visit(self, lane: int, waiting: Waiting) -> bool:
        sequence, _, (content, address, _) = waiting
        asked = self._asked
        if asked.start <= sequence < asked.stop and (asked.only is None or asked.only.takes(address.key)):
            self.found.append(waiting)
            self.size += len(content)
        return False  # it stays where it is

    @property
    def is_full(self) -> bool:
        return len(self.found) + STEP > MOST_ROWS or self.size > MOST_BYTES

    def take(self, queue: str) -> Rows:
        found, self.found, self.size = self.found, [], 0
        offsets = [sequence for sequence, _, _ in found]
        redelivered = [tries > 0 for _, tries, _ in found]
        return Rows(queue, self._asked.partition, offsets, redelivered, None, [message for _, _, message in found])


async def rows_of(queue: ClassicQueue, asked: Asked) -> AsyncGenerator[Rows]:
    """What is ready, in the order in which it would be delivered."""
    queue.settle_down()
    progress = asyncio.Event()
    portion = _Portion(asked)
    walk = Walk(queue, portion.visit, progress.set)
    while not walk.is_over:
        progress.clear()
        if not walk.step(STEP) and not walk.is_over:
            await progress.wait()  # some of it is on disk
        if portion.is_full:
            yield portion.take(queue.name)
        await asyncio.sleep(0)
    if portion.found:
        yield portion.take(queue.name)
