"""``leveret plugins``: features that RabbitMQ ships as plugins and that are built in here."""

from __future__ import annotations

import sys

import typer

from leveret.cli.api_client import Api, Row
from leveret.cli.broker_options import at_broker, group
from leveret.cli.name_completion import names_of
from leveret.cli.object_commands import list_command
from leveret.cli.output import print_line
from leveret.cli.tables import Column, columns, count, text

app = group("List, enable and disable plugins. All are built in; some can be disabled.")

NAMES = typer.Argument(
    metavar="NAME...",
    help="Plugin name, such as sharding or rabbitmq_sharding.",
    autocompletion=names_of("plugins"),
)
COLUMNS = (
    *columns("name", "enabled"),
    Column("can be disabled", "switchable"),
    Column("in use", "in_use", count),
    Column("description", "description"),
    Column("RabbitMQ name", "rabbitmq_name"),
)
MOST_NAMED = 20  # exchanges and policies that use a disabled plugin


list_command(
    app,
    "plugins",
    COLUMNS,
    help="List plugins, and how many exchanges and policies use them.",
    empty="This broker has no plugins.",
    by_vhost=False,
)


@app.command("enable")
@at_broker
def enable(api: Api, names: list[str] = NAMES) -> None:
    """Enable plugins, immediately and permanently."""
    for name in names:
        print_line(f"plugin '{api.put('plugins', name, value={}).value['name']}' enabled")


@app.command("disable")
@at_broker
def disable(api: Api, names: list[str] = NAMES) -> None:
    """Disable plugins: new exchanges and policies that need them are refused; existing ones keep working."""
    for name in names:
        row: Row = api.delete("plugins", name).value
        print_line(f"plugin '{row['name']}' disabled")
        users = [*_named("exchange", row["exchanges"]), *_named("policy", row["policies"])]
        if users:
            more = f" and {len(users) - MOST_NAMED} more" if len(users) > MOST_NAMED else ""
            sys.stderr.write(f"Still in use: {', '.join(users[:MOST_NAMED])}{more}\n")


def _named(kind: str, rows: list[Row]) -> list[str]:
    return [f"{kind} '{text(row['name'])}' in vhost '{text(row['vhost'])}'" for row in rows]
