"""Lengths of CHAR(n) and VARCHAR(n) in a JSON body, which Spark's types of columns do not have."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from leveret.schemas.ddl import DdlType, parse_ddl

SIZED = ("char", "varchar")
Check = Callable[[Any, str], "str | None"]  # value and path to the reason, if a text is too long


def too_long(ddl: str, body: bytes) -> str | None:
    """The reason why the body does not match, None if it does. Its types have been checked before."""
    check = _check_of_schema(ddl)
    return None if check is None else check(json.loads(body), "")


@lru_cache(maxsize=1_000)
def _check_of_schema(ddl: str) -> Check | None:
    return _check_of(parse_ddl(ddl))


def _check_of(kind: DdlType) -> Check | None:
    """None: texts of this type have any length."""
    if kind.kind == "struct":
        return _fields(kind)
    if kind.kind == "array":
        return _items(_check_of(kind.inner[0]))
    if kind.kind == "map":
        return _entries(_check_of(kind.inner[0]), _check_of(kind.inner[1]))
    return _text(kind.sizes[0]) if kind.kind in SIZED and kind.sizes else None


def _text(most: int) -> Check:
    def check(value: Any, path: str) -> str | None:
        return f"the field {path} is longer than {most} characters" if len(value) > most else None

    return check


def _fields(kind: DdlType) -> Check | None:
    checks = [(field.name, inner) for field in kind.fields if (inner := _check_of(field.type)) is not None]

    def check(value: Any, path: str) -> str | None:
        dot = f"{path}." if path else ""
        found = (inner(value[name], f"{dot}{name}") for name, inner in checks if value.get(name) is not None)
        return next((reason for reason in found if reason is not None), None)

    return check if checks else None


def _items(inner: Check | None) -> Check | None:
    def check(value: Any, path: str) -> str | None:
        assert inner is not None
        found = (inner(item, f"{path}[{at}]") for at, item in enumerate(value) if item is not None)
        return next((reason for reason in found if reason is not None), None)

    return None if inner is None else check


def _entries(of_key: Check | None, of_value: Check | None) -> Check | None:
    def check(value: Any, path: str) -> str | None:
        for key, item in value.items():
            place = f"{path}.{key:.80}"
            reason = None if of_key is None else of_key(key, place)
            if reason is None and of_value is not None and item is not None:
                reason = of_value(item, place)
            if reason is not None:
                return reason
        return None

    return None if of_key is None and of_value is None else check
