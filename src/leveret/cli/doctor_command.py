"""``leveret doctor``: checks nodes and queues, and prints each problem with a command that helps."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping

import typer

from leveret.cli.api_client import NOT_SUPPORTED, Api, Refusal, Row
from leveret.cli.broker_options import at_broker, single_command
from leveret.cli.colours import ALARM, coloured
from leveret.cli.findings import Finding, Place, queue_findings
from leveret.cli.node_findings import (
    EXPIRES_WITHIN,
    certificate_findings,
    clock_findings,
    node_findings,
    quorum_findings,
    store_findings,
)
from leveret.cli.output import print_line
from leveret.cli.overview_commands import failed_check

app = single_command()

REFUSED = (401, 403)
COLUMNS = (
    "vhost,name,type,state,consumers,messages_ready,messages_unacknowledged,messages_details.rate,arguments,"
    "effective_policy_definition,consumers_busy,delivery_idle_time,message_stats.ack_details.rate,message_stats.deliver_get_details.rate"
)


@app.command()
@at_broker
def doctor(
    api: Api,
    as_json: bool = typer.Option(False, "--json", help="Print the findings as JSON."),
) -> None:
    """Check the broker and its queues for problems; the exit code is 1 if there is an alarm."""
    found, nodes = findings_at(api)
    if as_json:
        print_line(json.dumps([each._asdict() for each in found]))
    else:
        print_findings(found, nodes)
    if any(each.weight == ALARM for each in found):
        raise typer.Exit(1)


def findings_at(api: Api) -> tuple[list[Finding], list[Row] | None]:
    """The findings, alarms first, and the nodes; None if the user may not list nodes."""
    queues = api.get("queues", query={"columns": COLUMNS})
    bindings = api.get("bindings", query={"columns": "vhost,source,destination,destination_type"}).rows
    found = [
        *clock_findings(queues.date, time.time()),
        *store_findings(failed_check(api, "virtual-hosts")),
        *quorum_findings(failed_check(api, "node-is-quorum-critical")),
        *certificate_findings(failed_check(api, "certificate-expiration", *EXPIRES_WITHIN)),
        *queue_findings(queues.rows, bindings, _leased(api)),
    ]
    nodes = _nodes(api)
    found += node_findings(nodes or ())
    found.sort(key=lambda each: each.weight != ALARM)
    return found, nodes


def print_findings(found: list[Finding], nodes: list[Row] | None) -> None:
    for each in found:
        print_line(f"{coloured(each.weight, each.weight)}: {each.what}\n  {each.remedy}")
    if not found:
        checked = "no alarms, " if nodes is not None else ""
        print_line(f"No problems found: {checked}no growing queues without consumers, no dead letters.")


def _leased(api: Api) -> Mapping[Place, int]:
    """The number of messages of each queue that are held by leases."""
    try:
        rows = api.get("leases").rows
    except Refusal as problem:
        if problem.status not in (*REFUSED, *NOT_SUPPORTED):
            raise
        return {}  # RabbitMQ has no leases
    leased: dict[Place, int] = {}
    for row in rows:
        place = (row["vhost"], row["queue"])
        leased[place] = leased.get(place, 0) + row["messages"]
    return leased


def _nodes(api: Api) -> list[Row] | None:
    """None if the user may not list nodes."""
    try:
        return api.get("nodes").rows
    except Refusal as problem:
        if problem.status not in REFUSED:
            raise
    sys.stderr.write(f"Nodes were not checked: user '{api.username}' needs the tag 'monitoring'.\n")
    return None
