"""A pause between requests while there are no new messages."""

from __future__ import annotations

import time


class IdlePause:
    """Limits requests to the broker: while there are no messages, Spark requests offsets every few milliseconds."""

    SECONDS = 0.1

    def __init__(self) -> None:
        self._idle_since: float | None = None

    def note(self, *, changed: bool) -> None:
        self._idle_since = None if changed else time.monotonic()

    def wait(self) -> None:
        if self._idle_since is not None:
            time.sleep(min(max(self._idle_since + self.SECONDS - time.monotonic(), 0), self.SECONDS))
