"""What running queries say of themselves: rates, lag, state. Kept in memory, for whoever looks.

A report replaces the last one of its query. Who has been silent for an hour is forgotten, and there is room for a
thousand: the one that was silent for longest makes place.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.clock import Clock
from leveret.management.answers import json_answer
from leveret.management.bodies import json_of, text_of
from leveret.management.errors import BadRequest
from leveret.management.login import user_of
from leveret.pipeline.house import House

MOST_BYTES = 64 << 10
MOST_QUERIES = 1_000
SILENT = 3600.0  # seconds
FIELDS = (
    "id",
    "name",
    "run_id",
    "batch",
    "rows",
    "rows_per_second",
    "lag",
    "batch_ms",
    "sources",
    "sink",
    "state",
    "at",
)


class Queries:
    """The last report of each query, those that came last at the end."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._reports: dict[tuple[str, str], tuple[float, dict[str, object]]] = {}  # by user and id

    def note(self, user: str, report: dict[str, object]) -> None:
        self._forget_silent()
        key = (user, text_of(report, "id"))
        self._reports.pop(key, None)
        if len(self._reports) >= MOST_QUERIES:
            del self._reports[next(iter(self._reports))]
        self._reports[key] = self._clock.now(), {**report, "user": user}

    def list(self) -> list[dict[str, object]]:
        self._forget_silent()
        return [report for _, report in self._reports.values()]

    def _forget_silent(self) -> None:
        before = self._clock.now() - SILENT
        while self._reports:
            oldest = next(iter(self._reports))
            if self._reports[oldest][0] > before:
                return
            del self._reports[oldest]


class QueriesEndpoints:
    def __init__(self, house: House) -> None:
        self._queries = Queries(house.clock)

    async def note(self, request: Request) -> Response:
        report = await json_of(request, MOST_BYTES)
        strange = sorted(report.keys() - set(FIELDS))
        if strange:
            raise BadRequest(f"'{strange[0]}' is unknown in a report: name {', '.join(FIELDS)}")
        if not 0 < len(text_of(report, "id")) <= 255:
            raise BadRequest("'id' must be a text of 1 to 255 characters")
        self._queries.note(user_of(request).name, report)
        return json_answer({"id": report["id"]})

    async def list(self, request: Request) -> Response:
        return json_answer({"queries": self._queries.list()})


def routes(house: House) -> list[Route]:
    endpoints = QueriesEndpoints(house)
    at = "/api/pipeline/queries"
    return [Route(at, endpoints.note, methods=["POST"]), Route(at, endpoints.list, methods=["GET"])]
