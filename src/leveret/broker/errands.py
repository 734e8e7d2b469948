"""Long work on the loop, a little at a time: each errand gets one step per turn until it is done."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol


class Errand(Protocol):
    def step(self) -> bool:
        """Do a little; False if there is nothing more to do, ever or until it is sent again."""


class Errands:
    """``wake`` asks for a turn."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self.under_way: deque[Errand] = deque()

    def send(self, errand: Errand) -> None:
        if errand not in self.under_way:
            self.under_way.append(errand)
            self._wake()

    def run(self) -> None:
        """One step of each that was under way when we began."""
        for _ in range(len(self.under_way)):
            errand = self.under_way.popleft()
            if errand.step() and errand not in self.under_way:
                self.under_way.append(errand)
        if self.under_way:
            self._wake()
