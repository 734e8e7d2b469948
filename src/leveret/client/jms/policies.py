"""The policies of a connection factory: prefetch, sending, redelivery."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import random
from typing import Self

from leveret.client.jms.destinations import LARGEST_PREFETCH, Destination, Queue
from leveret.client.jms.errors import IllegalState

DEFAULT_PREFETCH = 1000
NO_MAXIMUM = -1
LONGEST_DELAY = 366 * 86_400.0  # seconds


@dataclass(slots=True, frozen=True)
class PrefetchPolicy:
    """How many messages may wait in the client for a consumer, by the kind of its destination. 0: none, each
    ``receive`` requests one.

    ``browser`` is how many messages a browser holds at most: it fetches them one by one, and none ahead.
    """

    queue: int = DEFAULT_PREFETCH
    topic: int = DEFAULT_PREFETCH
    durable_topic: int = DEFAULT_PREFETCH
    browser: int = DEFAULT_PREFETCH

    def __post_init__(self) -> None:
        for name in ("queue", "topic", "durable_topic"):
            refuse_wrong_prefetch(getattr(self, name), name)
        if self.browser < 1:
            raise IllegalState(f"the prefetch of a browser must be at least 1: {self.browser}")

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


@dataclass(slots=True, frozen=True)
class Sending:
    """Whether a send waits for the broker's confirm, and for how long. No effect in a transaction.

    ``is_async``: send() returns as soon as the message is written, and the exception listener is called for a message
    that the broker rejected. ``timeout``: seconds to wait for the confirm.
    """

    is_async: bool = False
    timeout: float | None = None
    has_timestamps: bool = True  # the default of new producers

    def __post_init__(self) -> None:
        if self.timeout is not None and self.timeout <= 0:
            raise IllegalState(f"the timeout of sending must be more than 0 s: {self.timeout:g}")
        if self.is_async and self.timeout is not None:
            raise IllegalState("an asynchronous send has no timeout: choose one of the two")


@dataclass(slots=True, frozen=True)
class RedeliveryPolicy:
    """When a message that failed is redelivered, and how often.

    The first redelivery comes after ``initial_delay`` seconds. Each later one waits as long, or ``multiplier`` times
    longer than the one before if ``use_exponential_backoff`` is set, up to ``maximum_delay``. If ``initial_delay`` is
    0, the second redelivery waits for ``redelivery_delay``, and later ones are computed from that. ``jitter`` changes
    each delay at random, by at most that fraction, so that consumers that failed together do not retry together.

    Meanwhile the messages behind it wait too, so that the order is preserved. With ``non_blocking`` they are delivered,
    and the message follows when its delay is over.
    """

    initial_delay: float = 1.0
    use_exponential_backoff: bool = False
    multiplier: float = 5.0
    maximum_delay: float = NO_MAXIMUM
    jitter: float = 0.0
    maximum_redeliveries: int = 6
    non_blocking: bool = False
    redelivery_delay: float = 0.0

    def __post_init__(self) -> None:
        for name in ("initial_delay", "redelivery_delay"):
            if getattr(self, name) < 0:
                raise IllegalState(f"{name} must not be negative: {getattr(self, name):g}")
        if self.multiplier < 1:
            raise IllegalState(f"multiplier must be at least 1: {self.multiplier:g}")
        if not 0 <= self.jitter <= 1:
            raise IllegalState(f"jitter must be from 0 to 1: {self.jitter:g}")
        if self.maximum_redeliveries < NO_MAXIMUM:
            raise IllegalState(f"maximum_redeliveries must be at least {NO_MAXIMUM}: {self.maximum_redeliveries}")

    def allows(self, redelivery: int) -> bool:
        """Whether a message may be redelivered once more. ``redelivery`` counts from 1."""
        return self.maximum_redeliveries == NO_MAXIMUM or redelivery <= self.maximum_redeliveries

    def delay(self, redelivery: int, chance: Callable[[], float] = random) -> float:
        """Seconds before this redelivery, counted from 1. ``chance`` returns random numbers from 0 to 1."""
        begin, place = self.initial_delay, redelivery
        if not begin:  # the first comes at once
            begin, place = self.redelivery_delay, redelivery - 1
        seconds = begin if place else 0.0
        if self.use_exponential_backoff and place:
            seconds = self._grown(begin, place)
        if self.maximum_delay >= 0:
            seconds = min(seconds, self.maximum_delay)
        if self.jitter:
            seconds *= 1 + self.jitter * (2 * chance() - 1)
        return seconds

    def _grown(self, begin: float, place: int) -> float:
        try:
            return min(begin * self.multiplier ** (place - 1), LONGEST_DELAY)
        except OverflowError:
            return LONGEST_DELAY
