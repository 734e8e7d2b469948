"""Topic exchanges, and the trie of their patterns: words as edges, destinations at the nodes. Hot path.

Rules:

- A pattern is split at dots. An empty pattern or key has no words at all; an empty word between dots is a word.
- ``*`` matches exactly one word, ``#`` zero or more. Both have an edge of their own besides the literal words, so a key
  that contains the words ``*`` or ``#`` does not match these edges literally.
- A sequence ``#.#`` means the same as ``#`` and is stored as ``#``; so a node below a ``#`` edge has no ``#`` edge.
- A node exists only while a pattern ends in it or below it; removal prunes upwards.

Matching processes the key word by word and keeps the set of nodes reachable so far, like an automaton. A node below a
``#`` edge stays in the set for all further words; entering a node also enters its ``#`` child, which may match no word.
Each node is in the set at most once, so a key of w words costs at most w times the nodes of the trie, whatever the
patterns (``#.a.#.a.#.a.#`` against 128 times ``a`` included), and nothing recurses. Thousands of long patterns below a
``#`` still add up to millions of visits for one key; they are counted as steps of ``RoutingWork``, which bounds them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from leveret.routing.bindings import Binding, Destination, DestinationCounts
from leveret.routing.bounds import NODE_STEPS, Bounds, RoutingWork
from leveret.routing.exchange import Exchange

MANY_NODES = 100
ONE_WORD, ANY_WORDS = "*", "#"


class _Node:
    __slots__ = ("any_words", "ends", "one_word", "stays", "words")

    def __init__(self, stays: bool) -> None:
        self.stays = stays  # below a '#' edge, which matches any number of words
        self.words: dict[str, _Node] = {}
        self.one_word: _Node | None = None
        self.any_words: _Node | None = None
        self.ends = DestinationCounts()  # destinations of the patterns that end here

    def child(self, word: str) -> _Node | None:
        if word == ONE_WORD:
            return self.one_word
        if word == ANY_WORDS:
            return self.any_words
        return self.words.get(word)

    def grow(self, word: str) -> _Node:
        child = _Node(stays=word == ANY_WORDS)
        if word == ONE_WORD:
            self.one_word = child
        elif word == ANY_WORDS:
            self.any_words = child
        else:
            self.words[word] = child
        return child

    def cut(self, word: str) -> None:
        if word == ONE_WORD:
            self.one_word = None
        elif word == ANY_WORDS:
            self.any_words = None
        else:
            del self.words[word]

    def is_bare(self) -> bool:
        return not (self.ends or self.words or self.one_word or self.any_words)


class TopicTrie:
    """Patterns with their destinations; a pair may be added several times and is removed with the last removal."""

    def __init__(self) -> None:
        self._root = _Node(stays=False)

    def is_empty(self) -> bool:
        return self._root.is_bare()

    def add(self, pattern: str, destination: Destination) -> None:
        node = self._root
        for word in pattern_words(pattern):
            node = node.child(word) or node.grow(word)
        node.ends.gain(destination)

    def remove(self, pattern: str, destination: Destination) -> None:
        """Undo one ``add``; KeyError if there was none."""
        node = self._root
        path: list[tuple[_Node, str]] = []
        for word in pattern_words(pattern):
            path.append((node, word))
            child = node.child(word)
            if child is None:
                raise KeyError(pattern)
            node = child
        node.ends.lose(destination)
        for parent, word in reversed(path):
            if not node.is_bare():
                break
            parent.cut(word)
            node = parent

    def matches(self, key: str, work: RoutingWork) -> Iterable[Destination]:
        """The destinations of every pattern that matches the key; one may appear twice, for two patterns.

        RoutingRefused if ``work`` has fewer steps left than matching takes.
        """
        nodes: dict[_Node, None] = {self._root: None}
        visited = 0  # nodes for which no steps were spent yet
        if self._root.any_words is not None:
            nodes[self._root.any_words] = None
        for word in key.split(".") if key else ():
            visited += len(nodes)
            if visited > MANY_NODES:  # one call per word would cost more than the few nodes of the usual case
                work.spend(NODE_STEPS * visited)
                visited = 0
            nodes = _step(nodes, word)
            if not nodes:
                return ()
        return [destination for node in nodes if node.ends for destination in node.ends]


def pattern_words(pattern: str) -> list[str]:
    """The words of a pattern, with each sequence of ``#`` reduced to one."""
    words: list[str] = []
    for word in pattern.split(".") if pattern else ():
        if word != ANY_WORDS or words[-1:] != [ANY_WORDS]:
            words.append(word)
    return words


def _step(nodes: dict[_Node, None], word: str) -> dict[_Node, None]:
    """The nodes reachable by one more word: stay below a '#', or follow the edge of the word or of '*'."""
    reached: dict[_Node, None] = {}
    for node in nodes:
        if node.stays:
            reached[node] = None
        for child in (node.words.get(word), node.one_word):
            if child is not None:
                reached[child] = None
                if child.any_words is not None:
                    reached[child.any_words] = None
    return reached


class TopicExchange(Exchange):
    """Patterns over dotted words: ``*`` is exactly one word, ``#`` is zero or more."""

    kind = "topic"

    def prepare(self) -> None:
        self._patterns = TopicTrie()

    def exceeds(self, binding: Binding, bounds: Bounds) -> str | None:
        hashes = pattern_words(binding.key).count(ANY_WORDS)
        if hashes <= bounds.pattern_hashes:
            return None
        return f"its pattern has {hashes} times '#', expected at most {bounds.pattern_hashes}: use '*' for single words"

    def link(self, binding: Binding) -> None:
        self._patterns.add(binding.key, binding.destination)

    def unlink(self, binding: Binding) -> None:
        self._patterns.remove(binding.key, binding.destination)

    def reach(self, key: str, headers: Mapping[str, object], work: RoutingWork) -> Iterable[Destination]:
        return self._patterns.matches(key, work)
