"""The trie of topic patterns (S4-40, S4-45)."""

from __future__ import annotations

from typing import Any

import pytest

from leveret.routing import topic as topic_trie
from leveret.routing.bindings import Destination
from leveret.routing.bounds import RoutingWork
from leveret.routing.topic import TopicTrie, pattern_words

Q1, Q2 = Destination("queue", "q1"), Destination("queue", "q2")

THE_TABLE = [  # pattern, key, matches: the whole table of S4-45
    ("aaa", "aaa", True),
    ("aaa.bbb", "aaa.bbb", True),
    ("aaa.bbb", "aaa.bbb.ccc", False),
    ("aaa.bbb", "aaa.ccc", False),
    ("aaa.bbb.ccc", "aaa.bbb.ccc", True),
    ("aaa.*", "aaa.bbb", True),
    ("aaa.*.bbb", "aaa.bbb.ccc", False),
    ("*.aaa.bbb", "aaa.bbb", False),
    ("#", "aaa.bbb.ccc", True),
    ("aaa.#", "aaa", True),
    ("aaa.#", "aaa.bbb", True),
    ("aaa.#", "aaa.bbb.ccc", True),
    ("aaa.#.ccc", "aaa.ccc", True),
    ("aaa.#.ccc", "aaa.bbb.ccc", True),
    ("aaa.#.ccc", "aaa.aaa.bbb.ccc", True),
    ("aaa.#.ccc", "aaa.ccc.ccc", True),
    ("#.ccc", "ccc", True),
    ("#.ccc", "aaa.bbb.ccc", True),
]

AS_RABBITMQ_DOES = [
    ("", "", True),
    ("#", "", True),
    ("*", "", False),
    ("", "a", False),
    ("a", "", False),
    ("*", "a", True),
    ("*", "a.b", False),
    ("*.*", ".", True),
    ("*.*.*", "a..b", True),
    ("a..b", "a..b", True),
    ("a.*.b", "a..b", True),
    ("a.b", "a..b", False),
    ("a.#.b", "a..b", True),
    ("a.", "a", False),
    ("a.", "a.", True),
    ("a.*", "a.", True),
    ("*", "*", True),
    ("*", "#", True),
    ("#", "#", True),
    ("a", "*", False),
    ("a", "#", False),
    ("*.#", "", False),
    ("*.#", "a", True),
    ("#.*", "a.b.c", True),
    ("#.*.#", "", False),
    ("#.*.#", "a", True),
    ("#.#", "", True),
    ("#.#.#", "a.b", True),
    ("a.#.#.b", "a.b", True),
    ("a.#.*.#.b", "a.b", False),
    ("a.#.*.#.b", "a.x.b", True),
    ("ab*", "abc", False),
    ("ab*", "ab*", True),
    ("a#", "a", False),
    ("A", "a", False),
]


@pytest.mark.parametrize(("pattern", "key", "matches"), THE_TABLE)
@pytest.mark.feature("S4-45")
def test_pattern_takes_the_key_as_the_checklist_says(pattern: str, key: str, matches: bool) -> None:
    """* is exactly one word, # is zero or more."""
    trie = TopicTrie()
    trie.add(pattern, Q1)
    assert list(trie.matches(key, RoutingWork())) == ([Q1] if matches else [])


@pytest.mark.parametrize(("pattern", "key", "matches"), AS_RABBITMQ_DOES)
@pytest.mark.feature("S4-45")
def test_pattern_takes_the_key_as_rabbitmq_does(pattern: str, key: str, matches: bool) -> None:
    """Empty keys, empty words, wildcards in keys, runs of #."""
    trie = TopicTrie()
    trie.add(pattern, Q1)
    assert list(trie.matches(key, RoutingWork())) == ([Q1] if matches else [])


@pytest.mark.feature("S4-45")
def test_whole_table_in_one_trie_gives_exactly_the_matching_patterns() -> None:
    """Patterns do not disturb each other."""
    trie = TopicTrie()
    rows = THE_TABLE + AS_RABBITMQ_DOES
    for pattern, _, _ in rows:
        trie.add(pattern, Destination("queue", pattern))
    for pattern, key, matches in rows:
        assert (Destination("queue", pattern) in list(trie.matches(key, RoutingWork()))) == matches


def test_runs_of_hashes_are_drawn_into_one() -> None:
    assert pattern_words("#.#.a.#.#.#") == ["#", "a", "#"]
    assert pattern_words("#.*.#") == ["#", "*", "#"]
    assert pattern_words("") == []
    assert pattern_words(".") == ["", ""]


@pytest.mark.parametrize("pattern", ["", "a", "*", "#", "a.b.c", "a.*.c", "#.a.#", "*.*", "..", "a.#.#.b"])
def test_removing_the_last_pattern_leaves_an_empty_trie(pattern: str) -> None:
    trie = TopicTrie()
    assert trie.is_empty()
    trie.add(pattern, Q1)
    assert not trie.is_empty()
    trie.remove(pattern, Q1)
    assert trie.is_empty()


def test_removal_prunes_no_further_than_the_last_shared_word() -> None:
    trie = TopicTrie()
    trie.add("a.b", Q1)
    trie.add("a.b.c.d", Q2)
    trie.remove("a.b.c.d", Q2)
    assert list(trie.matches("a.b", RoutingWork())) == [Q1]
    assert list(trie.matches("a.b.c.d", RoutingWork())) == []
    trie.add("a.b.c.d", Q2)
    trie.remove("a.b", Q1)
    assert list(trie.matches("a.b", RoutingWork())) == []
    assert list(trie.matches("a.b.c.d", RoutingWork())) == [Q2]


def test_like_patterns_are_counted() -> None:
    trie = TopicTrie()
    trie.add("#", Q1)
    trie.add("#.#", Q1)
    trie.remove("#", Q1)
    assert list(trie.matches("a", RoutingWork())) == [Q1]
    trie.remove("#.#", Q1)
    assert trie.is_empty()


@pytest.mark.parametrize("pattern", ["b", "a.b", "*", "#", "a"])
def test_removing_what_was_never_added_is_an_error_and_changes_nothing(pattern: str) -> None:
    trie = TopicTrie()
    trie.add("a", Q1)
    with pytest.raises(KeyError):
        trie.remove(pattern, Q2)
    assert list(trie.matches("a", RoutingWork())) == [Q1]


@pytest.mark.feature("S4-45")
def test_hostile_patterns_stay_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each word visits each node at most once; a matcher that goes back and tries again would never end."""
    trie = TopicTrie()
    for tail in ("#", "b", "#.b"):
        trie.add("#.a." * 60 + tail, Q1)
        trie.add("#.*." * 60 + tail, Q2)
    visits: list[int] = []
    step = topic_trie._step

    def counted(nodes: Any, word: str) -> Any:
        visits.append(len(nodes))
        return step(nodes, word)

    monkeypatch.setattr(topic_trie, "_step", counted)
    assert set(trie.matches(".".join(["a"] * 128), RoutingWork())) == {Q1, Q2}
    assert len(visits) == 128
    assert max(visits) <= 2 * 2 * 60 + 8


def test_long_patterns_do_not_recurse() -> None:
    trie = TopicTrie()
    pattern = ".".join(["a"] * 5000)
    trie.add(pattern, Q1)
    assert list(trie.matches(pattern, RoutingWork())) == [Q1]
    trie.remove(pattern, Q1)
    assert trie.is_empty()
