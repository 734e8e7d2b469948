"""When a message that failed is tried again, and how often.

The first retry comes after ``initial_delay`` seconds. Each later one waits as long, or ``multiplier`` times longer than
the one before if ``use_exponential_backoff`` is set, up to ``maximum_delay``. If the first comes at once, the second
waits for ``redelivery_delay``, and the later ones go by that. ``jitter`` moves each delay by chance, by at most that
part of it either way, so that consumers that failed together do not try together.

Meanwhile what is behind the message waits, too, and the order stays. With ``non_blocking`` it goes on, and the message
comes when its time has come.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import random

from leveret.client.jms.errors import IllegalState

NO_MAXIMUM = -1
LONGEST_DELAY = 366 * 86_400.0  # seconds


@dataclass(slots=True, frozen=True)
class RedeliveryPolicy:
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
        """Whether a message may be delivered again for the so-many-th time; the first is 1."""
        return self.maximum_redeliveries == NO_MAXIMUM or redelivery <= self.maximum_redeliveries

    def delay(self, redelivery: int, chance: Callable[[], float] = random) -> float:
        """Seconds before the so-many-th redelivery. ``chance`` gives numbers from 0 to 1."""
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
