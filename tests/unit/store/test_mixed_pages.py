"""Loads where kept and spilled messages mix."""

from __future__ import annotations

from random import Random

import pytest

from leveret.message import TRANSIENT, Message
from tests.support.loaded_pages import bodies, load, numbered, small_segments
from tests.support.store_harness import ADDRESS, StoreHarness


@pytest.fixture
def harness() -> StoreHarness:
    return small_segments()


def transient(sequence: int, size: int) -> tuple[int, Message]:
    return sequence, ((b"m%d" % sequence).ljust(size, b"\0"), ADDRESS, TRANSIENT)


@pytest.mark.parametrize("large", ["kept", "spilled"])
@pytest.mark.parametrize("most", [1, 700, 2100, 1 << 20])
def test_no_load_leaves_one_out_where_kept_and_spilled_messages_mix(
    harness: StoreHarness, large: str, most: int
) -> None:
    kept, spilled = (1000, 10) if large == "kept" else (10, 1000)
    for n in range(1, 12, 2):
        harness.tails[1, 0] = n
        harness.publish([1], (b"m%d" % n).ljust(kept, b"\0"))
        harness.rest()
    harness.pages.spill(1, 0, [transient(n, spilled) for n in range(2, 13, 2)])
    found = bodies(load(harness, 1, 13, most))
    assert found == numbered(*range(1, 1 + len(found)))
    assert found
    reached = 1
    for _ in range(20):
        reached += len(load(harness, reached, 13, most))
    assert reached == 13


@pytest.mark.parametrize("seed", range(8))
def test_loads_of_any_mix_go_through_all_of_it_in_order(harness: StoreHarness, seed: int) -> None:
    random = Random(seed)
    there: list[int] = []
    for n in range(1, 60):
        size = random.choice((5, 60, 700))
        if random.random() < 0.5:
            harness.tails[1, 0] = n
            harness.publish([1], (b"m%d" % n).ljust(size, b"\0"))
            harness.rest()
        else:
            harness.pages.spill(1, 0, [transient(n, size)])
        there.append(n)
    for n in random.sample(there, 15):
        harness.settle(1, n)
        harness.pages.drop(1, 0, n, 1)
        there.remove(n)
    harness.rest()
    found: list[tuple[int, bytes]] = []
    while (first := harness.pages.next_sequence(1, 0, found[-1][0] + 1 if found else 1)) is not None:
        found += bodies(load(harness, first, 60, random.choice((1, 500, 3000))))
    assert found == numbered(*there)
