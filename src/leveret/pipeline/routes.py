"""Every endpoint of the pipeline. One resource, one file: each has a function ``routes``."""

from __future__ import annotations

from starlette.routing import Route

from leveret.pipeline import consumers, leases_endpoints, publishing, queries, sources, stages_endpoints
from leveret.pipeline.house import House


def routes(house: House) -> list[Route]:
    rooms = (sources, consumers, queries, leases_endpoints, stages_endpoints, publishing)
    return [route for room in rooms for route in room.routes(house)]
