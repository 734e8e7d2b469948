"""Every endpoint of the management API. One resource, one file: each has a function ``routes``."""

from __future__ import annotations

import regex  # noqa: F401  # takes 50 ms: loaded here, in the thread that imports this module, not by the first pattern
from starlette.routing import Route

from leveret.api import (
    bindings,
    connections,
    consumers,
    dead_letters,
    definitions,
    exchanges,
    health,
    leases,
    links,
    messages,
    metrics,
    nodes,
    overview,
    parameters,
    permission_check,
    permissions,
    plugins,
    policies,
    policy_drafts,
    queue_jobs,
    queues,
    schedules,
    spark_queries,
    streams,
    traces,
    users,
    vhosts,
    whoami,
)
from leveret.api.context import ApiContext
from leveret.api.openapi import document
from leveret.http import tunnel_endpoints


def routes(context: ApiContext) -> list[Route]:
    resources = (
        whoami,
        connections,
        consumers,
        health,
        nodes,
        overview,
        metrics,
        bindings,
        exchanges,
        messages,
        dead_letters,
        queue_jobs,
        queues,
        schedules,
        streams,
        leases,
        links,
        spark_queries,
        definitions,
        parameters,
        permission_check,
        permissions,
        plugins,
        policies,
        policy_drafts,
        traces,
        users,
        vhosts,
        document,
    )
    tunnel = tunnel_endpoints.routes(context.listeners, context.broker)
    return [*tunnel, *(route for resource in resources for route in resource.routes(context))]
