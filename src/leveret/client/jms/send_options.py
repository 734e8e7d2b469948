"""Whether a send waits for the broker's confirm, and for how long."""

from __future__ import annotations

from dataclasses import dataclass

from leveret.client.jms.errors import IllegalState


@dataclass(slots=True, frozen=True)
class Sending:
    """``is_async``: send() returns as soon as the message is written, and the exception listener is called for one that
    the broker did not take. ``timeout``: seconds for the confirm. In a transaction neither means anything."""

    is_async: bool = False
    timeout: float | None = None
    has_timestamps: bool = True  # of producers that say nothing else

    def __post_init__(self) -> None:
        if self.timeout is not None and self.timeout <= 0:
            raise IllegalState(f"the timeout of sending must be more than 0 s: {self.timeout:g}")
        if self.is_async and self.timeout is not None:
            raise IllegalState("an asynchronous send has no timeout: choose one of the two")
