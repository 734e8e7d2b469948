"""Lengths of time as options give them (``30 minutes``), and times in milliseconds since 1970."""

from __future__ import annotations

import re

from leveret.errors import ConfigError

LATEST = 253_402_300_799_999  # the end of the year 9999
FOREVER = 2**62
UNITS = {"millisecond": 1, "second": 1_000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000, "week": 604_800_000}
LENGTH = re.compile(r"\s*(\d+)\s+(" + "|".join(UNITS) + r")s?\s*", re.IGNORECASE)


def milliseconds_of(text: str, flag: str) -> int:
    found = LENGTH.fullmatch(text)
    length = int(found[1]) * UNITS[found[2].lower()] if found is not None else 0
    if not length:
        raise ConfigError(f"{flag} is {text!r}: write a number and a unit, as 500 milliseconds, 30 minutes or 1 day")
    return length
