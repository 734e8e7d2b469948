"""Every endpoint of the management. One resource, one file: each has a function ``routes``."""

from __future__ import annotations

from starlette.routing import Route

from leveret.management import (
    api_bindings,
    api_connections,
    api_consumers,
    api_dead_letters,
    api_definitions,
    api_exchanges,
    api_health,
    api_leases,
    api_links,
    api_messages,
    api_nodes,
    api_overview,
    api_parameters,
    api_permission_check,
    api_permissions,
    api_plugins,
    api_policies,
    api_policy_drafts,
    api_queue_jobs,
    api_queues,
    api_schedules,
    api_spark_queries,
    api_streams,
    api_traces,
    api_tunnel,
    api_users,
    api_vhosts,
    api_whoami,
    metrics,
    openapi,
)
from leveret.management.office import Office


def routes(office: Office) -> list[Route]:
    resources = (
        api_whoami,
        api_connections,
        api_consumers,
        api_health,
        api_nodes,
        api_overview,
        metrics,
        api_bindings,
        api_exchanges,
        api_messages,
        api_dead_letters,
        api_queue_jobs,
        api_queues,
        api_schedules,
        api_streams,
        api_leases,
        api_links,
        api_spark_queries,
        api_definitions,
        api_parameters,
        api_permission_check,
        api_permissions,
        api_plugins,
        api_policies,
        api_policy_drafts,
        api_traces,
        api_tunnel,
        api_users,
        api_vhosts,
        openapi,
    )
    return [route for resource in resources for route in resource.routes(office)]
