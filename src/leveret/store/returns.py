"""The state of a requeued message in one number: its delivery count and, if it is delayed, until when.

milliseconds since 1970 << 16 | delivery count (at most 65,535); 0 milliseconds: not delayed
"""

from __future__ import annotations

TRIES_BITS = 16
MOST_TRIES = (1 << TRIES_BITS) - 1


def pack_return(tries: int, wall: float = 0.0) -> int:
    return max(round(wall * 1000), 0) << TRIES_BITS | min(tries, MOST_TRIES)


def unpack_return(packed: int) -> tuple[int, float]:
    """Delivery count, and the wall time until which the message is delayed; 0.0 if it is not."""
    return packed & MOST_TRIES, (packed >> TRIES_BITS) / 1000
