"""Runs a client scenario on its own event loop, or in threads, with a time limit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from queue import Queue

from leveret.client import Connection, blocking, connect

SECONDS = 60.0
PATIENCE = 60.0  # of a thread
Story = Callable[[Connection], Awaitable[object]]


def live(url: str, story: Story) -> None:
    """Connects, runs the scenario, and closes."""

    async def life() -> None:
        async with asyncio.timeout(SECONDS), await connect(url) as connection:
            await story(connection)

    asyncio.run(life())


def run(story: Callable[[], Awaitable[object]]) -> None:
    """Runs a scenario that connects by itself."""

    async def life() -> None:
        async with asyncio.timeout(SECONDS):
            await story()

    asyncio.run(life())


# ---- in threads


def queue_with(channel: blocking.Channel, *bodies: bytes) -> str:
    queue = channel.declare_queue(exclusive=True).queue
    for body in bodies:
        channel.send(body, "", queue)
    return queue


def in_thread(outcome: Queue[object], call: Callable[[], object]) -> threading.Thread:
    """Starts a thread; the result or the exception is put into the queue."""

    def run() -> None:
        try:
            outcome.put(call())
        except Exception as problem:  # it is the outcome
            outcome.put(problem)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread
