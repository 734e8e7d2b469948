"""``leveret status`` and ``leveret overview``."""

from __future__ import annotations

from leveret.cli.api_client import Api, Refusal, Row
from leveret.cli.broker_options import AS_JSON, at_broker, group, single_command
from leveret.cli.colours import ALARM, coloured
from leveret.cli.output import print_json, print_line
from leveret.cli.tables import (
    Column,
    columns,
    count,
    duration,
    numbered,
    print_facts,
    print_table,
    rate,
    size,
    text,
    value_at,
)

status_app, overview_app = single_command(), single_command()
nodes_app = group("List nodes.")

REFUSED = (401, 403)
MISSING = (404, 405, 406)
FAILED = 503
OBJECTS = ("connections", "channels", "consumers", "exchanges", "queues")
LENGTHS = (("ready", "messages_ready"), ("unacked", "messages_unacknowledged"), ("messages", "messages"))
RATES = ("publish", "confirm", "deliver_get", "ack", "redeliver", "return_unroutable", "drop_unroutable")
LISTENERS = (Column("protocol", "protocol"), Column("address", "ip_address"), Column("port", "port", count))


@status_app.command()
@at_broker
def status(api: Api, as_json: bool = AS_JSON) -> None:
    """Show the status of the broker; the exit code is 1 if an alarm is in effect. --json prints the nodes."""
    nodes, failed = api.get("nodes"), failed_check(api, "alarms")
    if as_json:
        print_json(nodes)
    for node in nodes.rows:
        if "uptime" not in node:  # a node without statistics: a standby, or one that is down
            continue
        raised = alarms(node, failed)
        if not as_json:
            _print_node(api, node, raised)
        if raised:
            raise Refusal(
                f"{' and '.join(raised)} alarm on node '{node['name']}': publishers are blocked; see 'leveret doctor'"
            )


def failed_check(api: Api, *check: str) -> Row | None:
    """The response of a failed health check; None if it passed or the broker does not have it."""
    try:
        api.get("health", "checks", *check)
    except Refusal as problem:
        if problem.status == FAILED:
            return problem.answer or {"reason": str(problem)}
        if problem.status not in MISSING:
            raise
    return None


def alarms(node: Row, failed: Row | None) -> list[str]:
    """Memory and disk alarms of the node, and others (a failed store) from ``failed``, the alarms check's response."""
    known = [kind for kind, key in (("memory", "mem_alarm"), ("disk", "disk_free_alarm")) if node.get(key)]
    here = [row["resource"] for row in (failed or {}).get("alarms", ()) if row["node"] == node["name"]]
    return known + [kind for kind in here if kind not in known]


def _print_node(api: Api, node: Row, raised: list[str]) -> None:
    overview = api.get("overview").value
    seconds = node["uptime"] / 1000
    print_line(
        f"{overview['product_name']} {overview['product_version']} at {api.address.url}, node {text(node['name'])}"
    )
    alarm = coloured(f"alarms: {', '.join(raised)}", ALARM) if raised else "no alarms"
    print_line(f"up for {duration(seconds)}, {alarm}")
    numbers = overview["object_totals"]
    print_line(", ".join(numbered(numbers[kind], kind) for kind in OBJECTS))
    lengths = overview["queue_totals"]
    ready, unacked = lengths.get("messages_ready", 0), lengths.get("messages_unacknowledged", 0)
    print_line(f"{numbered(ready, 'messages')} ready, {unacked} unacked")
    print_line(f"memory {_of(node, 'mem_used', 'mem_limit')}, disk {size(node['disk_free'])} free")
    if "cell" in overview:
        print_line(f"leader of the cell {text(overview['cell']['name'])}, see 'leveret cluster status'")


def _of(node: Row, used: str, limit: str) -> str:
    return f"{size(node[used])} of {size(node[limit])}" if node.get(limit) else size(node[used])


@overview_app.command()
@at_broker
def overview(api: Api, as_json: bool = AS_JSON) -> None:
    """Show rates, totals, nodes and listeners."""
    answer = api.get("overview")
    if as_json:
        print_json(answer)
    else:
        print_overview(api, answer.value)


def print_overview(api: Api, totals: Row) -> None:
    print_facts(
        (
            Column("product", "product_name"),
            Column("version", "product_version"),
            Column("node", "node"),
            *(Column(kind, f"object_totals.{kind}", count) for kind in OBJECTS),
        ),
        totals,
    )
    print_line("")
    stats, lengths = totals["message_stats"], totals["queue_totals"]
    rows = [
        {"what": head, "count": lengths.get(key), "rate": value_at(lengths, f"{key}_details.rate")}
        for head, key in LENGTHS
    ]
    rows += [
        {"what": key.replace("_", " "), "count": stats[key], "rate": value_at(stats, f"{key}_details.rate")}
        for key in RATES
        if key in stats
    ]
    print_table((Column("messages", "what"), Column("count", "count", count), Column("rate", "rate", rate)), rows, "")
    nodes = nodes_seen(api)
    if nodes:
        print_line("")
        print_table(node_columns(nodes), nodes, "")
    if totals.get("listeners"):
        print_line("")
        print_table(LISTENERS, totals["listeners"], "")


NODES = (
    Column("node", "name"),
    Column("uptime", "seconds", duration),
    *columns(shown=size, memory="mem_used", high_watermark="mem_limit", disk_free="disk_free"),
    *columns(shown=size, free_limit="disk_free_limit"),
    *columns(shown=count, file_descriptors="fd_used", limit="fd_total"),
    Column("alarms", "alarms", weight=ALARM),
)


def node_columns(nodes: list[Row]) -> tuple[Column, ...]:
    """Only nodes of a cell have a role."""
    return (NODES[0], Column("role", "role"), *NODES[1:]) if "role" in nodes[0] else NODES


@nodes_app.command("list")
@at_broker
def list_nodes(api: Api, as_json: bool = AS_JSON) -> None:
    """List nodes with their memory, disk space, file descriptors and alarms."""
    if as_json:
        print_json(api.get("nodes"))
        return
    nodes = with_alarms(api, api.get("nodes").rows)
    print_table(node_columns(nodes), nodes, "No nodes.")


@nodes_app.callback()
def _nodes() -> None:
    """List nodes."""


def nodes_seen(api: Api) -> list[Row]:
    """Empty if the user may not list nodes."""
    try:
        rows = api.get("nodes").rows
    except Refusal as problem:
        if problem.status in REFUSED:
            return []
        raise
    return with_alarms(api, rows)


def with_alarms(api: Api, rows: list[Row]) -> list[Row]:
    failed = failed_check(api, "alarms")
    return [
        {**row, "seconds": row["uptime"] / 1000 if "uptime" in row else None, "alarms": alarms(row, failed)}
        for row in rows
    ]
