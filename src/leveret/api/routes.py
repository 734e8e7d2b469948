"""Every endpoint of the management API. One resource, one file: each has a function ``routes``."""

from __future__ import annotations

import regex  # noqa: F401  # takes 50 ms: loaded here, in the thread that imports this module, not by the first pattern
from starlette.routing import Route

from leveret.api import (
    alarms,
    bindings,
    cluster,
    connections,
    consumers,
    dead_letters,
    definitions,
    exchanges,
    health,
    leases,
    links,
    message_body,
    messages,
    metrics,
    node_log,
    nodes,
    overview,
    parameters,
    permission_check,
    permissions,
    plugins,
    policies,
    policy_drafts,
    probes,
    queue_jobs,
    queue_moves,
    queues,
    schedules,
    schemas,
    spark_queries,
    streams,
    traces,
    unacked,
    users,
    vhosts,
    whoami,
)
from leveret.api.context import ApiContext
from leveret.api.openapi import document
from leveret.http import tunnel_endpoints

RESOURCES = (
    whoami,
    connections,
    consumers,
    health,
    probes,
    nodes,
    node_log,
    alarms,
    cluster,
    queue_moves,
    overview,
    metrics,
    bindings,
    exchanges,
    messages,
    message_body,
    unacked,
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
    schemas,
    traces,
    users,
    vhosts,
    document,
)


def routes(context: ApiContext) -> list[Route]:
    tunnel = tunnel_endpoints.routes(context.listeners, context.broker)
    return [*tunnel, *(route for resource in RESOURCES for route in resource.routes(context))]
