"""Lists over HTTP: filtered by name, sorted, and reduced to pages and columns, as by RabbitMQ's management API.

    ?name=ord&use_regex=false&sort=messages&sort_reverse=true&page=1&page_size=100&columns=name,message_stats.publish

Rows are made and encoded on the event loop in time slices, so that ten thousand of them do not delay messages; names
are matched and rows sorted in a thread. Matching a client's regular expression has a time limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from operator import itemgetter
from time import perf_counter
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from leveret.auth.pattern_bounds import refuse_large
from leveret.http.errors import BadRequest, PageOutOfRange
from leveret.http.responses import JSON, encoded, json_bytes_response
from leveret.http.rows import Row, RowDescription
from leveret.http.time_slice import TimeSlice
from leveret.http.values import boolean_of, integer_of, text_of
from leveret.http.workers import WorkerContext

T = TypeVar("T")
R = TypeVar("R")
SortKey = tuple[str, tuple[int, Any], T]  # the name of an object, its value to sort by, and the object
Columns = Mapping[str, Any]  # a tree of names; its leaves are WHOLE

WHOLE: Columns = MappingProxyType({})
LARGEST_PAGE = 500
PIECE = 64 << 10  # bytes of JSON sent at once
STALLED = 60.0  # seconds within which a piece must be sent
LONGEST_NAME = 1_000
DEEPEST_SORT = 10  # parts of a column name
SECONDS = 1.0  # time limit of a regular expression, over all rows
MISSING = object()


class ListQuery(NamedTuple):
    """The query parameters of a list. ``page`` 0: all rows."""

    name: str | None
    is_regex: bool
    sort: tuple[str, ...]
    is_reversed: bool
    page: int
    page_size: int
    columns: Columns


def list_query(request: Request) -> ListQuery:
    given = request.query_params
    name = text_of(given, "name") if "name" in given else None
    if name is not None and len(name) > LONGEST_NAME:
        raise BadRequest(f"'name' is longer than {LONGEST_NAME} characters: filter by a part of the name")
    is_paged = "page" in given
    return ListQuery(
        name or None,
        _flag(given, "use_regex"),
        _path(text_of(given, "sort", "")),
        _flag(given, "sort_reverse"),
        integer_of(given, "page", 1) if is_paged else 0,
        integer_of(given, "page_size", 1, LARGEST_PAGE, default=100) if is_paged else LARGEST_PAGE,
        _columns(text_of(given, "columns", "")),
    )


def _columns(text: str) -> Columns:
    """``name,message_stats.publish`` as a tree; a column includes its parts."""
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
        raise BadRequest(f"'sort' has more than {DEEPEST_SORT} parts: pass a column name")
    return tuple(text.split(".")) if text else ()


def _flag(given: Mapping[str, str], name: str) -> bool:
    """Case-insensitive, and false if empty: as sent by RabbitMQ's management UI and tools for it."""
    return boolean_of({name: given.get(name, "").lower() or "false"}, name)


async def viewed(things: Iterable[T], view: Callable[[T], R | None]) -> list[R]:
    """The rows of these objects, without those for which the view returns None. Other tasks run in between."""
    rows: list[R] = []
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
    description: RowDescription[T],
    cached: Callable[[T], bytes | None] | None = None,
) -> Response:
    """The rows of these objects, filtered, sorted and paged as the query requests.

    Rows are made only of the objects that are returned, with only the requested columns. Other tasks run while
    ``things`` is iterated over. ``cached`` returns a whole row as JSON, None for a deleted object.
    """
    query = list_query(request)
    write = cached if cached is not None and not query.columns else _writer(description, query.columns)
    if query.name is None and not query.sort and not query.page:
        return await _response(_written(things, write), b"[", b"]")
    keys = await _sort_keys(things, description, query.sort)
    shown = await context.in_worker(lambda: arranged(keys, query))
    items = _written([thing for _, _, thing in shown.pop("items")], write)
    if not query.page:
        return await _response(items, b"[", b"]")
    return await _response(items, b'{"items":[', b"]," + encoded(shown)[1:])


async def _sort_keys(things: Iterable[T], description: RowDescription[T], sort: tuple[str, ...]) -> list[SortKey[T]]:
    """Objects without a name are left out by a filter."""
    keys: list[SortKey[T]] = []
    time_slice = TimeSlice()
    name, rank = description.reader_of("name"), description.reader_of(sort[0] if sort else "name")
    path = sort[1:]
    for thing in things:
        if description.exists(thing):
            value = rank(thing)
            keys.append((str(name(thing) or ""), _rank(_at(value, path) if path else value), thing))
        if time_slice.is_over():
            await time_slice.pause()
    return keys


def _writer(description: RowDescription[T], columns: Columns) -> Callable[[T], bytes | None]:
    rows = description.only(columns)
    return lambda thing: encoded(only_columns(rows.row(thing), columns)) if rows.exists(thing) else None


async def _written(things: Iterable[T], write: Callable[[T], bytes | None]) -> AsyncGenerator[bytes]:
    """The rows as comma-separated JSON, in pieces. Each row is discarded before the next one is made: encoding or
    freeing ten thousand rows at once would block the event loop for too long."""
    parts: list[bytes] = []
    size, time_slice = 0, TimeSlice()
    for thing in things:
        row = write(thing)
        if row is not None:
            if size >= PIECE:
                yield b",".join([*parts, b""])
                parts, size = [], 0
            parts.append(row)
            size += len(row)
        if time_slice.is_over():
            await time_slice.pause()
    yield b",".join(parts)


async def _response(pieces: AsyncGenerator[bytes], before: bytes, behind: bytes) -> Response:
    """A plain response if it is short, else a streamed one."""
    first = await anext(pieces)
    second = await anext(pieces, None)
    if second is None:
        return json_bytes_response(before + first + behind)
    return StreamedResponse(pieces, before + first, second, behind)


class StreamedResponse(Response):
    """A response that is sent while it is made."""

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


def object_response(request: Request, row: Row) -> Response:
    """One object, with the requested columns."""
    return json_bytes_response(encoded(only_columns(row, list_query(request).columns)))


def arranged(rows: list[SortKey[Any]], query: ListQuery) -> Row:
    """The requested objects as ``items``, and the counts of a page."""
    total = len(rows)
    if query.name is not None:
        rows = _named(rows, query.name, is_regex=query.is_regex)
    if query.sort:
        rows = sorted(rows, key=itemgetter(1), reverse=query.is_reversed)
    if not query.page:
        return {"items": rows}
    pages = max(-(-len(rows) // query.page_size), 1)
    if query.page > pages:
        raise PageOutOfRange(
            f"page out of range, page: {query.page} page size: {query.page_size}, len: {len(rows)}: request page 1 to "
            f"{pages}"
        )
    start = (query.page - 1) * query.page_size
    items = rows[start : start + query.page_size]
    return {
        "filtered_count": len(rows),
        "item_count": len(items),
        "items": items,
        "page": query.page,
        "page_count": pages,
        "page_size": query.page_size,
        "total_count": total,
    }


def _named(rows: list[SortKey[Any]], name: str, *, is_regex: bool) -> list[SortKey[Any]]:
    if not is_regex:
        return [row for row in rows if name in row[0]]
    import regex  # on first use

    try:
        refuse_large(name)
        pattern = regex.compile(name, regex.IGNORECASE, cache_pattern=False)
    except (regex.error, ValueError, RecursionError, OverflowError) as problem:
        raise BadRequest(f"'name' is not a valid regular expression: {problem}") from None
    found: list[SortKey[Any]] = []
    end = perf_counter() + SECONDS
    try:
        for row in rows:
            if pattern.search(row[0], timeout=max(end - perf_counter(), 0.0)):
                found.append(row)
    except TimeoutError:
        raise BadRequest(f"'name' took longer than {SECONDS:g} s to match: use a simpler expression") from None
    return found


def _at(value: Any, path: tuple[str, ...]) -> Any:
    """The value at a path of nested columns."""
    for part in path:
        value = value.get(part, MISSING) if isinstance(value, Mapping) else MISSING
        if value is MISSING:
            break
    return value


def _rank(value: Any) -> tuple[int, Any]:
    """Makes values of different types comparable: missing values first, then numbers, then strings."""
    if value is MISSING or value is None:
        return 0, 0
    if isinstance(value, bool | int | float):
        return 1, value
    return 2, str(value)


def list_sort_key(row: Row, query: ListQuery) -> tuple[int, Any]:
    """The rank of a finished row."""
    return _rank(_at(row, query.sort or ("name",)))


def only_columns(row: Row, columns: Columns) -> Row:
    if not columns:
        return row
    chosen: Row = {}
    for name, inner in columns.items():
        value = row.get(name, MISSING)
        if isinstance(value, dict) and inner:
            value = only_columns(value, inner) or MISSING
        elif isinstance(value, list) and inner:
            value = [only_columns(each, inner) for each in value if isinstance(each, dict)]
        elif inner:
            continue  # not nested
        if value is not MISSING:
            chosen[name] = value
    return chosen
