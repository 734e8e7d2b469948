"""The nodes: resource usage and limits of this one; in a cell also the role and lag of every member."""

from __future__ import annotations

import os
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.api.node_measures import Reading
from leveret.api.views.cluster import member_fields, other_node_row
from leveret.api.views.node import (
    MOST_PROCESSES,
    auth_mechanisms,
    contexts,
    exchange_types,
    mean_times,
)
from leveret.cluster.status import MemberStatus
from leveret.http.errors import ObjectNotFound
from leveret.http.listings import list_response, object_response
from leveret.http.roles import MONITORING, refuse_unless_role
from leveret.http.rows import Row, made_rows
from leveret.stats.samples import windows_of
from leveret.version import VERSION


def routes(context: ApiContext) -> list[Route]:
    async def list_all(request: Request) -> Response:
        refuse_unless_role(request, MONITORING)
        rows = [await _node(context, request), *(other_node_row(each) for each in _others(context))]
        return await list_response(context, request, rows, made_rows())

    async def show(request: Request) -> Response:
        refuse_unless_role(request, MONITORING)
        name = unquote(request.path_params["name"])
        for member in _others(context):
            if member.node == name:
                return object_response(request, other_node_row(member))
        refuse_other_nodes(context, name)
        return object_response(request, await _node(context, request))

    async def memory(request: Request) -> Response:
        refuse_unless_role(request, MONITORING)
        refuse_other_nodes(context, unquote(request.path_params["name"]))
        return object_response(request, {"memory": _memory(context, await context.measures.read())})

    async def shares(request: Request) -> Response:
        refuse_unless_role(request, MONITORING)
        refuse_other_nodes(context, unquote(request.path_params["name"]))
        return object_response(request, {"memory": _shares(_memory(context, await context.measures.read()))})

    return [
        Route("/api/nodes", list_all),
        Route("/api/nodes/{name}", show),
        Route("/api/nodes/{name}/memory", memory),
        Route("/api/nodes/{name}/memory/relative", shares),
    ]


def refuse_other_nodes(context: ApiContext, name: str) -> None:
    own = context.broker.node_name
    if name != own:
        if name in [each.node for each in _others(context)]:
            raise ObjectNotFound(
                f"node '{name}' does not lead: only memory use and log of the leader, '{own}', are known"
            )
        known = ", ".join(sorted([own, *(each.node for each in _others(context))]))
        raise ObjectNotFound(f"no node '{name}': nodes are {known}")


def _others(context: ApiContext) -> list[MemberStatus]:
    if context.cluster is None:
        return []
    status = context.cluster.status()
    return [each for each in status.members if each.node != status.leader]


def _own_member(context: ApiContext) -> Row:
    if context.cluster is None:
        return {}
    status = context.cluster.status()
    member = status.member(status.leader)
    return {} if member is None else member_fields(member)


async def _node(context: ApiContext, request: Request) -> Row:
    reading = await context.measures.read()
    counted = context.stats.of_node(windows_of(request.query_params))
    return {
        **_facts(context),
        **counted["measures"],
        **mean_times(counted["measures"]),
        **_used(context, reading),
        **counted["churn_rates"],
        **_own_member(context),
    }


def _facts(context: ApiContext) -> Row:
    broker = context.broker
    return {
        "name": broker.node_name,
        "type": "disc",
        "running": True,
        "being_drained": False,
        "os_pid": str(os.getpid()),
        "uptime": int((context.clock.now() - context.stats.started) * 1000),
        "processors": os.cpu_count() or 1,
        "run_queue": 0,
        "net_ticktime": 60,
        "rates_mode": "basic",
        "partitions": [],
        "cluster_links": [],
        "applications": [],
        "enabled_plugins": [],
        "exchange_types": exchange_types(context),
        "auth_mechanisms": auth_mechanisms(),
        "contexts": contexts(context),
        "db_dir": str(context.settings.data_dir or ""),
        "log_files": [],
        "config_files": [],
        "mem_calculation_strategy": "rss",
        "messages_routing_refused": broker.routing_work.refused,
        "product_name": "Leveret",
        "product_version": VERSION,
    }


def _used(context: ApiContext, reading: Reading) -> Row:
    broker = context.broker
    sockets, most_files = len(broker.registry), reading.most_files or 0
    return {
        "mem_used": reading.memory if reading.memory is not None else broker.gauge.used,
        "mem_limit": broker.memory.high_watermark,
        "mem_alarm": "memory" in broker.alarms,
        "disk_free": reading.disk_free if reading.disk_free is not None else 0,
        "disk_free_limit": reading.disk_free_limit,
        "disk_free_alarm": "disk" in broker.alarms,
        "fd_used": reading.files if reading.files is not None else sockets,
        "fd_total": most_files,
        "sockets_used": sockets,
        "sockets_total": most_files,
        "proc_used": reading.threads,
        "proc_total": MOST_PROCESSES,
    }


def _memory(context: ApiContext, reading: Reading) -> Row:
    """Memory by category, and the rest. Queues share message bodies, so the sum can exceed the total."""
    counted = context.broker.memory_users.breakdown()
    used = sum(counted.values())
    total = reading.memory if reading.memory is not None else used
    return {
        **{name: min(size, total) for name, size in counted.items()},
        "other_system": max(total - used, 0),
        "total": {"rss": total, "allocated": total, "erlang": total},
        "strategy": "rss",
    }


def _shares(memory: Row) -> Row:
    """In percent of the total, rounded up as by RabbitMQ."""
    total = max(memory["total"]["rss"], 1)
    parts = {part: -(-size * 100 // total) for part, size in memory.items() if isinstance(size, int)}
    return {"total": 100} | parts
