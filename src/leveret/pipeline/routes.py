"""Every endpoint of the pipeline. One resource, one file: each has a function ``routes``."""

from __future__ import annotations

from starlette.routing import Route

from leveret.pipeline import consumers, leases, publish_endpoint, queries, sources, stages_endpoints
from leveret.pipeline.context import PipelineContext


def routes(context: PipelineContext) -> list[Route]:
    modules = (sources, consumers, queries, leases, stages_endpoints, publish_endpoint)
    return [route for module in modules for route in module.routes(context)]
