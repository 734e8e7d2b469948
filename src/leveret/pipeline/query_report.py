"""Checks of the progress report of a Spark query: its fields, their types and their limits.

The broker keeps reports in memory and shows them to other users, so each field has a limit. A wrong value of the fields
in CHECKS is refused; wrong values of the older fields are kept and shown as null (spark_query_view.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from leveret.http.errors import BadRequest
from leveret.http.values import excerpt, text_of
from leveret.pipeline.spark_queries import Report

MOST_SOURCES = 100
MOST_PLACES = 500  # queues or partitions of one source
MOST_VALUES = 2_000  # values of a report: each takes far more memory than its bytes of JSON
MOST_STEPS, LONGEST_STEP = 20, 500
MOST_DURATIONS = 20
MOST_OPERATORS = 20
MOST_COUNTS = 10
LONGEST_NAME = 100  # of a duration, a count or an operator
LONGEST_ERROR = 2_000
LONGEST_ADDRESS = 500
LARGEST = 10**15
OPERATOR_FIELDS = ("name", "rows", "memory_bytes", "late_rows")


def refuse_invalid(report: Report) -> None:
    strange = sorted(report.keys() - set(FIELDS))
    if strange:
        raise BadRequest(f"'{strange[0]}' is not a field of a report: use {', '.join(FIELDS)}")
    if not 0 < len(text_of(report, "id")) <= 255:
        raise BadRequest("'id' must be a string of 1 to 255 characters")
    _refuse_large(report)
    for name, check in CHECKS.items():
        if report.get(name) is not None:
            check(name, report[name])


def _refuse_large(report: Report) -> None:
    sources = report.get("sources")
    if isinstance(sources, list):
        if len(sources) > MOST_SOURCES:
            raise BadRequest(f"'sources' has more than {MOST_SOURCES} entries: report fewer")
        for source in sources:
            offset = source.get("offset") if isinstance(source, dict) else None
            if isinstance(offset, dict) and len(offset) > MOST_PLACES:
                raise BadRequest(f"an 'offset' in 'sources' has more than {MOST_PLACES} entries: report fewer")
    if _values_in(report) > MOST_VALUES:
        raise BadRequest(f"a report has more than {MOST_VALUES} values: report less")


def _values_in(report: Report) -> int:
    level: list[Any] = [report]
    number = 0
    while level:
        number += len(level)
        inner = [each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list)]
        level = [value for values in inner for value in values]
    return number


def _steps(name: str, value: object) -> None:
    for step in _entries(name, value, MOST_STEPS):
        _text(f"an entry of '{name}'", step, LONGEST_STEP)


def _error(name: str, value: object) -> None:
    _text(f"'{name}'", value, LONGEST_ERROR)


def _durations(name: str, value: object) -> None:
    _numbers(name, value, MOST_DURATIONS)


def _counts(name: str, value: object) -> None:
    """Rows that leave the state of a query are negative."""
    _numbers(name, value, MOST_COUNTS, least=-LARGEST)


def _operators(name: str, value: object) -> None:
    for operator in _entries(name, value, MOST_OPERATORS):
        if not isinstance(operator, dict) or operator.keys() - set(OPERATOR_FIELDS):
            raise BadRequest(f"an entry of '{name}' must be an object with {', '.join(OPERATOR_FIELDS)} only")
        _text(f"'name' in '{name}'", operator.get("name"), LONGEST_NAME)
        for field in operator.keys() - {"name"}:
            _number(f"'{field}' in '{name}'", operator[field])


def _address(name: str, value: object) -> None:
    """An address without a password that a browser can open: the management UI shows it as a link."""
    _text(f"'{name}'", value, LONGEST_ADDRESS)
    address = str(value)
    try:
        parts = urlsplit(address)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and "@" not in parts.netloc
    except ValueError:
        is_good = False
    if not is_good or not address.isprintable() or " " in address:
        raise BadRequest(
            f"'{name}' must be an address that starts with http:// or https://, without a password, not "
            f"{excerpt(address)}"
        )


def _entries(name: str, value: object, most: int) -> list[Any]:
    if not isinstance(value, list) or len(value) > most:
        raise BadRequest(f"'{name}' must be a list of at most {most} entries, not {excerpt(value)}")
    return value


def _numbers(name: str, value: object, most: int, least: int = 0) -> None:
    if not isinstance(value, dict) or len(value) > most:
        raise BadRequest(f"'{name}' must be an object with at most {most} numbers, not {excerpt(value)}")
    for each in value:
        _text(f"a name in '{name}'", each, LONGEST_NAME)
        _number(f"'{each}' in '{name}'", value[each], least)


def _number(what: str, value: object, least: int = 0) -> None:
    if type(value) is not int or not least <= value <= LARGEST:
        raise BadRequest(f"{what} must be a whole number from {least} to {LARGEST}, not {excerpt(value)}")


def _text(what: str, value: object, longest: int) -> None:
    if not isinstance(value, str) or not 0 < len(value) <= longest:
        raise BadRequest(f"{what} must be a string of 1 to {longest} characters, not {excerpt(value)}")


CHECKS: dict[str, Callable[[str, object], None]] = {
    "steps": _steps,
    "duration_ms": _durations,
    "state_operators": _operators,
    "counts": _counts,
    "error": _error,
    "spark_ui": _address,
}
FIELDS = (
    *("id", "name", "run_id", "vhost", "batch", "rows", "rows_per_second", "input_rows_per_second", "lag", "batch_ms"),
    *("sources", "sink", "state", "at", *CHECKS),
)
