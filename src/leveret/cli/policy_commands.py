"""``leveret policies``."""

from __future__ import annotations

import json

import typer

from leveret.cli.api_client import Api, Misuse
from leveret.cli.broker_options import ANY_VHOST, AS_JSON, VHOST, at_broker, group, listed_at, vhost_in
from leveret.cli.completing import names_of
from leveret.cli.printing import made, print_json, print_list, say
from leveret.cli.tables import Column, count, draw

app = group("Policies: values for all queues and exchanges whose names match.")

NAME = typer.Argument(metavar="NAME", help="the policy", autocompletion=names_of("policies"))
OPERATOR = typer.Option(False, "--operator", help="an operator policy: it can only tighten")
COLUMNS = (
    Column("vhost", "vhost"),
    Column("name", "name"),
    Column("pattern", "pattern"),
    Column("apply to", "apply-to"),
    Column("priority", "priority", count),
    Column("definition", "definition"),
)
EXPLAINED = (
    Column("key", "key"),
    Column("value", "value"),
    Column("from", "source"),
    Column("holds", "is_effective"),
)


def _kind(operator: bool) -> str:
    return "operator-policies" if operator else "policies"


@app.command("list")
@at_broker
def list_policies(api: Api, vhost: str | None = ANY_VHOST, operator: bool = OPERATOR, as_json: bool = AS_JSON) -> None:
    """List policies."""
    answer = api.get(*listed_at(api, _kind(operator), vhost))
    print_list(answer, COLUMNS, "There are no such policies: leveret policies set NAME PATTERN DEFINITION", as_json)


@app.command("set")
@at_broker
def set_policy(
    api: Api,
    name: str = NAME,
    pattern: str = typer.Argument(metavar="PATTERN", help="a regular expression for names, as '^orders\\.'"),
    definition: str = typer.Argument(metavar="DEFINITION", help="""JSON, as '{"max-length": 1000}'"""),
    apply_to: str = typer.Option("all", "--apply-to", metavar="WHAT", help="all, queues, exchanges, streams, ..."),
    priority: int = typer.Option(0, "--priority", metavar="N"),
    operator: bool = OPERATOR,
    vhost: str | None = VHOST,
) -> None:
    """Set a policy, in place of the one with its name; it takes effect at once."""
    try:
        values = json.loads(definition)
    except ValueError as problem:
        raise Misuse(f"the definition of policy '{name}' is not JSON: {problem}") from None
    value = {"pattern": pattern, "definition": values, "apply-to": apply_to, "priority": priority}
    what = f"operator policy '{name}'" if operator else f"policy '{name}'"
    made(what, api.put(_kind(operator), vhost_in(api, vhost), name, value=value))


@app.command("delete")
@at_broker
def delete_policy(api: Api, name: str = NAME, operator: bool = OPERATOR, vhost: str | None = VHOST) -> None:
    """Delete a policy; its values cease to hold at once."""
    api.delete(_kind(operator), vhost_in(api, vhost), name)
    say(f"policy '{name}' deleted")


@app.command("explain")
@at_broker
def explain(
    api: Api,
    name: str = typer.Argument(
        metavar="NAME", help="a queue, or an exchange with --exchange", autocompletion=names_of("queues")
    ),
    exchange: bool = typer.Option(False, "--exchange", help="NAME is an exchange"),
    vhost: str | None = VHOST,
    as_json: bool = AS_JSON,
) -> None:
    """Say which values hold for a queue or exchange, and who gives them: arguments, policies or a default."""
    kind = "exchange" if exchange else "queue"
    answer = api.get("policies-explained", vhost_in(api, vhost), kind, name)
    if as_json:
        print_json(answer)
    else:
        draw(EXPLAINED, answer.value["values"], f"Nothing is said of {kind} '{name}', by arguments or policies.")
