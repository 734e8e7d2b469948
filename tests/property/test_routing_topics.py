"""The topic trie equals a slow, obvious matcher, whatever was added and removed before (S4-45)."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from leveret.pipeline.topics import TopicFilter
from leveret.routing.bindings import Destination
from leveret.routing.bounds import RoutingRefused, RoutingWork
from leveret.routing.topic import TopicTrie

words = st.sampled_from(["a", "b", "", "*", "#"])
patterns = st.lists(words, max_size=7).map(".".join)
keys = st.lists(st.sampled_from(["a", "b", "c", "", "*", "#"]), max_size=8).map(".".join)
destinations = st.sampled_from([Destination("queue", "q"), Destination("queue", "r"), Destination("exchange", "q")])
changes = st.lists(st.tuples(st.booleans(), patterns, destinations), max_size=30)


def split(text: str) -> list[str]:
    return text.split(".") if text else []


def slowly(pattern: list[str], key: list[str]) -> bool:
    if not pattern:
        return not key
    first, rest = pattern[0], pattern[1:]
    if first == "#":
        return slowly(rest, key) or (bool(key) and slowly(pattern, key[1:]))
    return bool(key) and first in ("*", key[0]) and slowly(rest, key[1:])


@given(patterns, keys)
def test_one_pattern_matches_as_the_slow_matcher_says(pattern: str, key: str) -> None:
    trie = TopicTrie()
    trie.add(pattern, Destination("queue", "q"))
    assert bool(list(trie.matches(key, RoutingWork()))) == slowly(split(pattern), split(key))


@given(patterns, keys)
def test_a_filter_matches_as_the_slow_matcher_says(pattern: str, key: str) -> None:
    only = TopicFilter(pattern)
    assert only.takes(key) == only.takes(key) == slowly(split(pattern), split(key))


@given(st.lists(patterns, max_size=30), keys, st.integers(0, 2_000))
def test_a_bounded_match_is_refused_or_complete(bound: list[str], key: str, allowed: int) -> None:
    trie, work = TopicTrie(), RoutingWork(allowed)
    for number, pattern in enumerate(bound):
        trie.add(pattern, Destination("queue", str(number)))
    expected = {str(number) for number, pattern in enumerate(bound) if slowly(split(pattern), split(key))}
    try:
        reached = {destination.name for destination in trie.matches(key, work)}
    except RoutingRefused:
        assert work.spent > allowed
    else:
        assert reached == expected
        assert work.spent <= allowed


@given(changes, st.lists(keys, min_size=1, max_size=5))
def test_trie_equals_the_slow_matcher_under_any_adding_and_removing(
    steps: list[tuple[bool, str, Destination]], asked: list[str]
) -> None:
    trie, kept = TopicTrie(), Counter[tuple[str, Destination]]()
    for adds, pattern, destination in steps:
        if adds:
            trie.add(pattern, destination)
            kept[pattern, destination] += 1
        elif kept[pattern, destination]:
            trie.remove(pattern, destination)
            kept[pattern, destination] -= 1
    for key in asked:
        expected = {where for pattern, where in +kept if slowly(split(pattern), split(key))}
        assert set(trie.matches(key, RoutingWork())) == expected
    for pattern, destination in kept.elements():
        trie.remove(pattern, destination)
    assert trie.is_empty()
