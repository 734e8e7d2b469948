"""How many messages may wait in the client for a consumer, by what it consumes from. 0: none, each is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from leveret.client.jms.destinations import LARGEST_PREFETCH, Destination, Queue
from leveret.client.jms.errors import IllegalState

USUAL_PREFETCH = 1000


@dataclass(slots=True, frozen=True)
class PrefetchPolicy:
    """``browser`` is how many messages a browser holds at most: it fetches them one by one, and none ahead."""

    queue: int = USUAL_PREFETCH
    topic: int = USUAL_PREFETCH
    durable_topic: int = USUAL_PREFETCH
    browser: int = USUAL_PREFETCH

    def __post_init__(self) -> None:
        for name in ("queue", "topic", "durable_topic"):
            refuse_wrong_prefetch(getattr(self, name), name)
        if self.browser < 1:
            raise IllegalState(f"a browser must be allowed to hold at least 1 message: {self.browser}")

    @classmethod
    def everywhere(cls, prefetch: int) -> Self:
        return cls(prefetch, prefetch, prefetch)

    def of(self, destination: Destination, *, is_durable: bool) -> int:
        if isinstance(destination, Queue):
            return self.queue
        return self.durable_topic if is_durable else self.topic


def refuse_wrong_prefetch(prefetch: int, name: str = "prefetch") -> None:
    if not 0 <= prefetch <= LARGEST_PREFETCH:
        raise IllegalState(f"{name} must be from 0 to {LARGEST_PREFETCH}: {prefetch}")


def refuse_exclusive_pull(destination: Destination, prefetch: int) -> None:
    """A pull is a consumer only while it waits: between two of them the broker would serve others."""
    if destination.is_exclusive and not prefetch:
        raise IllegalState(
            f"consumer.exclusive of '{destination.name}' needs a prefetch of at least 1: with 0 there is no consumer "
            "between two calls of receive()"
        )
