"""``leveret plugins``: what RabbitMQ ships as plugins and this broker has built in, switched on and off."""

from __future__ import annotations

import sys

import typer

from leveret.cli.api_client import Api, Row
from leveret.cli.broker_options import AS_JSON, at_broker, group
from leveret.cli.completing import names_of
from leveret.cli.printing import print_list, say
from leveret.cli.tables import Column, count, text

app = group("Features that RabbitMQ ships as plugins: all are built in, some can be switched off.")

NAMES = typer.Argument(
    metavar="NAME...",
    help="here or in RabbitMQ, such as sharding or rabbitmq_sharding",
    autocompletion=names_of("plugins"),
)
COLUMNS = (
    Column("name", "name"),
    Column("enabled", "enabled"),
    Column("can be switched", "switchable"),
    Column("in use", "in_use", count),
    Column("what it is", "description"),
    Column("in RabbitMQ", "rabbitmq_name"),
)
MOST_NAMED = 20  # of those that still use a plugin


@app.command("list")
@at_broker
def list_plugins(api: Api, as_json: bool = AS_JSON) -> None:
    """List plugins, whether they are on, and how many exchanges and policies use them."""
    answer = api.get("plugins")
    print_list(answer, COLUMNS, "This broker has no plugins.", as_json)


@app.command("enable")
@at_broker
def enable(api: Api, names: list[str] = NAMES) -> None:
    """Enable plugins; it takes effect at once and outlives a restart."""
    for name in names:
        say(f"plugin '{api.put('plugins', name, value={}).value['name']}' is enabled")


@app.command("disable")
@at_broker
def disable(api: Api, names: list[str] = NAMES) -> None:
    """Disable plugins: nothing new is declared with them. What is there goes on working, and is named."""
    for name in names:
        row: Row = api.delete("plugins", name).value
        say(f"plugin '{row['name']}' is disabled")
        users = [*_named("exchange", row["exchanges"]), *_named("policy", row["policies"])]
        if users:
            more = f" and {len(users) - MOST_NAMED} more" if len(users) > MOST_NAMED else ""
            sys.stderr.write(f"Still at work, as before: {', '.join(users[:MOST_NAMED])}{more}\n")


def _named(kind: str, rows: list[Row]) -> list[str]:
    return [f"{kind} '{text(row['name'])}' in vhost '{text(row['vhost'])}'" for row in rows]
