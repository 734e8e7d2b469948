"""Checks of values in requests: strings, integers and booleans of a JSON body or a query."""

from __future__ import annotations

import json
from collections.abc import Mapping

from starlette.requests import Request

from leveret.http.errors import BadRequest

LARGEST = (1 << 63) - 1


def text_of(given: Mapping[str, object], name: str, default: str | None = None) -> str:
    value = given.get(name, default)
    if not isinstance(value, str) or not is_valid_text(value):
        raise BadRequest(f"'{name}' must be a string, not {excerpt(value)}")
    return value


def is_valid_text(text: str) -> bool:
    """Whether the string can be stored and returned: no null character, no lone surrogate."""
    return "\x00" not in text and is_encodable(text)


def is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def integer_of(
    given: Mapping[str, object], name: str, smallest: int = 0, largest: int = LARGEST, default: int | None = None
) -> int:
    """An integer from JSON, or decimal digits from a query."""
    value = given.get(name, default)
    if isinstance(value, str) and value.removeprefix("-").isdecimal() and value.isascii() and len(value) < 21:
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not smallest <= value <= largest:
        raise BadRequest(f"'{name}' must be a whole number from {smallest} to {largest}, not {excerpt(value)}")
    return value


def boolean_of(given: Mapping[str, object], name: str, default: bool = False) -> bool:
    value = given.get(name, default)
    if isinstance(value, str):
        value = {"true": True, "false": False}.get(value, value)
    if not isinstance(value, bool):
        raise BadRequest(f"'{name}' must be true or false, not {excerpt(value)}")
    return value


def query_parameter(request: Request, name: str, default: str | None = None) -> str:
    """A query parameter; required if it has no default."""
    value = request.query_params.get(name, default)
    if value is None:
        raise BadRequest(f"'{name}' is missing: add it to the query of {request.url.path}")
    return text_of({name: value}, name)


def excerpt(value: object) -> str:
    """The value as JSON for an error message, shortened to 80 characters."""
    text = json.dumps(value, default=str)
    return "missing" if value is None else text if len(text) <= 80 else f"{text[:77]}..."
