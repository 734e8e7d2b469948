"""Requests about queues of other cells, which are passed on to their home cell.

Any cell can answer any request of the pipeline: it passes the request on, as the management API does (docs/decisions/
0058), and returns the response as it arrives. A client that wants to save this step sends the request to the home cell
itself: the answer that lists the queues names its URL and its identity. The identity is sent back in a header, so that
a request is refused by any other broker that may listen there.

While the home cell is away, requests get status 503, which clients repeat: each of these requests may be repeated
(docs/decisions/0063).
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from leveret.cells.api_request import ApiReply, CellUnreachable
from leveret.http.bodies import body_chunks
from leveret.http.errors import Busy, HttpError
from leveret.http.other_cells import FixedBody, OtherCells, ReceivedBody, RelayedResponse, RequestBody, request_of

IDENTITY = "leveret-cell"  # header: the cell that the request is for
SCHEME = "leveret-scheme"  # header: of the client's request, if another cell has passed it on
LARGEST_ANSWER = 64 << 20  # bytes of one that is merged with others


class Misdirected(HttpError):
    """The request is for another cell."""

    status, error = 421, "misdirected"


class CellRequests:
    """``others`` sends requests to other cells; ``token`` is the same in all cells; ``ports``: the URLs of the own
    ports by scheme."""

    def __init__(self, cell: str, first: str, token: str, others: OtherCells, ports: Mapping[str, str]) -> None:
        self.cell = cell
        self.first = first
        self._token = token
        self._others = others
        self._ports = ports

    @property
    def identity(self) -> str:
        return self._identity_of(self.cell)

    def _identity_of(self, cell: str) -> str:
        return f"{cell}-{self._token}"

    def location(self, request: Request) -> dict[str, str]:
        """Where clients find this cell: the machine is the one that the client has named, the port is the own one."""
        scheme = _scheme_of(request)
        own = self._ports.get(scheme)
        host = _host_of(request.headers.get("host", ""))
        if own is None or not host:
            return {"cell": self.identity}
        shown = f"[{host}]" if ":" in host else host
        return {"cell": self.identity, "endpoint": f"{scheme}://{shown}:{urlsplit(own).port}"}

    # ---- passing on

    async def pass_on(self, request: Request, cell: str, body: bytes | None = None) -> Response:
        """The response of another cell. ``body``: if that of the request was read already."""
        given = _CheckedBody(request) if body is None else FixedBody(body)
        return RelayedResponse(await self._send(request, cell, given))

    async def ask(self, request: Request, cell: str, query: Sequence[tuple[str, str]] | None = None) -> dict[str, Any]:
        """The JSON of another cell to a GET; ``query`` replaces the parameters. Its error is raised here."""
        reply = await self._send(request, cell, None, query)
        body = bytearray()
        try:
            async for piece in reply.pieces():
                body += piece
                if len(body) > LARGEST_ANSWER:
                    raise Busy(f"the answer of cell {cell} is larger than {LARGEST_ANSWER} bytes: ask for less")
        except CellUnreachable as problem:
            raise _away(cell, str(problem)) from problem
        finally:
            await reply.close()
        value: dict[str, Any] = json.loads(body)
        if reply.status != 200:
            raise PassedOnError(reply.status, value)
        return value

    async def _send(
        self, request: Request, cell: str, body: RequestBody | None, query: Sequence[tuple[str, str]] | None = None
    ) -> ApiReply:
        if self.is_passed_on(request):  # the sender takes this cell for the home: it has older or newer definitions
            raise Misdirected(f"the request is for a queue of cell {cell}, and this is cell {self.cell}: list it again")
        passed = request_of(request, query=query)
        own = [("host", request.headers.get("host", "")), (IDENTITY, self._identity_of(cell))]
        passed = passed._replace(headers=[*passed.headers, *own, (SCHEME, _scheme_of(request))])
        try:
            reply = await self._others.request(cell, passed, body)
        except CellUnreachable as problem:
            raise _away(cell, str(problem)) from problem
        if reply.status == Misdirected.status:
            await reply.close()
            raise _away(cell, "its definitions are not up to date")
        return reply

    def is_passed_on(self, request: Request) -> bool:
        """Whether the sender has chosen this cell: another cell, or a client that reads directly."""
        return IDENTITY in request.headers

    def refuse_misdirected(self, headers: Mapping[str, str]) -> None:
        wanted = headers.get(IDENTITY, self.identity)
        if wanted != self.identity:
            raise Misdirected(f"the request is for cell {wanted[:80]!r}, and this is cell {self.cell}: list it again")


class PassedOnError(HttpError):
    """The error of another cell, with its status."""

    def __init__(self, status: int, answer: Mapping[str, Any]) -> None:
        super().__init__(str(answer.get("reason", "")))
        self.status = status  # type: ignore[misc]
        self.error = str(answer.get("error", "bad_request"))  # type: ignore[misc]
        self.headers = {"Retry-After": "1"} if status == Busy.status else {}  # type: ignore[misc]


class _CheckedBody(ReceivedBody):
    """Ends if the client stops sending, or its user loses permissions meanwhile."""

    def __init__(self, request: Request) -> None:
        super().__init__(request.receive)
        self._request = request

    def pieces(self) -> AsyncIterator[bytes]:
        return body_chunks(self._request)


def _scheme_of(request: Request) -> str:
    return request.headers.get(SCHEME, request.url.scheme)


def _host_of(header: str) -> str | None:
    try:
        return urlsplit(f"//{header}").hostname
    except ValueError:
        return None


def _away(cell: str, reason: str) -> Busy:
    return Busy(f"the cell {cell} of the queue is away ({reason[:200]}): try again")
