"""The messages that are measured, and how to recognise them.

Message n has a body of which the first eight bytes are n and the rest never changes. Its CRC-32 is linear in the bits
of n: a table per byte gives those of millions at once, and Spark counts the same with its own `crc32`. The sum over all
messages shows whether one is missing, doubled or altered.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SIZE = 100
NUMBER_BYTES = 8
TAIL = bytes(ord("a") + place % 26 for place in range(SIZE - NUMBER_BYTES))
ATTEMPTS = 5  # the header "attempt" of message n is n modulo this


@dataclass(frozen=True, slots=True)
class Sums:
    """What must come out at the other end."""

    rows: int
    crc: int  # of the bodies, added up
    attempts: int = 0  # the header "attempt" of all messages, added up

    def __add__(self, other: Sums) -> Sums:
        return Sums(self.rows + other.rows, self.crc + other.crc, self.attempts + other.attempts)


def body(number: int) -> bytes:
    return number.to_bytes(NUMBER_BYTES, "big") + TAIL


def number_bytes(numbers: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """The first bytes of the bodies, a row for each."""
    return numbers.astype(">u8").view(np.uint8).reshape(-1, NUMBER_BYTES)


def sums(first: int, stop: int, *, with_headers: bool = False) -> Sums:
    """Of the messages first <= n < stop."""
    crc = attempts = 0
    tables = _tables()
    for start in range(first, stop, 1 << 20):
        numbers = np.arange(start, min(start + (1 << 20), stop), dtype=np.uint64)
        columns = number_bytes(numbers)
        found = np.full(len(numbers), zlib.crc32(body(0)), np.uint32)
        for place in range(NUMBER_BYTES):
            found ^= tables[place][columns[:, place]]
        crc += int(found.sum(dtype=np.uint64))
        attempts += int((numbers % ATTEMPTS).sum()) if with_headers else 0
    return Sums(stop - first, crc, attempts)


def _tables() -> NDArray[np.uint32]:
    """By place and value of one byte of the number: what it changes in the CRC of message 0."""
    none = zlib.crc32(body(0))
    return np.array(
        [
            [none ^ zlib.crc32(body(value << 8 * (NUMBER_BYTES - 1 - place))) for value in range(256)]
            for place in range(NUMBER_BYTES)
        ],
        np.uint32,
    )
