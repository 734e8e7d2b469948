"""A filter by a topic pattern on the routing key, with the rules of a topic exchange."""

from __future__ import annotations

from leveret.routing.bindings import Destination
from leveret.routing.bounds import RoutingWork
from leveret.routing.topic import TopicTrie

MOST_REMEMBERED = 10_000
HERE = Destination("queue", "")


class TopicFilter:
    """``*`` matches one word, ``#`` any number of them. Results are cached by key."""

    def __init__(self, pattern: str) -> None:
        self._patterns = TopicTrie()
        self._patterns.add(pattern, HERE)
        self._known: dict[str, bool] = {}

    def takes(self, key: str) -> bool:
        answer = self._known.get(key)
        if answer is None:
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
            answer = self._known[key] = bool(self._patterns.matches(key, RoutingWork()))
        return answer
