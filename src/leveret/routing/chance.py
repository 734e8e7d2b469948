"""Chance that can be repeated: the hash of a counter under a seed. Equal seeds draw the same numbers."""

from __future__ import annotations

from xxhash import xxh3_64_intdigest


class Chance:
    __slots__ = ("_drawn", "_seed")

    def __init__(self, seed: int) -> None:
        """A seed of up to 64 bits."""
        self._seed = seed
        self._drawn = 0

    def below(self, number: int) -> int:
        """One of 0 to number - 1, each as likely as the others."""
        self._drawn += 1
        return xxh3_64_intdigest(self._drawn.to_bytes(8, "big"), self._seed) % number
