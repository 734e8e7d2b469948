"""``leveret vhosts``."""

from __future__ import annotations

import typer

from leveret.cli.api_client import Api, Row
from leveret.cli.broker_options import YES, at_broker, confirm, group
from leveret.cli.name_completion import names_of
from leveret.cli.object_commands import list_command, show_command
from leveret.cli.output import print_created, print_line
from leveret.cli.tables import columns

app = group("List, show, create and delete virtual hosts, which isolate queues, exchanges and permissions.")

NAME = typer.Argument(metavar="NAME", help="Virtual host.", autocompletion=names_of("vhosts"))
TAGS = typer.Option([], "--tag", metavar="TAG", help="Tag; repeatable.")
CELL = typer.Option(
    None, "--cell", metavar="CELL", help="Cell of the virtual host, with serve --cells; default: all cells."
)
COLUMNS = columns("name", "description", "tags", "default_queue_type", "cell")

list_command(
    app,
    "vhosts",
    COLUMNS,
    help="List virtual hosts.",
    empty="No virtual hosts that you have access to; grant access with: leveret permissions set",
    by_vhost=False,
)
show_command(app, "vhosts", NAME, COLUMNS, help="Show a virtual host.")


@app.command("create")
@at_broker
def create_vhost(
    api: Api,
    name: str = NAME,
    description: str | None = typer.Option(None, "--description", metavar="TEXT", help="Description."),
    tag: list[str] = TAGS,
    cell: str | None = CELL,
) -> None:
    """Create a virtual host; grant access to it with 'leveret permissions set'."""
    value: Row = {}
    if description is not None:
        value["description"] = description
    if tag:
        value["tags"] = ",".join(tag)
    if cell is not None:
        value["cell"] = cell
    print_created(f"vhost '{name}'", api.put("vhosts", name, value=value))


@app.command("delete")
@at_broker
def delete_vhost(api: Api, name: str = NAME, yes: bool = YES) -> None:
    """Delete a virtual host with all its queues and messages; its connections are closed."""
    confirm(f"Delete vhost '{name}' with all its queues and messages?", yes)
    api.delete("vhosts", name)
    print_line(f"vhost '{name}' deleted")
