"""Long lists over HTTP: filtered by name, sorted, cut into pages and columns, as RabbitMQ's management takes it.

    ?name=ord&use_regex=false&sort=messages&sort_reverse=true&page=1&page_size=100&columns=name,message_stats.publish

What is listed is looked at and written on the loop, for a millisecond a turn, so that ten thousand rows hold nobody up;
names are matched in a thread. A regular expression of somebody else's is bounded in time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from itertools import islice
from operator import itemgetter
from time import perf_counter
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from leveret.http.errors import BadRequest, PageOutOfRange
from leveret.http.responses import JSON, encoded, json_bytes_response
from leveret.http.time_slice import TimeSlice
from leveret.http.values import boolean_of, integer_of, text_of
from leveret.http.workers import WorkerContext

Row = dict[str, Any]
T = TypeVar("T")
Columns = Mapping[str, Any]  # of such; at its leaves WHOLE

WHOLE: Columns = MappingProxyType({})
LARGEST_PAGE = 500
PIECE = 64 << 10  # bytes of JSON that are sent at once
AT_ONCE = 50  # things of which only a column is looked at
STALLED = 60.0  # seconds that a client may take for one piece
LONGEST_NAME = 1_000
DEEPEST_SORT = 10  # parts of a column's name
SECONDS = 1.0  # for a regular expression, over all rows
MISSING = object()
RANK, THING = "\0rank", "\0thing"  # no columns of anything


class Asked(NamedTuple):
    """What the query asks for. ``page`` 0: all rows."""

    name: str | None
    is_regex: bool
    sort: tuple[str, ...]
    is_reversed: bool
    page: int
    page_size: int
    columns: Columns


def asked_of(request: Request) -> Asked:
    given = request.query_params
    name = text_of(given, "name") if "name" in given else None
    if name is not None and len(name) > LONGEST_NAME:
        raise BadRequest(f"'name' is longer than {LONGEST_NAME} characters: filter by a part of the name")
    is_paged = "page" in given
    return Asked(
        name or None,
        _flag(given, "use_regex"),
        _path(text_of(given, "sort", "")),
        _flag(given, "sort_reverse"),
        integer_of(given, "page", 1) if is_paged else 0,
        integer_of(given, "page_size", 1, LARGEST_PAGE, default=100) if is_paged else LARGEST_PAGE,
        _columns(text_of(given, "columns", "")),
    )


def _columns(text: str) -> Columns:
    """``name,message_stats.publish`` as a tree; whoever asks for a whole asks for its parts."""
    tree: dict[str, Any] = {}
    for column in text.split(","):
        place = tree
        *way, last = column.split(".")
        for part in way:
            place = place.setdefault(part, {})
            if place is WHOLE:
                break
        else:
            place[last] = WHOLE
    tree.pop("", None)
    return tree


def _path(text: str) -> tuple[str, ...]:
    if text.count(".") >= DEEPEST_SORT:
        raise BadRequest(f"'sort' has more than {DEEPEST_SORT} parts: name a column")
    return tuple(text.split(".")) if text else ()


def _flag(given: Mapping[str, str], name: str) -> bool:
    """In any case, and false if it is empty: as RabbitMQ's page sends it, and tools that were written for it."""
    return boolean_of({name: given.get(name, "").lower() or "false"}, name)


async def viewed(things: Iterable[T], view: Callable[[T], Row | None]) -> list[Row]:
    """A row of each, without those of which the view gives none. Other work gets its turn in between."""
    rows: list[Row] = []
    time_slice = TimeSlice()
    for thing in list(things):
        row = view(thing)
        if row is not None:
            rows.append(row)
        await time_slice.pause_if_over()
    return rows


async def list_response(
    context: WorkerContext,
    request: Request,
    things: Iterable[T],
    view: Callable[[T], Row | None],
    *,
    at_hand: Mapping[str, Callable[[T], Any]] | None = None,
    adding: Callable[[Row], Row] | None = None,
    written: Callable[[T], bytes | None] | None = None,
) -> Response:
    """The rows of these things, as the query asks for them.

    ``at_hand`` gives columns without making a row: if it has the name and what is sorted by, rows are made of those
    things alone that are shown. It is for things whose view leaves none out. ``adding`` what is costly is done for what
    is shown. ``written`` gives a whole row as JSON, if that is cheaper.
    """
    asked = asked_of(request)
    if asked.name is None and not asked.sort and not asked.page:
        if written is None or adding is not None or asked.columns:
            written = _writer(view, adding, asked.columns)
        return await _response(_written(things, written), b"[", b"]")
    slim, made = await _ranked(things, view, asked.sort, at_hand or {})
    shown = await context.in_worker(lambda: arranged(slim, asked))
    items = _written(shown.pop("items"), _writer(made, adding, asked.columns))
    if not asked.page:
        return await _response(items, b"[", b"]")
    return await _response(items, b'{"items":[', b"]," + encoded(shown)[1:])


async def _ranked(
    things: Iterable[T],
    view: Callable[[T], Row | None],
    sort: tuple[str, ...],
    at_hand: Mapping[str, Callable[[T], Any]],
) -> tuple[list[Row], Callable[[Row], Row | None]]:
    """What is arranged by: each with a name and a rank. And how one of them becomes a row."""
    things = list(things)
    name, rank = at_hand.get("name"), at_hand.get(".".join(sort) or "name")
    if name is None or rank is None:
        rows = await viewed(things, view)
        time_slice = TimeSlice()
        for row in rows:
            row[RANK] = _rank(_at(row, sort))
            await time_slice.pause_if_over()
        return rows, _without_rank
    slim: list[Row] = []
    rest, time_slice = iter(things), TimeSlice()
    while some := list(islice(rest, AT_ONCE)):
        slim += [{"name": name(thing), RANK: _rank(rank(thing)), THING: thing} for thing in some]
        await time_slice.pause_if_over()
    return slim, lambda row: view(row[THING])


def _without_rank(row: Row) -> Row:
    del row[RANK]
    return row


def _writer(
    view: Callable[[T], Row | None], adding: Callable[[Row], Row] | None, columns: Columns
) -> Callable[[T], bytes | None]:
    def write(thing: T) -> bytes | None:
        row = view(thing)
        return None if row is None else encoded(_only(row if adding is None else adding(row), columns))

    return write


async def _written(things: Iterable[T], write: Callable[[T], bytes | None]) -> AsyncGenerator[bytes]:
    """The rows as JSON with commas in between, piece by piece. Each row is thrown away before the next is made: to
    write, or to free, ten thousand at once would hold the loop for longer than a message may wait."""
    parts: list[bytes] = []
    size, time_slice = 0, TimeSlice()
    for thing in list(things):
        row = write(thing)
        if row is not None:
            if size >= PIECE:
                yield b",".join([*parts, b""])
                parts, size = [], 0
            parts.append(row)
            size += len(row)
        await time_slice.pause_if_over()
    yield b",".join(parts)


async def _response(pieces: AsyncGenerator[bytes], before: bytes, behind: bytes) -> Response:
    """Whole if it is short; else it goes out while it is made."""
    first = await anext(pieces)
    second = await anext(pieces, None)
    if second is None:
        return json_bytes_response(before + first + behind)
    return StreamedResponse(pieces, before + first, second, behind)


class StreamedResponse(Response):
    """Goes out while it is made."""

    media_type = JSON

    def __init__(self, pieces: AsyncGenerator[bytes], first: bytes, second: bytes, last: bytes) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._begun, self._pieces, self._last = (first, second), pieces, last

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async with aclosing(self._pieces):
            for piece in self._begun:
                await _send_piece(send, piece, more=True)
            async for piece in self._pieces:
                await _send_piece(send, piece, more=True)
            await _send_piece(send, self._last, more=False)


async def _send_piece(send: Send, piece: bytes, *, more: bool) -> None:
    try:
        async with asyncio.timeout(STALLED):
            await send({"type": "http.response.body", "body": piece, "more_body": more})
    except TimeoutError:
        raise ClientDisconnect from None


def as_it_is(row: Row) -> Row:
    """The view of what is a row already."""
    return row


def object_response(request: Request, row: Row) -> Response:
    """One object, with the columns that are asked for."""
    return json_bytes_response(encoded(_only(row, asked_of(request).columns)))


def arranged(rows: list[Row], asked: Asked) -> Row:
    """Those that are asked for as ``items``, and of a page what is to be known of the others. Each row has its rank."""
    total = len(rows)
    if asked.name is not None:
        rows = _named(rows, asked.name, is_regex=asked.is_regex)
    if asked.sort:
        rows = sorted(rows, key=itemgetter(RANK), reverse=asked.is_reversed)
    if not asked.page:
        return {"items": rows}
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
        if value is MISSING:
            break
    return value


def _rank(value: Any) -> tuple[int, Any]:
    """So that values of different kinds can be compared: what is not there first, then numbers, then texts."""
    if value is MISSING or value is None:
        return 0, 0
    if isinstance(value, bool | int | float):
        return 1, value
    return 2, str(value)


def _only(row: Row, columns: Columns) -> Row:
    if not columns:
        return row
    chosen: Row = {}
    for name, inner in columns.items():
        value = row.get(name, MISSING)
        if isinstance(value, dict) and inner:
            value = _only(value, inner) or MISSING
        elif isinstance(value, list) and inner:
            value = [_only(each, inner) for each in value if isinstance(each, dict)]
        elif inner:
            continue  # it has no parts
        if value is not MISSING:
            chosen[name] = value
    return chosen
