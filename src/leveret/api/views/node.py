"""Facts about the node: listeners, exchange types, login mechanisms."""

from __future__ import annotations

import platform
from urllib.parse import urlsplit

from leveret.api.context import ApiContext
from leveret.auth.mechanisms import offered
from leveret.http.rows import Row

RABBITMQ_VERSION = "3.13.7"  # reported by the management API: tools choose endpoints by it
ERLANG_VERSION = "26.2.5"  # tools expect a number
MOST_PROCESSES = 1 << 20
CLUSTER_NAME = "cluster_name"  # the global parameter


def cluster_name(context: ApiContext) -> str:
    """As set over HTTP, by default the name of the cell, or of the node; for several cells, that of the first."""
    given = context.broker.parameters.get(CLUSTER_NAME)
    if isinstance(given, str) and given:
        return given
    if context.cluster is not None:
        return context.cluster.status().cell
    return context.broker.cells.cluster_name or context.broker.node_name


def runtime() -> str:
    """Version of Python, in place of Erlang's system version."""
    return f"Erlang/OTP 26 compatible, run by Python {platform.python_version()} on {platform.system()}"


def mean_times(node: Row) -> Row:
    """``io_read_avg_time`` and others: mean milliseconds of an operation since the start, and as the rate of its
    details those of the last interval. Only of what the node counts."""
    found: Row = {}
    for kind in ("read", "write", "sync"):
        time, count, mean = (f"io_{kind}_{name}" for name in ("time", "count", "avg_time"))
        parts = (time, count, f"{time}_details", f"{count}_details")
        if all(part in node for part in parts):
            total, number, times, numbers = (node[part] for part in parts)
            rate = _mean(times["rate"], numbers["rate"])
            found |= {mean: _mean(total, number), f"{mean}_details": {"rate": rate}}
    return found


def _mean(microseconds: float, number: float) -> float:
    return round(microseconds / number / 1000, 3) if number else 0.0


def listeners(context: ApiContext) -> list[Row]:
    """A row for each address and port."""
    rows = []
    for protocol, url in context.endpoints.items():
        port = urlsplit(url).port
        for host in context.settings.host:
            rows.append(
                {
                    "node": context.broker.node_name,
                    "protocol": {"amqps": "amqp/ssl", "stomps": "stomp/ssl"}.get(protocol, protocol),
                    "ip_address": host or "::",
                    "port": port,
                    "socket_opts": {"backlog": 1024, "nodelay": True},
                }
            )
    return rows


def contexts(context: ApiContext) -> list[Row]:
    """The HTTP listeners."""
    return [
        {
            "node": row["node"],
            "description": "Leveret Management",
            "path": context.settings.http_path_prefix or "/",
            "ip": row["ip_address"],
            "port": str(row["port"]),
            "ssl_opts": [],
        }
        for row in listeners(context)
        if row["protocol"].startswith("http")
    ]


def exchange_types(context: ApiContext) -> list[Row]:
    return [
        {
            "name": kind,
            "description": f"exchange of type {kind}",
            "enabled": context.broker.plugins.knows_type(kind),
        }
        for kind in sorted(context.broker.exchange_types.kinds())
    ]


def auth_mechanisms() -> list[Row]:
    return [
        {"name": name, "description": f"SASL {name} authentication mechanism", "enabled": True}
        for name in offered(True).decode().split()
    ]
