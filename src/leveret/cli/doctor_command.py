"""``leveret doctor``: looks at nodes and queues, and says what is wrong and what helps."""

from __future__ import annotations

import json
import sys

import typer

from leveret.cli.api_client import Api, Refusal
from leveret.cli.broker_options import alone, at_broker
from leveret.cli.findings import Finding, node_findings, queue_findings
from leveret.cli.printing import say

app = alone()

REFUSED = (401, 403)
COLUMNS = (
    "vhost,name,state,consumers,messages_ready,messages_unacknowledged,messages_details.rate,arguments,"
    "effective_policy_definition,message_stats.ack_details.rate,message_stats.deliver_get_details.rate"
)


@app.command()
@at_broker
def doctor(
    api: Api,
    as_json: bool = typer.Option(False, "--json", help="as JSON: a list of what was found"),
) -> None:
    """Look for what is wrong, and name the command that helps; exit code 1 if something stops work now."""
    found: list[Finding] = []
    try:
        found += node_findings(api.get("nodes").rows)
    except Refusal as problem:
        if problem.status not in REFUSED or not api.exists("whoami"):
            raise
        sys.stderr.write(f"The node was not looked at: user '{api.username}' needs the tag monitoring.\n")
    bindings = api.get("bindings", query={"columns": "vhost,source,destination,destination_type"}).rows
    found += queue_findings(api.get("queues", query={"columns": COLUMNS}).rows, bindings)
    found.sort(key=lambda each: each.weight != "alarm")
    if as_json:
        say(json.dumps([each._asdict() for each in found]))
    else:
        for each in found:
            say(f"{each.weight}: {each.what}\n  {each.remedy}")
        if not found:
            say("Nothing is wrong: no alarm, no queue without consumers that grows, no dead letter that waits.")
    if any(each.weight == "alarm" for each in found):
        raise typer.Exit(1)
