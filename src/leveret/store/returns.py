"""What a RETURN entry says of a message in one number: how often it came back and, if it waits, until when.

milliseconds since 1970 << 16 | tries, at most 65,535 tries; no time means that it does not wait
"""

from __future__ import annotations

TRIES_BITS = 16
MOST_TRIES = (1 << TRIES_BITS) - 1


def pack_return(tries: int, wall: float = 0.0) -> int:
    return max(round(wall * 1000), 0) << TRIES_BITS | min(tries, MOST_TRIES)


def unpack_return(packed: int) -> tuple[int, float]:
    """Tries, and the wall time until which the message waits; 0.0 if it does not."""
    return packed & MOST_TRIES, (packed >> TRIES_BITS) / 1000
