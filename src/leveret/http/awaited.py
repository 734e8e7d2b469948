"""Awaits calls that report their outcome to a callback."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from leveret.errors import LeveretError

T = TypeVar("T")


async def awaited(start: Callable[[Callable[[T | LeveretError], None]], object]) -> T:
    """Call ``start`` with a callback, and return the value that the callback receives; an error is raised."""
    future: asyncio.Future[T]
    future, done = future_with_callback()
    start(done)
    return await future


def future_with_callback() -> tuple[asyncio.Future[T], Callable[[T | LeveretError], None]]:
    """A future, and the callback that sets its result or exception."""
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def done(outcome: T | LeveretError) -> None:
        if future.done():
            return  # cancelled: the client has disconnected
        if isinstance(outcome, LeveretError):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)

    return future, done
