"""Topic exchanges: the binding key is a pattern of words. Hot path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from leveret.routing.bindings import Binding, Destination
from leveret.routing.bounds import Bounds, RoutingWork
from leveret.routing.exchange import Exchange
from leveret.routing.topic_trie import ANY_WORDS, TopicTrie, pattern_words


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
