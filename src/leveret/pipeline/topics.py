"""A filter by a topic pattern on the routing key, with the rules of a topic exchange.

There is one pattern only, so the places in it that are reachable are the bits of a number, and a word of the key takes
a few operations, whatever the pattern: the trie of a topic exchange takes a hundred times as long with many ``#``.
"""

from __future__ import annotations

from leveret.http.errors import BadRequest
from leveret.routing.topic import ANY_WORDS, ONE_WORD, pattern_words

MOST_REMEMBERED = 10_000
LONGEST_PATTERN = 255  # bytes, as of a binding
AT_ONCE = 100  # messages that are filtered in one tick of the event loop


class TopicFilter:
    """``*`` matches one word, ``#`` any number of them. Results are cached by key."""

    def __init__(self, pattern: str) -> None:
        if len(pattern.encode()) > LONGEST_PATTERN:
            raise BadRequest(f"'routing_key' {pattern[:40]!r}... is longer than {LONGEST_PATTERN} bytes")
        words = pattern_words(pattern)
        self._words: dict[str, int] = {}  # the places of each word, as bits
        for place, word in enumerate(words):
            self._words[word] = self._words.get(word, 0) | 1 << place
        self._one_word, self._any_words = self._words.pop(ONE_WORD, 0), self._words.pop(ANY_WORDS, 0)
        self._end = 1 << len(words)
        self._known: dict[str, bool] = {}

    def takes(self, key: str) -> bool:
        answer = self._known.get(key)
        if answer is None:
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
            answer = self._known[key] = self._matches(key)
        return answer

    def _matches(self, key: str) -> bool:
        words, one_word, any_words = self._words, self._one_word, self._any_words
        places = 1 | (any_words & 1) << 1  # a '#' may match no word
        for word in key.split(".") if key else ():
            places = (places & (words.get(word, 0) | one_word)) << 1 | places & any_words
            places |= (places & any_words) << 1
            if not places:
                return False
        return bool(places & self._end)
