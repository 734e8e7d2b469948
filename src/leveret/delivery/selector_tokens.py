"""The words of a selector: names, literals and signs, each with its place in the text."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from leveret.errors import PreconditionFailed

X_SELECTOR = "x-selector"
KEYWORDS = frozenset({"AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE"})
LARGEST_NUMBER = (1 << 63) - 1
SHOWN = 20  # characters of a wrong word that the error repeats

SPACE = re.compile(r"\s*")
NUMBER = re.compile(r"(?:[0-9]+(?P<point>\.[0-9]*)?|(?P<bare>\.[0-9]+))(?P<power>[eE][+-]?[0-9]+)?")
NAME = re.compile(r"(?:[^\W\d]|\$)[\w$.]*")
SIGN = re.compile(r"<>|<=|>=|[=<>+\-*/(),]")


class Token(NamedTuple):
    """``text`` is a keyword in capitals, a sign, a name or the content of a string; ``number`` only for numbers."""

    kind: Literal["keyword", "sign", "name", "string", "number", "end"]
    text: str
    at: int
    number: int | float = 0

    def __str__(self) -> str:
        shown = self.text if len(self.text) <= SHOWN else f"{self.text[:SHOWN]}..."
        return "the end" if self.kind == "end" else f"'{shown}'"


def refusal(at: int, problem: str) -> PreconditionFailed:
    """``at`` counts from 0, the error message from 1."""
    return PreconditionFailed(f"invalid arg '{X_SELECTOR}': {problem} at position {at + 1}")


def tokens_of(text: str) -> list[Token]:
    """The words in order, and the end as a last one."""
    tokens: list[Token] = []
    at = 0
    while (at := _end_of(SPACE, text, at)) < len(text):
        token, at = _token_at(text, at)
        tokens.append(token)
    tokens.append(Token("end", "", len(text)))
    return tokens


def _end_of(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found is not None else at


def _token_at(text: str, at: int) -> tuple[Token, int]:
    if text[at] == "'":
        content, end = _quoted(text, at, "a closing ' (a quote inside a string is written '')")
        return Token("string", content, at), end
    if text[at] == '"':
        content, end = _quoted(text, at, 'a closing "')
        return Token("name", content, at), end
    if (number := NUMBER.match(text, at)) is not None:
        return _number(text, number), number.end()
    if (name := NAME.match(text, at)) is not None:
        word = name.group()
        is_keyword = word.upper() in KEYWORDS
        return Token("keyword" if is_keyword else "name", word.upper() if is_keyword else word, at), name.end()
    if (sign := SIGN.match(text, at)) is not None:
        return Token("sign", sign.group(), at), sign.end()
    raise refusal(at, f"expected a name, a literal or an operator, found {text[at]!r}")


def _quoted(text: str, start: int, expected: str) -> tuple[str, int]:
    """What stands between the quote at ``start`` and the next single one; a doubled quote is one of the content."""
    quote = text[start]
    at = start + 1
    while (closing := text.find(quote, at)) >= 0:
        if not text.startswith(quote, closing + 1):
            return text[start + 1 : closing].replace(quote * 2, quote), closing + 1
        at = closing + 2
    raise refusal(len(text), f"expected {expected}")


def _number(text: str, found: re.Match[str]) -> Token:
    end = found.end()
    if _end_of(NAME, text, end) > end:
        raise refusal(end, f"expected a space or an operator after the number {found.group()[:SHOWN]}")
    if found["point"] or found["bare"] or found["power"]:
        return Token("number", found.group(), found.start(), float(found.group()))
    whole = int(found.group())
    if whole > LARGEST_NUMBER:
        raise refusal(found.start(), f"expected a whole number up to {LARGEST_NUMBER}")
    return Token("number", found.group(), found.start(), whole)
