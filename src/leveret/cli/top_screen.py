"""The screen of ``leveret top``: current rates, the busiest queues and connections."""

from __future__ import annotations

from typing import NamedTuple

from leveret.cli.api_client import Api, Row
from leveret.cli.broker_options import listed_at
from leveret.cli.overview_commands import nodes_seen
from leveret.cli.tables import (
    Column,
    columns,
    count,
    duration,
    layout,
    numbered,
    printable,
    rate,
    size,
    traffic,
    value_at,
)

SORTS = {
    "messages": "messages",
    "publish": "message_stats.publish_details.rate",
    "deliver": "message_stats.deliver_get_details.rate",
    "name": "name",
}
OLD_SORTS = {"in": "publish", "out": "deliver"}  # still accepted
RATES = (("published", "publish"), ("confirmed", "confirm"), ("delivered", "deliver_get"), ("acked", "ack"))
QUEUES = (
    Column("queue", "name"),
    *columns(shown=count, ready="messages_ready", unacked="messages_unacknowledged"),
    *columns(shown=rate, publish=SORTS["publish"], deliver=SORTS["deliver"]),
    Column("consumers", "consumers", count),
    Column("state", "state"),
    Column("oldest", "oldest_message_age", duration),
    Column("vhost", "vhost"),
)
CONNECTIONS = (
    Column("connection", "name"),
    *columns(shown=traffic, received="recv_oct_details.rate", sent="send_oct_details.rate"),
    Column("channels", "channels", count),
    Column("state", "state"),
    Column("user", "user"),
    Column("client", "user_provided_name"),
)
QUEUE_COLUMNS = ",".join(column.path for column in QUEUES) + ",messages"
CONNECTION_COLUMNS = ",".join(column.path for column in CONNECTIONS)


class ScreenSize(NamedTuple):
    """Space on the screen; a ``width`` of None is unlimited."""

    width: int | None
    queues: int
    connections: int


class Busy(NamedTuple):
    """The first rows of a sorted list, and its length."""

    rows: list[Row]
    total: int


def screen(api: Api, sort: str, vhost: str | None, limits: ScreenSize) -> list[str]:
    overview = api.get("overview").value
    queues = _busiest(api, listed_at(api, "queues", vhost), SORTS[sort], limits.queues, QUEUE_COLUMNS)
    sort_by = "recv_oct_details.rate"
    connections = _busiest(api, ("connections",), sort_by, limits.connections, CONNECTION_COLUMNS)
    lines = [*_head(api, overview, nodes_seen(api)), ""]
    lines += _part(
        f"queues by {sort}", QUEUES, queues, limits.width, "no queues; to create one: leveret queues create NAME"
    )
    lines += ["", *_part("connections", CONNECTIONS, connections, limits.width, "no connections")]
    return lines


def _busiest(api: Api, path: tuple[str, ...], sort: str, number: int, columns: str) -> Busy:
    """The broker sorts and pages, as there may be thousands."""
    query = {"page": 1, "page_size": number, "sort": sort, "sort_reverse": sort != "name", "columns": columns}
    page = api.get(*path, query=query).value
    return Busy(page["items"], page["filtered_count"])


def _head(api: Api, overview: Row, nodes: list[Row]) -> list[str]:
    lines = [f"{overview['product_name']} {overview['product_version']} at {api.address.url}"]
    for node in nodes:
        if "mem_used" not in node:  # a node without statistics: a standby, or one that is down
            continue
        raised = node["alarms"]
        alarm = f"ALARM: {' and '.join(raised)}, publishers are blocked" if raised else "no alarms"
        lines.append(
            f"node {printable(node['name'])}, up {duration(node['seconds'])}, {alarm}, memory {size(node['mem_used'])} "
            f"of {size(node.get('mem_limit'))}, disk {size(node['disk_free'])} free"
        )
    lengths, numbers = overview["queue_totals"], overview["object_totals"]
    lines.append(
        f"{count(lengths.get('messages_ready', 0))} ready, {count(lengths.get('messages_unacknowledged', 0))} unacked, "
        + ", ".join(numbered(numbers[kind], kind) for kind in ("queues", "connections", "channels", "consumers"))
    )
    stats = overview["message_stats"]
    lines.append("  ".join(f"{head} {rate(value_at(stats, f'{key}_details.rate') or 0.0)}" for head, key in RATES))
    return lines


def _part(title: str, columns: tuple[Column, ...], busy: Busy, width: int | None, empty: str) -> list[str]:
    if not busy.rows:
        return [empty]
    more = f", {len(busy.rows)} of {busy.total}" if busy.total > len(busy.rows) else ""
    return [f"{title}{more}", *layout(columns, busy.rows, width)[0]]
