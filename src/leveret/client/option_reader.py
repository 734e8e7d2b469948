"""Reads options as ActiveMQ's users write them in addresses and destination names: ``prefix.NAME=VALUE``.

Some options are fixed here: a value that describes what always applies is accepted, any other one is refused with the
reason. An unknown option is refused with the names of the known ones. So no option is ever ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
LARGEST = 1 << 53


@dataclass(slots=True, frozen=True)
class Fixed:
    """An option without an effect. ``values``: those that describe what always applies."""

    values: tuple[str, ...]
    reason: str


class OptionReader:
    """Takes the options one by one; at the end none may be left. ``error`` is raised for a wrong one, and ``place``
    names where it was written. ``others`` are known names that are read elsewhere."""

    def __init__(
        self,
        given: Mapping[str, str],
        error: type[Exception],
        place: str,
        *,
        prefix: str = "",
        fixed: Mapping[str, Fixed] | None = None,
        others: tuple[str, ...] = (),
    ) -> None:
        self._left = dict(given)
        self._error = error
        self._place = place
        self._prefix = prefix
        self._fixed = fixed or {}
        self._others = others
        self._known: list[str] = []

    def text(self, name: str) -> str | None:
        self._known.append(self._prefix + name)
        return self._left.pop(self._prefix + name, None)

    def whole(self, name: str, least: int, most: int = LARGEST) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        number = int(value) if value.removeprefix("-").isdecimal() else least - 1
        if not least <= number <= most:
            upper = "on" if most == LARGEST else f"to {most}"
            raise self._wrong(name, f"must be a whole number from {least} {upper}", value)
        return number

    def decimal(self, name: str, least: float, most: float) -> float | None:
        value = self.text(name)
        if value is None:
            return None
        try:
            number = float(value)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise self._wrong(name, f"must be a number from {least:g} to {most:g}", value)
        return number

    def choice(self, name: str, *values: str) -> str | None:
        value = self.text(name)
        if value is not None and value.lower() not in values:
            raise self._wrong(name, f"must be {' or '.join(values)}", value)
        return None if value is None else value.lower()

    def truth(self, name: str) -> bool | None:
        value = self.choice(name, "true", "false")
        return None if value is None else value == "true"

    def refuse_left(self) -> None:
        for option, value in self._left.items():
            fixed = self._fixed.get(option.removeprefix(self._prefix)) if option.startswith(self._prefix) else None
            if fixed is None:
                known = ", ".join([*self._known, *self._others])
                raise self._error(f"{self._place} has an unknown option '{option}': known are {known}; remove it")
            if value.lower() not in fixed.values:
                raise self._error(f"{self._place} has an unsupported setting '{option}': {fixed.reason}")

    def _wrong(self, name: str, rule: str, value: str) -> Exception:
        return self._error(f"option '{self._prefix}{name}' of {self._place} {rule}: '{value}'")


def given(value: T | None, default: T) -> T:
    return default if value is None else value
