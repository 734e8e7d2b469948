"""Hash exchanges over any names: even shares, and no more keys on the move than must be (S2-08, S2-10)."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leveret.routing.bindings import Binding, Destination
from leveret.routing.exchange import Exchange
from leveret.routing.types import ExchangeTypes

KEYS = [f"order.{number}" for number in range(3_000)]
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
sets = st.lists(names, min_size=3, max_size=3, unique=True)
weighted = st.dictionaries(names, st.integers(1, 5), min_size=2, max_size=6)


def bound(kind: str, weights: dict[str, int], seed: int = 0) -> Exchange:
    exchange = ExchangeTypes(seed).make(kind, "x")
    for name, weight in weights.items():
        exchange.bind(Binding("x", Destination("queue", name), "" if kind == "x-local-random" else str(weight)))
    return exchange


def choices(exchange: Exchange) -> list[str]:
    chosen = []
    for key in KEYS:
        (one,) = exchange.destinations(key, {})
        chosen.append(one.name)
    return chosen


@settings(max_examples=30)
@given(sets, st.sampled_from(["x-modulus-hash", "x-consistent-hash", "x-random"]), st.integers(0, (1 << 64) - 1))
@pytest.mark.feature("S2-10")
def test_three_queues_get_about_a_third_each(names: list[str], kind: str, seed: int) -> None:
    """Each of 3,000 keys by itself; 150 is more than five times the deviation to be expected."""
    counts = Counter(choices(bound(kind, dict.fromkeys(names, 1), seed)))
    assert all(abs(counts[name] - 1_000) < 150 for name in names)


@settings(max_examples=30)
@given(weighted)
@pytest.mark.feature("S2-10")
def test_shares_follow_the_weights(weights: dict[str, int]) -> None:
    counts = Counter(choices(bound("x-consistent-hash", weights)))
    for name, weight in weights.items():
        share = Fraction(weight, sum(weights.values()))
        deviation = (len(KEYS) * share * (1 - share)) ** 0.5
        assert abs(counts[name] - len(KEYS) * share) < 6 * deviation


@settings(max_examples=30)
@given(weighted, names, st.integers(1, 5))
@pytest.mark.feature("S2-10")
def test_one_more_queue_moves_only_its_own_share(weights: dict[str, int], name: str, weight: int) -> None:
    """No key moves between queues that were there before."""
    weights.pop(name, None)
    exchange = bound("x-consistent-hash", weights)
    if not weights:
        return
    before = choices(exchange)
    added = Binding("x", Destination("queue", name), str(weight))
    exchange.bind(added)
    after = choices(exchange)
    assert all(now in (then, name) for then, now in zip(before, after, strict=True))
    share = weight / (weight + sum(weights.values()))
    moved = after.count(name)
    assert abs(moved - len(KEYS) * share) < 6 * (len(KEYS) * share * (1 - share)) ** 0.5
    exchange.unbind(added)
    assert choices(exchange) == before


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abcd"), st.sampled_from("123")), max_size=25))
@pytest.mark.feature("S2-08")
def test_what_was_bound_and_unbound_before_leaves_no_trace(steps: list[tuple[bool, str, str]]) -> None:
    exchanges = [ExchangeTypes().make(kind, "x") for kind in ("x-modulus-hash", "x-consistent-hash")]
    live: dict[Binding, None] = {}
    for is_bind, name, key in steps:
        binding = Binding("x", Destination("queue", name), key)
        if is_bind == (binding in live):
            continue
        for exchange in exchanges:
            (exchange.bind if is_bind else exchange.unbind)(binding)
        if is_bind:
            live[binding] = None
        else:
            del live[binding]
    for exchange in exchanges:
        fresh = ExchangeTypes().make(exchange.kind, "x")
        for binding in live:
            fresh.bind(binding)
        for key in KEYS[:20]:
            assert list(exchange.destinations(key, {})) == list(fresh.destinations(key, {}))
