"""Waiting for something to become true, always with a limit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pika

PATIENCE = 60.0  # seconds: far more than anything here takes, so that a slow machine is not a failure


def pump(connection: pika.BlockingConnection, condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Let pika handle what comes in until the condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "pika did not see it in time"
        connection.process_data_events(time_limit=0.05)


def until(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Ask again and again what nobody would tell us."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.005)


async def soon(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    """The same inside a loop, which goes on meanwhile."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)
