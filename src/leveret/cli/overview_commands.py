"""``leveret status`` and ``leveret overview``."""

from __future__ import annotations

from leveret.cli.api_client import Api, Refusal, Row
from leveret.cli.broker_options import AS_JSON, alone, at_broker
from leveret.cli.printing import print_json, say
from leveret.cli.tables import Column, at, count, draw, duration, facts, numbered, rate, size, text

status_app, overview_app = alone(), alone()

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
    """Say in a few lines how the broker is; exit code 1 if an alarm is on. --json gives the nodes."""
    nodes, failed = api.get("nodes"), failed_check(api, "alarms")
    if as_json:
        print_json(nodes)
    for node in nodes.rows:
        raised = alarms(node, failed)
        if not as_json:
            _tell_node(api, node, raised)
        if raised:
            raise Refusal(f"{' and '.join(raised)} alarm on node '{node['name']}': publishers wait; leveret doctor")


def failed_check(api: Api, *check: str) -> Row | None:
    """What a health check says is wrong; None: nothing, or this broker has no such check."""
    try:
        api.get("health", "checks", *check)
    except Refusal as problem:
        if problem.status == FAILED:
            return problem.answer or {"reason": str(problem)}
        if problem.status not in MISSING:
            raise
    return None


def alarms(node: Row, failed: Row | None) -> list[str]:
    """Of memory and disk, which nodes tell; ``failed``, the check of alarms, knows others: a store that failed."""
    known = [kind for kind, key in (("memory", "mem_alarm"), ("disk", "disk_free_alarm")) if node.get(key)]
    here = [row["resource"] for row in (failed or {}).get("alarms", ()) if row["node"] == node["name"]]
    return known + [kind for kind in here if kind not in known]


def _tell_node(api: Api, node: Row, raised: list[str]) -> None:
    told = api.get("overview").value
    seconds = node["uptime"] / 1000
    say(f"{told['product_name']} {told['product_version']} at {api.address.url}, node {text(node['name'])}")
    say(f"up for {duration(seconds)}, {'alarm: ' + ', '.join(raised) if raised else 'no alarm'}")
    numbers = told["object_totals"]
    say(", ".join(numbered(numbers[kind], kind) for kind in OBJECTS))
    lengths = told["queue_totals"]
    ready, unacked = lengths.get("messages_ready", 0), lengths.get("messages_unacknowledged", 0)
    say(f"{numbered(ready, 'messages')} ready, {unacked} unacked")
    say(f"memory {_of(node, 'mem_used', 'mem_limit')}, disk {size(node['disk_free'])} free")


def _of(node: Row, used: str, limit: str) -> str:
    return f"{size(node[used])} of {size(node[limit])}" if node.get(limit) else size(node[used])


@overview_app.command()
@at_broker
def overview(api: Api, as_json: bool = AS_JSON) -> None:
    """Show rates, totals, what the nodes use, and where they listen."""
    answer = api.get("overview")
    if as_json:
        print_json(answer)
        return
    told: Row = answer.value
    facts(
        (
            Column("product", "product_name"),
            Column("version", "product_version"),
            Column("node", "node"),
            *(Column(kind, f"object_totals.{kind}", count) for kind in OBJECTS),
        ),
        told,
    )
    say("")
    stats, lengths = told["message_stats"], told["queue_totals"]
    rows = [
        {"what": head, "count": lengths.get(key), "rate": at(lengths, f"{key}_details.rate")} for head, key in LENGTHS
    ]
    rows += [
        {"what": key.replace("_", " "), "count": stats[key], "rate": at(stats, f"{key}_details.rate")}
        for key in RATES
        if key in stats
    ]
    draw((Column("messages", "what"), Column("count", "count", count), Column("rate", "rate", rate)), rows, "")
    nodes = nodes_seen(api)
    if nodes:
        say("")
        draw(NODES, nodes, "")
    if told.get("listeners"):
        say("")
        draw(LISTENERS, told["listeners"], "")


NODES = (
    Column("node", "name"),
    Column("up", "seconds", duration),
    Column("memory", "mem_used", size),
    Column("of", "mem_limit", size),
    Column("disk free", "disk_free", size),
    Column("at least", "disk_free_limit", size),
    Column("files", "fd_used", count),
    Column("of", "fd_total", count),
    Column("alarms", "alarms"),
)


def nodes_seen(api: Api) -> list[Row]:
    """None for those who may not see them."""
    try:
        rows = api.get("nodes").rows
    except Refusal as problem:
        if problem.status in REFUSED:
            return []
        raise
    failed = failed_check(api, "alarms")
    return [{**row, "seconds": row["uptime"] / 1000, "alarms": alarms(row, failed)} for row in rows]
