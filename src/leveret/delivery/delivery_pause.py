"""A pause of all deliveries of a broker: its replicated log does not answer, so another node may lead soon.

A broker with a replicated log delivers until a deadline, which moves on while the log answers. The deadline is checked
before messages leave a queue: a process that was stopped for a while finds it exceeded, whichever of its callbacks
runs first. All queues are paused by their consumer rings, at no cost while there is no pause; fetches wait here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

NO_ANSWER = "the replicated log does not answer"


class PauseListener(Protocol):
    def deliveries_paused(self, reason: str) -> None:
        """Deliver nothing any more."""

    def deliveries_resumed(self) -> None:
        """Deliver what waits."""


class NoListener:
    def deliveries_paused(self, reason: str) -> None: ...

    def deliveries_resumed(self) -> None: ...


class DeliveryPause:
    __slots__ = ("_listener", "_now", "_waiting", "is_final", "reason", "until")

    def __init__(self, now: Callable[[], float] = lambda: 0.0, listener: PauseListener | None = None) -> None:
        self._now = now
        self._listener = listener or NoListener()
        self._waiting: list[Callable[[], None]] = []
        self.reason: str | None = None  # of the current pause
        self.is_final = False
        self.until: float | None = None  # the deadline, if the log is replicated and there is no pause

    def begin(self, reason: str) -> None:
        """The first reason of a pause counts."""
        self.until = None
        if self.reason is None:
            self.reason = reason
            self._listener.deliveries_paused(reason)

    def begin_final(self, reason: str) -> None:
        """Begin a pause that does not end."""
        self.is_final = True
        self.begin(reason)

    def end(self, until: float | None) -> None:
        """Deliver, until the deadline if there is one. Also moves the deadline when there is no pause."""
        if self.is_final:
            return
        self.until = until
        if self.reason is not None:
            self.reason = None
            self._listener.deliveries_resumed()
            self.release()

    def check(self) -> None:
        """Begin a pause if the deadline is exceeded."""
        if self.until is not None and self._now() > self.until:
            self.begin(NO_ANSWER)

    def when_over(self, call: Callable[[], None]) -> bool:
        """Call back at the end of the pause; False if there is none."""
        self.check()
        if self.reason is None:
            return False
        self._waiting.append(call)
        return True

    def release(self) -> None:
        """Call everything that waits."""
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call()
