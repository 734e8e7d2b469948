"""Times in options: milliseconds since 1970, or ISO 8601, for all queues or for each queue in JSON.

A number of seconds is refused: as milliseconds it would be a day in January 1970, so a query would silently read
everything. The same holds for microseconds, which are in the far future.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime

from leveret.spark.errors import OptionError
from leveret.spark.option_values import invalid_option

REMEDY = (
    "give milliseconds since 1970, a time such as 2026-11-18T06:00:00Z, or one of these for each queue as JSON such as "
    '{"orders": "2026-11-18T06:00:00Z"}'
)
SECONDS = range(10**8, 10**11)  # of the years 1973 to 5138
LATEST_TIME = 10**14  # milliseconds: the year 5138


def timestamps_of(option: str, text: str) -> int | dict[str, int]:
    """One time for all queues, or a time for each queue, in milliseconds since 1970."""
    if not text.lstrip().startswith("{"):
        return timestamp_of(option, text)
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise invalid_option(option, text, REMEDY) from error
    if not parsed or any(type(value) not in (int, str) for value in parsed.values()):
        raise invalid_option(option, text, REMEDY)
    return {queue: timestamp_of(option, str(value)) for queue, value in parsed.items()}


def timestamp_of(option: str, text: str) -> int:
    text = text.strip()
    if text.isdecimal():
        return _milliseconds(option, int(text))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise invalid_option(option, text, REMEDY) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return _not_before_1970(option, text, round(moment.timestamp() * 1000))


def _milliseconds(option: str, number: int) -> int:
    if number in SECONDS:
        meant = datetime.fromtimestamp(number, UTC)
        raise OptionError(
            f"option {option} is '{number}', which looks like seconds; give milliseconds: {number}000 is "
            f"{meant.isoformat().replace('+00:00', 'Z')}"
        )
    if number >= LATEST_TIME:
        raise OptionError(f"option {option} is '{number}', which is after the year 5000; give milliseconds since 1970")
    return number


def _not_before_1970(option: str, text: str, milliseconds: int) -> int:
    if milliseconds < 0:
        raise invalid_option(option, text, "give a time after 1970")
    return milliseconds
