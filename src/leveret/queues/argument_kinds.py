"""The value types of queue arguments; each refuses invalid values with an error that names argument and value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from leveret.errors import PreconditionFailed

LONGEST_MS = (1 << 53) - 1

Arguments = Mapping[str, object]


def whole_number(arguments: Arguments, name: str, smallest: int, largest: int) -> int | None:
    value = arguments.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise PreconditionFailed(f"invalid arg '{name}': {value!r} is not a whole number")
    if not smallest <= value <= largest:
        raise PreconditionFailed(f"invalid arg '{name}': {value} is not within {smallest}..{largest}")
    return value


def milliseconds(arguments: Arguments, name: str, smallest: int) -> float | None:
    """The value of an argument in milliseconds, converted to seconds."""
    value = whole_number(arguments, name, smallest, LONGEST_MS)
    return None if value is None else value / 1000


def number(arguments: Arguments, name: str, smallest: float, largest: float) -> float | None:
    value = arguments.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise PreconditionFailed(f"invalid arg '{name}': {value!r} is not a number")
    if not smallest <= value <= largest:
        raise PreconditionFailed(f"invalid arg '{name}': {value} is not within {smallest}..{largest}")
    return float(value)


def flag(arguments: Arguments, name: str) -> bool:
    value = arguments.get(name)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise PreconditionFailed(f"invalid arg '{name}': {value!r} is not true or false")


def text(arguments: Arguments, name: str) -> str | None:
    value = arguments.get(name)
    if value is None or isinstance(value, str):
        return value
    raise PreconditionFailed(f"invalid arg '{name}': {value!r} is not a string")


def one_of(arguments: Arguments, name: str, accepted: Sequence[str]) -> str | None:
    value = arguments.get(name)
    if value is None:
        return None
    if value not in accepted:
        raise PreconditionFailed(f"invalid arg '{name}': {value!r}; accepted: {', '.join(accepted)}")
    return str(value)


def list_of_milliseconds(arguments: Arguments, name: str, most: int) -> tuple[float, ...] | None:
    """The values of a list of milliseconds, converted to seconds."""
    value = arguments.get(name)
    if value is None:
        return None
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= most:
        raise PreconditionFailed(f"invalid arg '{name}': {value!r} is not a list of 1 to {most} times in milliseconds")
    for each in value:
        if isinstance(each, bool) or not isinstance(each, int) or not 0 <= each <= LONGEST_MS:
            raise PreconditionFailed(f"invalid arg '{name}': {each!r} is not a number of milliseconds, 0 or more")
    return tuple(each / 1000 for each in value)
