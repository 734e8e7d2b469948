"""Slots: few of them move, and every shard has as many as the others."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from leveret.sharding.slots import NO_SHARD, SLOTS, dealt, resettled, slot_of

sizes = st.integers(min_value=1, max_value=20)


def shards(number: int) -> list[str]:
    return [f"s{index}" for index in range(number)]


def moved(before: list[str], after: list[str]) -> int:
    return sum(one != other for one, other in zip(before, after, strict=True))


def is_even(owners: list[str], number: int) -> bool:
    counts = Counter(owners)
    return len(counts) == number and max(counts.values()) - min(counts.values()) <= 1


@pytest.mark.parametrize("number", [1, 2, 8, 256])
def test_for_a_power_of_two_a_key_is_where_the_plain_exchange_has_it(number: int) -> None:
    owners = dealt(shards(number))
    for key in map(str, range(100)):
        assert owners[slot_of(key)] == f"s{xxh3_64_intdigest(key.encode()) % number}"


@given(sizes, st.lists(sizes, min_size=1, max_size=5))
def test_after_each_resize_all_have_equally_many_and_as_few_as_possible_moved(first: int, more: list[int]) -> None:
    owners = dealt(shards(first))
    size = first
    for number in more:
        after = resettled(owners, shards(number), {})
        assert is_even(after, number)
        share, rest = divmod(SLOTS, number)
        if number >= size:  # only what the new ones get
            most = (number - size) * (share + 1)
        else:  # only what the old ones had
            most = sum(owner not in shards(number) for owner in owners) + rest
        assert moved(owners, after) <= most
        owners, size = after, number


def test_4_to_8_moves_half_and_back_moves_the_same_half() -> None:
    four = dealt(shards(4))
    eight = resettled(four, shards(8), {})
    assert moved(four, eight) == SLOTS // 2
    homes = {slot: four[slot] for slot in range(SLOTS) if four[slot] != eight[slot]}
    assert resettled(eight, shards(4), homes) == four


def test_without_shards_slots_belong_to_nobody() -> None:
    assert set(resettled(dealt(shards(2)), [], {})) == {NO_SHARD}
    assert set(dealt([])) == {NO_SHARD}
