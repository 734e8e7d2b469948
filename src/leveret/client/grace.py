"""How long a refusal after a connection loss counts as temporary.

A broker that has not noticed the loss yet still holds exclusive queues and consumers for the old connection. It notices
after two heartbeat intervals at the latest; until then, refused calls are retried.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from leveret.client.backoff import Backoff
from leveret.errors import AmqpError

WITHOUT_HEARTBEATS = 10.0  # seconds: the broker may never notice, or its system does
SLACK = 1.0  # seconds that the broker may be late
LOCKED, REFUSED = 405, 403


class Grace:
    """Of one connection, for everything that is done again on it: the time runs once for all of it."""

    __slots__ = ("_delays", "_loop", "_tell", "_until")

    def __init__(self, heartbeat: float, tell: Callable[[AmqpError], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._until = self._loop.time() + (2 * heartbeat or WITHOUT_HEARTBEATS) + SLACK
        self._delays = Backoff(initial=0.02, maximum=1.0).delays()
        self._tell = tell

    def end(self) -> None:
        """It is another broker, which knows nothing of our last connection: it means what it says."""
        self._until = 0.0

    def covers(self, problem: AmqpError) -> bool:
        """Whether it is worth while to ask again."""
        is_locked = problem.code == LOCKED or (problem.code == REFUSED and "exclusive" in problem.text)
        if not is_locked or self._loop.time() >= self._until:
            return False
        self._tell(problem)
        return True

    async def pause(self) -> None:
        await asyncio.sleep(next(self._delays))
