"""``leveret policies``."""

from __future__ import annotations

import json

import typer

from leveret.cli.api_client import Api, Misuse
from leveret.cli.broker_options import ANY_VHOST, AS_JSON, VHOST, at_broker, group, listed_at, vhost_in
from leveret.cli.name_completion import choices, names_of
from leveret.cli.output import print_created, print_line, print_list
from leveret.cli.tables import Column, columns, count

app = group("List, set, delete and explain policies: optional arguments for queues and exchanges by name pattern.")

NAME = typer.Argument(metavar="NAME", help="Policy name.", autocompletion=names_of("policies"))
OPERATOR = typer.Option(False, "--operator", help="Operator policies, which can only tighten limits.")
COLUMNS = (
    *columns("vhost", "name", "pattern"),
    Column("apply to", "apply-to"),
    Column("priority", "priority", count),
    Column("definition", "definition"),
)
EXPLAINED = (*columns("key", "value", "source"), Column("in effect", "is_effective"))
APPLY_TO = choices("all", "queues", "classic_queues", "quorum_queues", "streams", "exchanges")


def _kind(operator: bool) -> str:
    return "operator-policies" if operator else "policies"


@app.command("list")
@at_broker
def list_policies(api: Api, vhost: str | None = ANY_VHOST, operator: bool = OPERATOR, as_json: bool = AS_JSON) -> None:
    """List policies."""
    answer = api.get(*listed_at(api, _kind(operator), vhost))
    print_list(answer, COLUMNS, "No policies. To set one: leveret policies set NAME PATTERN DEFINITION", as_json)


@app.command("set")
@at_broker
def set_policy(
    api: Api,
    name: str = NAME,
    pattern: str = typer.Argument(metavar="PATTERN", help="Regular expression for names, such as '^orders\\.'"),
    definition: str = typer.Argument(metavar="DEFINITION", help="""JSON, such as '{"max-length": 1000}'"""),
    apply_to: str = typer.Option(
        "all", "--apply-to", metavar="WHAT", help="all, queues, exchanges, streams and so on.", autocompletion=APPLY_TO
    ),
    priority: int = typer.Option(
        0, "--priority", metavar="N", help="The matching policy with the highest priority applies."
    ),
    operator: bool = OPERATOR,
    vhost: str | None = VHOST,
) -> None:
    """Set a policy (replaces one with the same name); it takes effect immediately."""
    try:
        values = json.loads(definition)
    except ValueError as problem:
        raise Misuse(f"the definition of policy '{name}' is not valid JSON: {problem}") from None
    value = {"pattern": pattern, "definition": values, "apply-to": apply_to, "priority": priority}
    what = f"operator policy '{name}'" if operator else f"policy '{name}'"
    print_created(what, api.put(_kind(operator), vhost_in(api, vhost), name, value=value), "updated")


@app.command("delete")
@at_broker
def delete_policy(api: Api, name: str = NAME, operator: bool = OPERATOR, vhost: str | None = VHOST) -> None:
    """Delete a policy; it takes effect immediately."""
    api.delete(_kind(operator), vhost_in(api, vhost), name)
    print_line(f"policy '{name}' deleted")


@app.command("explain")
@at_broker
def explain(
    api: Api,
    name: str = typer.Argument(
        metavar="NAME", help="Queue, or exchange with --exchange.", autocompletion=names_of("queues")
    ),
    exchange: bool = typer.Option(False, "--exchange", help="NAME is an exchange."),
    vhost: str | None = VHOST,
    as_json: bool = AS_JSON,
) -> None:
    """Show the values in effect for a queue or exchange, and their source: argument, policy or default."""
    kind = "exchange" if exchange else "queue"
    answer = api.get("policies-explained", vhost_in(api, vhost), kind, name)
    print_list(answer, EXPLAINED, f"No arguments and no policies apply to {kind} '{name}'.", as_json, "values")
