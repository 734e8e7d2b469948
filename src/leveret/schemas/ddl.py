"""Fields of JSON bodies in Spark's DDL: ``id STRING NOT NULL, lines ARRAY<STRUCT<sku: STRING, n: INT>>``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from leveret.schemas.errors import SchemaError

NAMES = (
    *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "string", "char", "varchar"),
    *("binary", "date", "time", "timestamp", "timestamp_ntz", "variant"),
)
SYNONYMS = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint", "real": "float"}
SYNONYMS |= {"dec": "decimal", "numeric": "decimal", "timestamp_ltz": "timestamp"}
SIZED = {"decimal": 2, "char": 1, "varchar": 1}  # types with numbers in parentheses, and how many at most
MARKS = frozenset("<>(),:")
TOKEN = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([A-Za-z0-9_]+)|('(?:[^'\\]|\\.)*')|([<>(),:]))")
DEEPEST = 32


@dataclass(frozen=True, slots=True)
class DdlField:
    name: str
    type: DdlType
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class DdlType:
    """``inner``: the element of an array, or the key and value of a map. ``sizes``: precision and scale."""

    kind: str
    fields: tuple[DdlField, ...] = ()
    inner: tuple[DdlType, ...] = ()
    sizes: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}({','.join(map(str, self.sizes))})" if self.sizes else self.kind


def parse_ddl(text: str) -> DdlType:
    """The fields as a struct. SchemaError: the text is not DDL."""
    return DdlType("struct", _Parser(text).fields("", 0))


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._at = 0

    def fields(self, end: str, depth: int) -> tuple[DdlField, ...]:
        """Comma-separated fields up to ``end``, or to the end of the text."""
        found: list[DdlField] = []
        while not found or self._take(","):
            found.append(self._field(depth))
        self._expect(end)
        names = [field.name.lower() for field in found]
        if len({*names}) < len(names):
            raise SchemaError(f"the DDL has a field twice among {', '.join(names)[:200]}: rename one of them")
        return tuple(found)

    def _field(self, depth: int) -> DdlField:
        name = self._name("the name of a field")
        self._take(":")
        kind = self._type(depth + 1)
        nullable = not self._take("NOT")
        if not nullable:
            self._expect("NULL")
        if self._take("COMMENT"):
            self._at += 1
        return DdlField(name, kind, nullable)

    def _type(self, depth: int) -> DdlType:
        if depth > DEEPEST:
            raise SchemaError(f"the DDL is nested deeper than {DEEPEST} levels")
        name = self._name("a type").lower()
        if name in ("array", "map"):
            self._expect("<")
            inner = [self._type(depth + 1)]
            if name == "map":
                self._expect(",")
                inner.append(self._type(depth + 1))
            self._expect(">")
            return DdlType(name, inner=tuple(inner))
        if name == "struct":
            self._expect("<")
            return DdlType("struct", self.fields(">", depth))
        kind = SYNONYMS.get(name, name)
        if kind not in NAMES:
            raise SchemaError(f"the DDL type {name!r:.80} is unknown: use a type of Spark, such as STRING or BIGINT")
        return DdlType(kind, sizes=self._sizes(kind))

    def _sizes(self, kind: str) -> tuple[int, ...]:
        if kind not in SIZED or not self._take("("):
            return (10, 0) if kind == "decimal" else ()
        sizes = [self._number()]
        while self._take(","):
            sizes.append(self._number())
        self._expect(")")
        if len(sizes) > SIZED[kind]:
            raise SchemaError(f"the DDL type {kind} has {len(sizes)} sizes: give at most {SIZED[kind]}")
        return (sizes[0], 0) if kind == "decimal" and len(sizes) == 1 else tuple(sizes)

    def _number(self) -> int:
        text = self._name("a number")
        if not text.isdecimal() or len(text) > 9:
            raise SchemaError(f"the DDL has {text!r:.80} instead of a number")
        return int(text)

    def _name(self, what: str) -> str:
        token = self._tokens[self._at] if self._at < len(self._tokens) else ""
        if not token or token in MARKS or token.startswith("'"):
            raise SchemaError(f"the DDL has {token or 'its end'!r} instead of {what}: write NAME TYPE, NAME TYPE")
        self._at += 1
        return token[1:] if token.startswith("`") else token

    def _take(self, token: str) -> bool:
        is_next = self._at < len(self._tokens) and self._tokens[self._at].upper() == token
        self._at += is_next
        return is_next

    def _expect(self, token: str) -> None:
        if token and not self._take(token):
            found = self._tokens[self._at] if self._at < len(self._tokens) else "its end"
            raise SchemaError(f"the DDL has {found!r:.80} instead of {token!r}")
        if not token and self._at < len(self._tokens):
            raise SchemaError(f"the DDL has {self._tokens[self._at]!r:.80} instead of a comma or its end")


def _tokens(text: str) -> list[str]:
    """Quoted names keep their first quote: they are never keywords."""
    found: list[str] = []
    at, end = 0, len(text.rstrip())
    while at < end:
        match = TOKEN.match(text, at)
        if match is None:
            raise SchemaError(f"the DDL has an unexpected character in {text[at : at + 40]!r}")
        quoted, *others = match.groups()
        found.append("`" + quoted.replace("``", "`") if quoted is not None else next(filter(None, others)))
        at = match.end()
    return found
