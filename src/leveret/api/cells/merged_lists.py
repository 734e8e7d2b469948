"""Lists whose rows are those of all cells: filtered, sorted and paged as one list (http/listings.py).

A page is made of the first rows of each cell, as many as the page needs. A list without filter, order and pages is sent
while the cells send their parts; nothing of it is decoded.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from leveret.api.cells.cell_requests import SECONDS, CellRequests, Collected
from leveret.cells.api_request import ApiReply, ApiRequest, CellUnreachable
from leveret.http.listings import LARGEST_PAGE, ListQuery, list_query, list_response, list_sort_key, only_columns
from leveret.http.listings import arranged as arranged_rows
from leveret.http.other_cells import request_of
from leveret.http.responses import JSON, json_response
from leveret.http.rows import Row, made_rows
from leveret.logs import get_log

OF_LISTS = {"page", "page_size", "pagination", "sort", "sort_reverse", "name", "use_regex", "columns", "node"}
ROWS = made_rows()


class MergedLists:
    def __init__(self, cells: CellRequests) -> None:
        self._cells = cells

    async def rows(self, request: Request) -> Response:
        """Each object is in one cell."""
        return await self._answer(request, stands_in=False)

    async def queues(self, request: Request) -> Response:
        """As ``rows``; this cell lists the queues of missing cells, as far as it knows them."""
        return await self._answer(request, stands_in=True)

    async def _answer(self, request: Request, *, stands_in: bool) -> Response:
        query, cells = list_query(request), self._cells.chosen(request)
        if not cells:
            return await self._empty(request)
        if query.name is None and not query.sort and not query.page:
            return await self._spliced(request, cells, stands_in=stands_in)
        if 0 < query.page * query.page_size <= LARGEST_PAGE:
            return await self._page(request, query, cells, stands_in=stands_in)
        return await self._all(request, query, cells, stands_in=stands_in)

    async def _empty(self, request: Request) -> Response:
        """The list of a node that leads no cell. This cell decides whether the user may see it."""
        asked = [*further(request), ("page", "1"), ("page_size", "1")]
        own = await self._cells.collect(self._cells.own, request_of(request, query=asked, method="GET"))
        if own.status != 200:
            return own.response()
        return self._cells.marked(await list_response(self._cells.context, request, [], ROWS), ())

    # ---- pages

    async def _page(self, request: Request, query: ListQuery, cells: Sequence[str], *, stands_in: bool) -> Response:
        first = [("page", "1"), ("page_size", str(query.page * query.page_size))]
        asked = [*further(request), *first, *_filter(request), *_columns(request, query)]
        answers = await self._cells.gather(request_of(request, query=asked, method="GET"), cells, stands_in=stands_in)
        if (refusal := _refusal(answers.by_cell.values())) is not None:
            return refusal
        pages = answers.values
        rows = [(str(row.get("name") or ""), list_sort_key(row, query), row) for page in pages for row in page["items"]]
        shown = await self._cells.context.in_worker(lambda: arranged_rows(rows, query._replace(name=None)))
        shown["items"] = [only_columns(row, query.columns) for _, _, row in shown["items"]]
        shown["filtered_count"] = sum(page["filtered_count"] for page in pages)
        shown["total_count"] = sum(page["total_count"] for page in pages)
        shown["page_count"] = max(-(-shown["filtered_count"] // query.page_size), 1)
        return self._cells.marked(json_response(shown), answers.missing)

    # ---- whole lists

    async def _all(self, request: Request, query: ListQuery, cells: Sequence[str], *, stands_in: bool) -> Response:
        asked = [*further(request), *_columns(request, query)]
        answers = await self._cells.gather(request_of(request, query=asked, method="GET"), cells, stands_in=stands_in)
        if (refusal := _refusal(answers.by_cell.values())) is not None:
            return refusal
        rows: list[Row] = [row for rows in answers.values for row in rows]
        return self._cells.marked(await list_response(self._cells.context, request, rows, ROWS), answers.missing)

    async def _spliced(self, request: Request, cells: Sequence[str], *, stands_in: bool) -> Response:
        columns = [(name, value) for name, value in _given(request) if name == "columns"]
        asked = request_of(request, query=[*further(request), *columns], method="GET")
        replies, missing = await self._begin(asked, cells, stands_in=stands_in)
        refused = next((reply for reply in replies if reply.status != 200), None)
        if refused is None:
            return self._cells.marked(SplicedResponse(replies), missing)
        try:
            body = b"".join([piece async for piece in refused.pieces()])
        finally:
            await _close(replies)
        return Collected(refused.status, refused.headers, body).response()

    async def _begin(
        self, request: ApiRequest, cells: Sequence[str], *, stands_in: bool
    ) -> tuple[list[ApiReply], list[str]]:
        """As CellRequests.gather, with the bodies to be read."""
        own, others = self._cells.own, [cell for cell in cells if cell != self._cells.own]
        found = await asyncio.gather(
            *(self._cells.ask_in_time(cell, request) for cell in others), return_exceptions=True
        )
        missing = [cell for cell, reply in zip(others, found, strict=True) if isinstance(reply, CellUnreachable)]
        replies: list[ApiReply] = [reply for reply in found if not isinstance(reply, BaseException)]
        problem = next((each for each in found if isinstance(each, BaseException | CellUnreachable)), None)
        try:
            if problem is not None and not isinstance(problem, CellUnreachable):
                raise problem
            if own in cells or (missing and stands_in):
                homes = self._cells.homes(cells, missing)
                replies.insert(0, await self._cells.ask(own, request._replace(homes=homes)))
        except BaseException:
            await _close(replies)
            raise
        return replies, missing


def _given(request: Request) -> list[tuple[str, str]]:
    return parse_qsl(request.url.query, keep_blank_values=True)


def further(request: Request) -> list[tuple[str, str]]:
    """The parameters that are not those of lists, such as the window of rates."""
    return [(name, value) for name, value in _given(request) if name not in OF_LISTS]


def _filter(request: Request) -> list[tuple[str, str]]:
    wanted = ("name", "use_regex", "sort", "sort_reverse")
    return [(name, value) for name, value in _given(request) if name in wanted]


def _columns(request: Request, query: ListQuery) -> list[tuple[str, str]]:
    """Those of the request, the name and the column to sort by."""
    if not query.columns:
        return []
    columns = [request.query_params["columns"], "name", *query.sort[:1]]
    return [("columns", ",".join(columns))]


def _refusal(replies: Any) -> Response | None:
    refused: Collected | None = next((reply for reply in replies if reply.status != 200), None)
    return None if refused is None else refused.response()


async def _close(replies: Sequence[ApiReply]) -> None:
    for reply in replies:
        await reply.close()


class SplicedResponse(Response):
    """The lists of several replies as one, sent while they arrive."""

    media_type = JSON

    def __init__(self, replies: Sequence[ApiReply]) -> None:
        super().__init__()
        del self.headers["content-length"]
        self._replies = replies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async for piece in _spliced([_inside(reply) for reply in self._replies]):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except (CellUnreachable, TimeoutError) as problem:
            get_log("http").warning("list cut off: a cell stopped answering", reason=str(problem), path=scope["path"])
            raise ClientDisconnect from None  # without an end, the client detects that the list is truncated
        finally:
            await _close(self._replies)


async def _spliced(lists: Sequence[AsyncGenerator[bytes]]) -> AsyncIterator[bytes]:
    yield b"["
    is_first = True
    for parts in lists:
        is_empty = True
        async for part in parts:
            if is_empty and not is_first:
                part = b"," + part
            is_empty = is_first = False
            yield part
    yield b"]"


async def _inside(reply: ApiReply) -> AsyncGenerator[bytes]:
    """The rows of a list without its brackets."""
    held, pieces, is_first = b"", aiter(reply.pieces()), True
    while True:
        async with asyncio.timeout(SECONDS):
            piece = await anext(pieces, None)
        if piece is None:
            return
        part = held + (piece[1:] if is_first else piece)
        is_first = False
        held = part[-1:]
        if len(part) > 1:
            yield part[:-1]
