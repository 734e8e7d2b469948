"""``leveret doctor``: looks at the node, what it stands on, and its queues; says what is wrong and what helps."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping

import typer

from leveret.cli.api_client import HAS_NOT, Api, Refusal, Row
from leveret.cli.broker_options import alone, at_broker
from leveret.cli.findings import Place, queue_findings
from leveret.cli.node_findings import (
    ENDS_SOON,
    certificate_findings,
    clock_findings,
    node_findings,
    store_findings,
)
from leveret.cli.overview_commands import failed_check
from leveret.cli.printing import say

app = alone()

REFUSED = (401, 403)
COLUMNS = (
    "vhost,name,type,state,consumers,messages_ready,messages_unacknowledged,messages_details.rate,arguments,"
    "effective_policy_definition,message_stats.ack_details.rate,message_stats.deliver_get_details.rate"
)


@app.command()
@at_broker
def doctor(
    api: Api,
    as_json: bool = typer.Option(False, "--json", help="as JSON: a list of what was found"),
) -> None:
    """Look for what is wrong, and name the command that helps; exit code 1 if something stops work now."""
    queues = api.get("queues", query={"columns": COLUMNS})
    bindings = api.get("bindings", query={"columns": "vhost,source,destination,destination_type"}).rows
    found = [
        *clock_findings(queues.date, time.time()),
        *store_findings(failed_check(api, "virtual-hosts")),
        *certificate_findings(failed_check(api, "certificate-expiration", *ENDS_SOON)),
        *queue_findings(queues.rows, bindings, _leased(api)),
    ]
    nodes = _nodes(api)
    found += node_findings(nodes or ())
    found.sort(key=lambda each: each.weight != "alarm")
    if as_json:
        say(json.dumps([each._asdict() for each in found]))
    else:
        for each in found:
            say(f"{each.weight}: {each.what}\n  {each.remedy}")
        if not found:
            looked = "no alarm, " if nodes is not None else ""
            say(f"Nothing is wrong: {looked}no queue without consumers that grows, no dead letter that waits.")
    if any(each.weight == "alarm" for each in found):
        raise typer.Exit(1)


def _leased(api: Api) -> Mapping[Place, int]:
    """How many messages of each queue are held by leases."""
    try:
        rows = api.get("leases").rows
    except Refusal as problem:
        if problem.status not in (*REFUSED, *HAS_NOT):
            raise
        return {}  # RabbitMQ has none
    leased: dict[Place, int] = {}
    for row in rows:
        place = (row["vhost"], row["queue"])
        leased[place] = leased.get(place, 0) + row["messages"]
    return leased


def _nodes(api: Api) -> list[Row] | None:
    """None for those who may not see them."""
    try:
        return api.get("nodes").rows
    except Refusal as problem:
        if problem.status not in REFUSED:
            raise
    sys.stderr.write(f"The node was not looked at: user '{api.username}' needs the tag monitoring.\n")
    return None
