"""Loads of messages that wait on disk only (store/pages.py), for tests of the pages of a StoreHarness."""

from __future__ import annotations

from leveret.store.pages import Loaded
from tests.support.store_harness import StoreHarness

SMALL = 2048  # bytes of a segment


def small_segments() -> StoreHarness:
    """With the queues 1 and 2; reclaims only when it is told to."""
    made = StoreHarness(full_size=SMALL)
    made.begin()
    made.reclaims = False
    for _ in range(2):
        made.declare()
    made.rest()
    return made


def load(
    harness: StoreHarness, first: int, stop: int, most: int = 1 << 20, queue: int = 1, lane: int = 0
) -> list[Loaded]:
    loaded: list[list[Loaded]] = []
    harness.pages.load(queue, lane, first, stop, most, loaded.append)
    (found,) = loaded
    return found


def bodies(loaded: list[Loaded]) -> list[tuple[int, bytes]]:
    """Without the zeros that fill them up."""
    return [(each.sequence, each.message[0].rstrip(b"\0")) for each in loaded]


def numbered(*sequences: int) -> list[tuple[int, bytes]]:
    """The bodies of messages whose content is their number."""
    return [(sequence, b"m%d" % sequence) for sequence in sequences]
