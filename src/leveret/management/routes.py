"""Every endpoint of the management. One resource, one file: each has a function ``routes``."""

from __future__ import annotations

from starlette.routing import Route

from leveret.management import (
    api_bindings,
    api_connections,
    api_consumers,
    api_definitions,
    api_exchanges,
    api_health,
    api_messages,
    api_nodes,
    api_overview,
    api_parameters,
    api_permissions,
    api_policies,
    api_queue_jobs,
    api_queues,
    api_schedules,
    api_users,
    api_vhosts,
    api_whoami,
    metrics,
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
        api_queue_jobs,
        api_queues,
        api_schedules,
        api_definitions,
        api_parameters,
        api_permissions,
        api_policies,
        api_users,
        api_vhosts,
    )
    return [route for resource in resources for route in resource.routes(office)]
