"""A strict reader of JSON that gives the place of each value, so that a value can be replaced and the rest kept as is.

It accepts what RFC 8259 accepts, in UTF-8 and without a byte order mark, and refuses more than most readers do: text
after the value, an object with the same key twice, NaN, and nesting deeper than ``DEEPEST``. Numbers are never
converted. Errors name the place and never the content, which may be personal data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

DEEPEST = 200  # levels; each is two frames of Python's stack
SPACES = frozenset(" \t\n\r")
SPACE = re.compile(r"[ \t\n\r]*")
STRING = re.compile(r'"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*"')
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
WORDS = {"t": "true", "f": "false", "n": "null"}
KINDS = {"true": "boolean", "false": "boolean", "null": "null"}


class NotJson(ValueError):
    """The text is not the JSON that is accepted here."""


class Value(NamedTuple):
    """One value: its kind, where its text begins and ends, and what is in it."""

    kind: str
    start: int
    end: int
    members: Mapping[str, Member] = MappingProxyType({})
    elements: Sequence[Value] = ()


class Member(NamedTuple):
    """A key and its value; ``start`` is where the key begins."""

    start: int
    value: Value


def parsed(text: str) -> Value:
    """The value of a whole text."""
    return _Reader(text).whole()


def unquoted(literal: str) -> str:
    """The string of a literal that ``parsed`` has accepted."""
    return str(json.loads(literal)) if "\\" in literal else literal[1:-1]


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def whole(self) -> Value:
        value = self._value(0)
        self._skip_space()
        if self._at < len(self._text):
            raise self._error("text after the value")
        return value

    def _value(self, depth: int) -> Value:
        self._skip_space()
        start, first = self._at, self._text[self._at : self._at + 1]
        if first == "{":
            return self._object(start, depth + 1)
        if first == "[":
            return self._array(start, depth + 1)
        if first == '"':
            self._match(STRING, "an invalid string")
            return Value("string", start, self._at)
        if first in WORDS and self._text.startswith(WORDS[first], start):
            self._at += len(WORDS[first])
            return Value(KINDS[WORDS[first]], start, self._at)
        self._match(NUMBER, "a value is missing or unknown")
        return Value("number", start, self._at)

    def _object(self, start: int, depth: int) -> Value:
        members: dict[str, Member] = {}
        more = self._opened("}", depth)
        while more:
            self._skip_space()
            begun = self._at
            key = unquoted(self._match(STRING, "a key must be a string"))
            if key in members:
                raise NotJson(f"an object has the same key twice, at character {begun}")
            self._skip_space()
            self._expect(":")
            members[key] = Member(begun, self._value(depth))
            more = self._has_more("}")
        return Value("object", start, self._at, members)

    def _array(self, start: int, depth: int) -> Value:
        elements = []
        more = self._opened("]", depth)
        while more:
            elements.append(self._value(depth))
            more = self._has_more("]")
        return Value("array", start, self._at, elements=elements)

    def _opened(self, end: str, depth: int) -> bool:
        """Whether the object or array that begins here has something in it."""
        if depth > DEEPEST:
            raise self._error(f"nested deeper than {DEEPEST} levels")
        self._at += 1
        self._skip_space()
        if self._text.startswith(end, self._at):
            self._at += 1
            return False
        return True

    def _has_more(self, end: str) -> bool:
        self._skip_space()
        if self._text.startswith(",", self._at):
            self._at += 1
            return True
        self._expect(end)
        return False

    def _expect(self, character: str) -> None:
        if not self._text.startswith(character, self._at):
            raise self._error(f"{character} is missing")
        self._at += 1

    def _match(self, pattern: re.Pattern[str], problem: str) -> str:
        found = pattern.match(self._text, self._at)
        if found is None:
            raise self._error(problem)
        self._at = found.end()
        return found[0]

    def _skip_space(self) -> None:
        if self._text[self._at : self._at + 1] in SPACES:
            found = SPACE.match(self._text, self._at)
            assert found is not None  # it matches nothing, too
            self._at = found.end()

    def _error(self, problem: str) -> NotJson:
        return NotJson(f"{problem}, at character {self._at}")
