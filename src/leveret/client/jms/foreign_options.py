"""Options as ActiveMQ's users write them, ``prefix.NAME=VALUE``, and what becomes of each.

Some are read. Some name what is always so here: a value that says just that is let pass, any other one is refused with
the reason. What is not known at all is refused with what is. So no option is ever ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class Fixed:
    """An option that changes nothing here. ``values``: those that say what is so in any case."""

    values: tuple[str, ...]
    reason: str


class ForeignOptions:
    """Takes the options one by one; at the end nothing may be left. ``error`` is what a wrong one raises."""

    def __init__(
        self, prefix: str, given: Mapping[str, str], fixed: Mapping[str, Fixed], error: type[Exception], place: str
    ) -> None:
        self._prefix = prefix
        self._left = dict(given)
        self._fixed = fixed
        self._error = error
        self._place = place
        self._known: list[str] = []

    def text(self, name: str) -> str | None:
        self._known.append(name)
        return self._left.pop(self._prefix + name, None)

    def whole(self, name: str, least: int, most: int = 1 << 53) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        if not value.removeprefix("-").isdecimal() or not least <= int(value) <= most:
            raise self._wrong(name, f"must be a whole number from {least} to {most}", value)
        return int(value)

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

    def truth(self, name: str) -> bool | None:
        value = self.text(name)
        if value is None:
            return None
        if value.lower() not in ("true", "false"):
            raise self._wrong(name, "must be true or false", value)
        return value.lower() == "true"

    def refuse_left(self) -> None:
        """What was not taken: it holds in any case, or it is an error."""
        for option, value in self._left.items():
            fixed = self._fixed.get(option.removeprefix(self._prefix)) if option.startswith(self._prefix) else None
            if fixed is None:
                known = ", ".join(self._prefix + name for name in self._known)
                raise self._error(f"{self._place} has an unknown option '{option}': known are {known}; remove it")
            if value.lower() not in fixed.values:
                raise self._error(f"{self._place} has '{option}', which cannot be had here: {fixed.reason}")

    def _wrong(self, name: str, rule: str, value: str) -> Exception:
        return self._error(f"option '{self._prefix}{name}' of {self._place} {rule}: '{value}'")
