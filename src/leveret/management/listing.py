"""Long lists over HTTP: filtered by name, sorted, cut into pages and columns, as RabbitMQ's management takes it.

    ?name=ord&use_regex=false&sort=messages&sort_reverse=true&page=1&page_size=100&columns=name,message_stats.publish

What is listed is looked at on the loop, for some milliseconds a turn. All else works on plain values and is done in a
thread: ten thousand rows hold nobody up. A regular expression of somebody else's is bounded in time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from leveret.management.answers import encoded, json_bytes
from leveret.management.bodies import text_of, truth_of, whole_number_of
from leveret.management.errors import BadRequest, PageOutOfRange
from leveret.management.office import Office
from leveret.management.turns import Turn

Row = dict[str, Any]
T = TypeVar("T")

LARGEST_PAGE = 500
LONGEST_NAME = 1_000
SECONDS = 1.0  # for a regular expression, over all rows
MISSING = object()


class Asked(NamedTuple):
    """What the query asks for. ``page`` 0: all rows."""

    name: str | None
    is_regex: bool
    sort: tuple[str, ...]
    is_reversed: bool
    page: int
    page_size: int
    columns: tuple[tuple[str, ...], ...]


def asked_of(request: Request) -> Asked:
    given = request.query_params
    name = text_of(given, "name") if "name" in given else None
    if name is not None and len(name) > LONGEST_NAME:
        raise BadRequest(f"'name' is longer than {LONGEST_NAME} characters: filter by a part of the name")
    is_paged = "page" in given
    return Asked(
        name or None,
        truth_of(given, "use_regex"),
        _path(text_of(given, "sort", "")),
        truth_of(given, "sort_reverse"),
        whole_number_of(given, "page", 1) if is_paged else 0,
        whole_number_of(given, "page_size", 1, LARGEST_PAGE, default=100) if is_paged else LARGEST_PAGE,
        tuple(_path(column) for column in text_of(given, "columns", "").split(",") if column),
    )


def _path(text: str) -> tuple[str, ...]:
    return tuple(text.split(".")) if text else ()


async def viewed(things: Iterable[T], view: Callable[[T], Row | None]) -> list[Row]:
    """A row of each, without those of which the view gives none. Other work gets its turn in between."""
    rows: list[Row] = []
    turn = Turn()
    for thing in list(things):
        row = view(thing)
        if row is not None:
            rows.append(row)
        await turn.rest()
    return rows


async def list_answer(
    office: Office, request: Request, rows: list[Row], *, adding: Callable[[Row], Row] | None = None
) -> Response:
    """The rows as the query asks for them. ``adding`` what is costly is done for those that are shown."""
    asked = asked_of(request)
    shown = await office.in_worker(lambda: arranged(rows, asked))
    if adding is not None:
        await viewed(shown["items"] if isinstance(shown, dict) else shown, adding)
    return json_bytes(await office.in_worker(lambda: encoded(narrowed(shown, asked.columns))))


def narrowed(shown: list[Row] | Row, columns: tuple[tuple[str, ...], ...]) -> list[Row] | Row:
    """With these columns alone."""
    if isinstance(shown, dict):
        return shown | {"items": [_only(row, columns) for row in shown["items"]]}
    return [_only(row, columns) for row in shown]


def object_answer(request: Request, row: Row) -> Response:
    """One object, with the columns that are asked for."""
    return json_bytes(encoded(_only(row, asked_of(request).columns)))


def arranged(rows: list[Row], asked: Asked) -> list[Row] | Row:
    """All of them in a list, or one page with what is to be known of the others; with all their columns."""
    total = len(rows)
    if asked.name is not None:
        rows = _named(rows, asked.name, is_regex=asked.is_regex)
    if asked.sort:
        rows = sorted(rows, key=lambda row: _rank(_at(row, asked.sort)), reverse=asked.is_reversed)
    if not asked.page:
        return rows
    pages = max(-(-len(rows) // asked.page_size), 1)
    if asked.page > pages:
        raise PageOutOfRange(
            f"page out of range, page: {asked.page} page size: {asked.page_size}, len: {len(rows)}: ask for page 1 to "
            f"{pages}"
        )
    start = (asked.page - 1) * asked.page_size
    items = rows[start : start + asked.page_size]
    return {
        "filtered_count": len(rows),
        "item_count": len(items),
        "items": items,
        "page": asked.page,
        "page_count": pages,
        "page_size": asked.page_size,
        "total_count": total,
    }


def _named(rows: list[Row], name: str, *, is_regex: bool) -> list[Row]:
    if not is_regex:
        return [row for row in rows if name in str(row.get("name", ""))]
    import regex  # with the first that is asked for

    try:
        pattern = regex.compile(name, regex.IGNORECASE, cache_pattern=False)
    except (regex.error, ValueError, RecursionError, OverflowError) as problem:
        raise BadRequest(f"'name' is no regular expression: {problem}") from None
    found: list[Row] = []
    end = perf_counter() + SECONDS
    try:
        for row in rows:
            if pattern.search(str(row.get("name", "")), timeout=max(end - perf_counter(), 0.0)):
                found.append(row)
    except TimeoutError:
        raise BadRequest(f"'name' takes longer than {SECONDS:g} s to match: write a simpler expression") from None
    return found


def _at(row: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = row
    for part in path:
        value = value.get(part, MISSING) if isinstance(value, Mapping) else MISSING
    return value


def _rank(value: Any) -> tuple[int, Any]:
    """So that values of different kinds can be compared: what is not there first, then numbers, then texts."""
    if value is MISSING or value is None:
        return 0, 0
    if isinstance(value, bool | int | float):
        return 1, value
    return 2, str(value)


def _only(row: Row, columns: tuple[tuple[str, ...], ...]) -> Row:
    if not columns:
        return row
    chosen: Row = {}
    for path in columns:
        value = _at(row, path)
        if value is MISSING:
            continue
        place = chosen
        for part in path[:-1]:
            place = place.setdefault(part, {})
        place[path[-1]] = value
    return chosen
