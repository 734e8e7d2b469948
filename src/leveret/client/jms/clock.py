"""The time of the client: what waits for a while asks here, so that a test can say what time it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    def now(self) -> float:
        """Seconds; means something only against another now()."""

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer: ...


class LoopClock:
    """The time of the running event loop."""

    __slots__ = ()

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, callback)
