"""How long to wait between two rounds of attempts: nothing, then a little, then more and more up to a bound."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class Backoff:
    initial: float = 0.01  # seconds
    maximum: float = 30.0
    multiplier: float = 2.0
    is_exponential: bool = True

    def delays(self) -> Iterator[float]:
        """Before the first round nothing is waited for."""
        yield 0.0
        delay = min(self.initial, self.maximum)
        while True:
            yield delay
            if self.is_exponential:
                delay = min(delay * self.multiplier, self.maximum)
