"""Compiles the tokens of a selector to one closure, by recursive descent; each method is one line of the grammar.

    condition   = conjunction { OR conjunction }
    conjunction = denial { AND denial }
    denial      = NOT denial | predicate
    predicate   = sum [ sign sum | [NOT] BETWEEN sum AND sum | [NOT] IN (literal, ...)
                      | [NOT] LIKE string [ESCAPE string] | IS [NOT] NULL ]
    sum         = product { (+ | -) product }
    product     = factor { (* | /) factor }
    factor      = (+ | -) factor | name | literal | ( condition )

Types that do not depend on the message are checked while parsing: arithmetic on a string, or a number in place of a
condition, is refused at once. A name can have any type.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from leveret.delivery import selector_terms as terms
from leveret.delivery.selector_terms import Meter, Term
from leveret.errors import PreconditionFailed

X_SELECTOR = "x-selector"
KEYWORDS = frozenset({"AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE"})
LARGEST_NUMBER = (1 << 63) - 1
SHOWN = 20  # characters of an invalid word that the error quotes

SPACE = re.compile(r"\s*")
NUMBER = re.compile(r"(?:[0-9]+(?P<point>\.[0-9]*)?|(?P<bare>\.[0-9]+))(?P<power>[eE][+-]?[0-9]+)?")
NAME = re.compile(r"(?:[^\W\d]|\$)[\w$.]*")
SIGN = re.compile(r"<>|<=|>=|[=<>+\-*/(),]")
DEEPEST = 32  # nested parentheses, NOT and signs
MOST_TERMS = 256  # names and literals
Kind = Literal["name", "string", "number", "condition"]


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
    """The names, literals and signs of a selector in order, each with its position; the last one is the end."""
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
    """The text between the quote at ``start`` and the next single quote; a doubled quote stands for one quote."""
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


class Part(NamedTuple):
    term: Term
    kind: Kind
    at: int  # its position in the text


class Parsed(NamedTuple):
    """The closure of a whole selector, the meter of its LIKE conditions, and the number of its names and literals."""

    term: Term
    meter: Meter
    terms: int


def parse(text: str) -> Parsed:
    """Parse a selector; PreconditionFailed names the position of the error and the expected token."""
    return _Parser(tokens_of(text)).selector()


class _Parser:
    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._next = 0
        self._depth = 0
        self._terms = 0
        self._meter = Meter()

    def selector(self) -> Parsed:
        whole = self._condition()
        if self._token.kind != "end":
            raise self._unexpected("AND, OR or the end")
        return Parsed(self._needs_condition(whole).term, self._meter, self._terms)

    # ---- the words

    @property
    def _token(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
        token = self._token
        self._next += 1
        return token

    def _found(self, *words: str) -> Token | None:
        """Consume and return the next word if it is one of these keywords or signs."""
        token = self._token
        return self._take() if token.kind in ("keyword", "sign") and token.text in words else None

    def _expect(self, word: str) -> Token:
        found = self._found(word)
        if found is None:
            raise self._unexpected(f"'{word}'")
        return found

    def _unexpected(self, expected: str) -> Exception:
        return refusal(self._token.at, f"expected {expected}, found {self._token}")

    # ---- the limits

    def _deeper(self, at: int, parse: Callable[[], Part]) -> Part:
        self._depth += 1
        if self._depth > DEEPEST:
            raise refusal(at, f"expected at most {DEEPEST} parentheses, NOT and signs within each other")
        inner = parse()
        self._depth -= 1
        return inner

    def _count_term(self) -> Token:
        self._terms += 1
        if self._terms > MOST_TERMS:
            raise refusal(self._token.at, f"expected at most {MOST_TERMS} names and literals")
        return self._take()

    # ---- the kinds

    def _needs_condition(self, part: Part) -> Part:
        if part.kind in ("condition", "name"):
            return part
        raise refusal(part.at, f"expected a condition, found a {part.kind}")

    def _needs_number(self, part: Part, use: str) -> Part:
        if part.kind in ("number", "name"):
            return part
        raise refusal(part.at, f"expected a number for {use}, found a {part.kind}")

    def _needs_name(self, part: Part, use: str) -> Part:
        if part.kind == "name":
            return part
        raise refusal(part.at, f"expected a name before {use}, found a {part.kind}")

    # ---- the grammar

    def _condition(self) -> Part:
        return self._joined("OR", self._conjunction, terms.any_of)

    def _conjunction(self) -> Part:
        return self._joined("AND", self._denial, terms.all_of)

    def _joined(self, word: str, parse: Callable[[], Part], join: Callable[[Sequence[Term]], Term]) -> Part:
        parts = [parse()]
        while self._found(word):
            parts.append(parse())
        if len(parts) == 1:
            return parts[0]
        return Part(join([self._needs_condition(part).term for part in parts]), "condition", parts[0].at)

    def _denial(self) -> Part:
        word = self._found("NOT")
        if word is None:
            return self._predicate()
        denied = self._needs_condition(self._deeper(word.at, self._denial))
        return Part(terms.negation(denied.term), "condition", word.at)

    def _predicate(self) -> Part:
        left = self._sum()
        if sign := self._found("=", "<>", "<", "<=", ">", ">="):
            return Part(self._comparison(left, sign.text), "condition", left.at)
        if self._found("IS"):
            self._needs_name(left, "IS")
            is_denied = self._found("NOT")
            self._expect("NULL")
            term = terms.is_null(left.term)
        else:
            is_denied = self._found("NOT")
            found = self._found("BETWEEN", "IN", "LIKE")
            if found is None:
                if is_denied:
                    raise self._unexpected("BETWEEN, IN or LIKE")
                return left
            term = {"BETWEEN": self._between, "IN": self._in, "LIKE": self._like}[found.text](left)
        return Part(terms.negation(term) if is_denied else term, "condition", left.at)

    def _comparison(self, left: Part, sign: str) -> Term:
        right = self._sum()
        if sign in ("=", "<>"):
            same = terms.equal(left.term, right.term)
            return same if sign == "=" else terms.negation(same)
        use = f"'{sign}'"
        return terms.ordered(sign, self._needs_number(left, use).term, self._needs_number(right, use).term)

    def _between(self, left: Part) -> Term:
        low = self._sum()
        self._expect("AND")
        return terms.between(*(self._needs_number(part, "BETWEEN").term for part in (left, low, self._sum())))

    def _in(self, left: Part) -> Term:
        self._needs_name(left, "IN")
        self._expect("(")
        members = [self._member()]
        while self._found(","):
            members.append(self._member())
        self._expect(")")
        return terms.one_of(left.term, members)

    def _member(self) -> str | int | float:
        sign = self._found("+", "-")
        if self._token.kind == "number":
            number = self._count_term().number
            return -number if sign and sign.text == "-" else number
        if self._token.kind == "string" and not sign:
            return self._count_term().text
        raise self._unexpected("a number" if sign else "a string or a number")

    def _like(self, left: Part) -> Term:
        self._needs_name(left, "LIKE")
        if self._token.kind != "string":
            raise self._unexpected("a pattern in single quotes")
        pattern = self._count_term()
        escape = self._escape() if self._found("ESCAPE") else None
        if escape is not None and _ends_escaped(pattern.text, escape):
            raise refusal(pattern.at, "expected a character after the last escape of the pattern")
        return terms.like(left.term, pattern.text, escape, self._meter)

    def _escape(self) -> str:
        if self._token.kind != "string" or len(self._token.text) != 1:
            raise self._unexpected("one character in single quotes after ESCAPE")
        return self._take().text

    def _sum(self) -> Part:
        return self._calculated(("+", "-"), self._product)

    def _product(self) -> Part:
        return self._calculated(("*", "/"), self._factor)

    def _calculated(self, signs: tuple[str, str], parse: Callable[[], Part]) -> Part:
        first = parse()
        rest: list[tuple[str, Term]] = []
        while sign := self._found(*signs):
            use = f"'{sign.text}'"
            self._needs_number(first, use)
            rest.append((sign.text, self._needs_number(parse(), use).term))
        return Part(terms.arithmetic(first.term, rest), "number", first.at) if rest else first

    def _factor(self) -> Part:
        token = self._token
        if sign := self._found("+", "-"):
            signed = self._needs_number(self._deeper(sign.at, self._factor), f"'{sign.text}'")
            make = terms.negative if sign.text == "-" else terms.positive
            return Part(make(signed.term), "number", sign.at)
        if self._found("("):
            inner = self._deeper(token.at, self._condition)
            self._expect(")")
            return inner
        return self._leaf()

    def _leaf(self) -> Part:
        token = self._token
        if token.kind == "name":
            return Part(terms.field(self._count_term().text), "name", token.at)
        if token.kind == "string":
            return Part(terms.constant(self._count_term().text), "string", token.at)
        if token.kind == "number":
            return Part(terms.constant(self._count_term().number), "number", token.at)
        if token.kind == "keyword" and token.text in ("TRUE", "FALSE"):
            return Part(terms.constant(self._count_term().text == "TRUE"), "condition", token.at)
        raise self._unexpected("a name, a literal or '('")


def _ends_escaped(pattern: str, escape: str) -> bool:
    """Whether the last escape character escapes nothing: the pattern ends with an odd number of them."""
    return (len(pattern) - len(pattern.rstrip(escape))) % 2 == 1
