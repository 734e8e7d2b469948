"""The options as Spark passes them, strings with case-insensitive names, converted to their types.

Every error names the option, the value and the remedy. Values of unknown options are not repeated: they may be secrets
with a misspelt name.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping

from leveret.spark.errors import OptionError

# Added by Spark to the options of a sink.
SPARK_OPTIONS = {"checkpointlocation", "queryname"}
SECRETS = {"password", "passwd", "secret", "credentials"}
TRUE, FALSE = "true", "false"
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}  # in seconds
DURATION = re.compile(r"(\d{1,9})\s*(ms|s|m|min|h)")


class OptionValues:
    """The given options, and the names that are allowed."""

    def __init__(self, options: Mapping[str, str], known: Iterable[str]) -> None:
        self._values = {name.lower(): value for name, value in options.items()}
        self._known = {name.lower(): name for name in known}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values

    def refuse_unknown(self, elsewhere: Mapping[str, str]) -> None:
        """`elsewhere`: options that are allowed in another place, with an explanation."""
        misplaced = {name.lower(): why for name, why in elsewhere.items()}
        for name in sorted(self._values):
            if name in SECRETS:
                raise OptionError(
                    f"option {name} is not allowed, because Spark shows options in plans and logs; "
                    "use credentialsFile or the environment variable LEVERET_PASSWORD"
                )
            if name in self._known or name in SPARK_OPTIONS:
                continue
            if name == "path":
                raise OptionError(
                    'option path is unknown: name the queue by .option("queue", ...) or the exchange by '
                    '.option("exchange", ...), and call load(), save() or start() without a path'
                )
            if name in misplaced:
                raise OptionError(f"option {name} is {misplaced[name]}; remove it")
            near = difflib.get_close_matches(name, self._known, n=1, cutoff=0.5)
            known = f"known options are {', '.join(self._known.values())}"
            raise OptionError(f"option {name} is unknown; {f'did you mean {self._known[near[0]]}?' if near else known}")

    def refuse_together(self, one: str, other: str) -> None:
        if one in self and other in self:
            raise OptionError(f"options {one} and {other} exclude each other; remove one of them")

    def text(self, name: str, default: str | None = None) -> str | None:
        return self._values.get(name.lower(), default)

    def filled(self, name: str) -> str | None:
        """A string that must not be empty if it is given."""
        value = self.text(name)
        if value is not None and not value:
            raise OptionError(f"option {name} is empty; give a value or remove it")
        return value

    def words(self, name: str) -> tuple[str, ...]:
        """The parts between commas, each once; none if the option is not given."""
        value = self.filled(name)
        words = () if value is None else tuple(part.strip() for part in value.split(","))
        if not all(words) or len({*words}) < len(words):
            raise invalid_option(name, str(value), "give each name once, separated by commas")
        return words

    def whole_number(self, name: str, smallest: int = 1) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        try:
            number = int(value)
        except ValueError:
            number = smallest - 1
        if number < smallest:
            raise invalid_option(name, value, f"give a whole number of at least {smallest}")
        return number

    def seconds(self, name: str, default: float) -> float:
        """A duration such as 90s or 15m."""
        value = self.text(name)
        if value is None:
            return default
        found = DURATION.fullmatch(value.strip().lower())
        if found is None:
            raise invalid_option(name, value, "give a duration such as 500ms, 30s, 15m or 1h")
        return int(found[1]) * UNITS[found[2]]

    def flag(self, name: str, default: bool) -> bool:
        value = self.text(name, TRUE if default else FALSE)
        assert value is not None
        if value.lower() not in {TRUE, FALSE}:
            raise invalid_option(name, value, f"give {TRUE} or {FALSE}")
        return value.lower() == TRUE

    def one_of(self, name: str, choices: tuple[str, ...]) -> str:
        """The first choice is the default."""
        value = self.text(name, choices[0])
        assert value is not None
        if value.lower() not in choices:
            raise invalid_option(name, value, f"give {' or '.join(choices)}")
        return value.lower()


def invalid_option(name: str, value: str, remedy: str) -> OptionError:
    return OptionError(f"option {name} is '{value}'; {remedy}")


def offsets_by_queue(name: str, value: str, lowest: int) -> dict[str, int]:
    """Parse the JSON object {"queue": offset, ...}."""
    remedy = f"""give a word, or JSON such as {{"orders": 42}} with whole numbers of at least {lowest}"""
    try:
        parsed = json.loads(value)
    except ValueError as error:
        raise invalid_option(name, value, remedy) from error
    if not isinstance(parsed, dict) or not parsed:
        raise invalid_option(name, value, remedy)
    for offset in parsed.values():
        if type(offset) is not int or offset < lowest:
            raise invalid_option(name, value, remedy)
    return parsed
