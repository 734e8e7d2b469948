"""Endpoints that only the first cell serves: stages, commits and query reports. Other cells pass the requests on to it.

A transaction has one place, whichever cell receives its requests: so a batch that is repeated through another cell is
recognised.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Protocol, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from leveret.pipeline.context import PipelineContext


class Endpoints(Protocol):
    context: PipelineContext


E = TypeVar("E", bound=Endpoints)


def in_first_cell(endpoint: Callable[[E, Request], Awaitable[Response]]) -> Callable[[E, Request], Awaitable[Response]]:
    @wraps(endpoint)
    async def answer(endpoints: E, request: Request) -> Response:
        passed_on = await endpoints.context.answer_of_first(request)
        return await endpoint(endpoints, request) if passed_on is None else passed_on

    return answer
