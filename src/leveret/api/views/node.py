"""Facts about the node: listeners, exchange types, login mechanisms, and resource usage.

Reading the number of open files and the free disk space can block, so it is done in a thread. ``Readings`` keeps two
readings for the rates.
"""

from __future__ import annotations

import os
import platform
import shutil
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from leveret.api.context import ApiContext
from leveret.auth.mechanisms import offered
from leveret.broker.broker import Broker
from leveret.http.rows import Row
from leveret.machine import resident_memory

RABBITMQ_VERSION = "3.13.7"  # reported by the management API: tools choose endpoints by it
ERLANG_VERSION = "26.2.5"  # tools expect a number
MOST_PROCESSES = 1 << 20
CLUSTER_NAME = "cluster_name"  # the global parameter
APART = 5.0  # seconds between two readings that a rate is computed from
OPEN_FILES = Path("/proc/self/fd")


def cluster_name(broker: Broker) -> str:
    """As set over HTTP, by default the name of the node."""
    given = broker.parameters.get(CLUSTER_NAME)
    return given if isinstance(given, str) and given else broker.node_name


def runtime() -> str:
    """Version of Python, in place of Erlang's system version."""
    return f"Erlang/OTP 26 compatible, run by Python {platform.python_version()} on {platform.system()}"


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
            "path": "/",
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


class Reading(NamedTuple):
    """Values reported by the operating system; None where it reports none."""

    moment: float
    memory: int | None
    files: int | None
    most_files: int | None
    disk_free: int | None
    disk_free_limit: int
    threads: int
    sockets: int


class Readings:
    def __init__(self, context: ApiContext) -> None:
        self._context = context
        self._kept: deque[Reading] = deque(maxlen=2)  # at least APART from each other

    async def take(self) -> Reading:
        now, settings, sockets = self._context.clock.now(), self._context.settings, len(self._context.broker.registry)
        reading = await self._context.in_worker(
            lambda: _read(now, settings.data_dir, settings.disk_free_limit.of, sockets)
        )
        if not self._kept or now - self._kept[-1].moment >= APART:
            self._kept.append(reading)
        return reading

    def rate(self, field: str) -> float:
        """The difference of the last two kept readings; 0 if there is only one."""
        if len(self._kept) < 2:
            return 0.0
        before, last = self._kept
        return float((getattr(last, field) or 0) - (getattr(before, field) or 0)) / (last.moment - before.moment)


def _read(now: float, path: Path | None, limit_of: Callable[[int], int], sockets: int) -> Reading:
    total, free = _disk(path)
    return Reading(
        moment=now,
        memory=resident_memory(),
        files=_open_files(),
        most_files=_most_files(),
        disk_free=free,
        disk_free_limit=0 if total is None else limit_of(total),
        threads=threading.active_count(),
        sockets=sockets,
    )


def _disk(path: Path | None) -> tuple[int | None, int | None]:
    """Total and free bytes of the disk with the data directory, or else with the working directory."""
    try:
        total, _, free = shutil.disk_usage(path or Path.cwd())
    except OSError:
        return None, None
    return total, free


def _open_files() -> int | None:
    try:
        return len(os.listdir(OPEN_FILES)) - 1  # minus the descriptor of the listing itself
    except OSError:
        return None


def _most_files() -> int | None:
    try:
        import resource
    except ImportError:
        return None
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
