"""The node: what it uses of its machine, and how much it may. There is one."""

from __future__ import annotations

import os
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.management.connection_view import Told
from leveret.management.errors import NotThere
from leveret.management.listing import as_it_is, list_answer, object_answer
from leveret.management.node_facts import (
    MOST_PROCESSES,
    Reading,
    Readings,
    auth_mechanisms,
    contexts,
    exchange_types,
)
from leveret.management.office import Office
from leveret.management.roles import MONITORING, refuse_unless_role
from leveret.management.samples import windows_of
from leveret.version import VERSION

CHANGING = (("fd_used", "files"), ("disk_free", "disk_free"), ("proc_used", "threads"), ("sockets_used", "sockets"))


def routes(office: Office) -> list[Route]:
    readings = Readings(office)

    async def list_all(request: Request) -> Response:
        refuse_unless_role(request, MONITORING)
        return await list_answer(office, request, [await _node(office, readings, request)], as_it_is)

    async def show(request: Request) -> Response:
        refuse_unless_role(request, MONITORING)
        _refuse_stranger(office, request)
        return object_answer(request, await _node(office, readings, request))

    async def memory(request: Request) -> Response:
        refuse_unless_role(request, MONITORING)
        _refuse_stranger(office, request)
        return object_answer(request, {"memory": _memory(office, await readings.take())})

    async def shares(request: Request) -> Response:
        refuse_unless_role(request, MONITORING)
        _refuse_stranger(office, request)
        return object_answer(request, {"memory": _shares(_memory(office, await readings.take()))})

    return [
        Route("/api/nodes", list_all),
        Route("/api/nodes/{name}", show),
        Route("/api/nodes/{name}/memory", memory),
        Route("/api/nodes/{name}/memory/relative", shares),
    ]


def _refuse_stranger(office: Office, request: Request) -> None:
    name, own = unquote(request.path_params["name"]), office.broker.node_name
    if name != own:
        raise NotThere(f"no node '{name}': this is '{own}', and it stands alone")


async def _node(office: Office, readings: Readings, request: Request) -> Told:
    reading = await readings.take()
    counted = office.stats.of_node(windows_of(request.query_params))
    rates = {f"{name}_details": {"rate": readings.rate(field)} for name, field in CHANGING}
    return {
        **_facts(office),
        **_used(office, reading),
        **rates,
        **counted["churn_rates"],
        "mem_used_details": counted["mem_used_details"],
    }


def _facts(office: Office) -> Told:
    broker = office.broker
    return {
        "name": broker.node_name,
        "type": "disc",
        "running": True,
        "being_drained": False,
        "os_pid": str(os.getpid()),
        "uptime": int((office.clock.now() - office.stats.started) * 1000),
        "processors": os.cpu_count() or 1,
        "run_queue": 0,
        "net_ticktime": 60,
        "rates_mode": "basic",
        "partitions": [],
        "cluster_links": [],
        "applications": [],
        "enabled_plugins": [],
        "exchange_types": exchange_types(office),
        "auth_mechanisms": auth_mechanisms(),
        "contexts": contexts(office),
        "db_dir": str(office.settings.data_dir or ""),
        "log_files": [],
        "config_files": [],
        "mem_calculation_strategy": "rss",
        "messages_routing_refused": broker.routing_work.refused,
        "product_name": "Leveret",
        "product_version": VERSION,
    }


def _used(office: Office, reading: Reading) -> Told:
    broker = office.broker
    sockets, most_files = reading.sockets, reading.most_files or 0
    return {
        "mem_used": reading.memory if reading.memory is not None else broker.gauge.used,
        "mem_limit": broker.memory.mark,
        "mem_alarm": "memory" in broker.alarms,
        "disk_free": reading.disk_free if reading.disk_free is not None else 0,
        "disk_free_limit": reading.disk_mark,
        "disk_free_alarm": "disk" in broker.alarms,
        "fd_used": reading.files if reading.files is not None else sockets,
        "fd_total": most_files,
        "sockets_used": sockets,
        "sockets_total": most_files,
        "proc_used": reading.threads,
        "proc_total": MOST_PROCESSES,
    }


def _memory(office: Office, reading: Reading) -> Told:
    """What is counted, by name; all else is the rest. Queues share bodies, so the sum may be above the total."""
    counted = office.broker.memory_users.breakdown()
    used = sum(counted.values())
    total = reading.memory if reading.memory is not None else used
    return {
        **{name: min(size, total) for name, size in counted.items()},
        "other_system": max(total - used, 0),
        "total": {"rss": total, "allocated": total, "erlang": total},
        "strategy": "rss",
    }


def _shares(memory: Told) -> Told:
    """Of the whole, in hundredths, rounded up as RabbitMQ does."""
    total = max(memory["total"]["rss"], 1)
    parts = {part: -(-size * 100 // total) for part, size in memory.items() if isinstance(size, int)}
    return {"total": 100} | parts
