"""Reproducible random numbers: the hash of a counter under a seed. Equal seeds give equal sequences."""

from __future__ import annotations

from xxhash import xxh3_64_intdigest


class SeededRandom:
    __slots__ = ("_drawn", "_seed")

    def __init__(self, seed: int) -> None:
        """A seed of up to 64 bits."""
        self._seed = seed
        self._drawn = 0

    def below(self, number: int) -> int:
        """A number from 0 to number - 1, uniformly distributed."""
        self._drawn += 1
        return xxh3_64_intdigest(self._drawn.to_bytes(8, "big"), self._seed) % number
