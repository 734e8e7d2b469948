"""``leveret vhosts``."""

from __future__ import annotations

import typer

from leveret.cli.api_client import Api, Row
from leveret.cli.broker_options import AS_JSON, YES, at_broker, confirm, group
from leveret.cli.name_completion import names_of
from leveret.cli.output import print_created, print_json, print_line, print_list
from leveret.cli.tables import Column, print_facts

app = group("List, show, create and delete virtual hosts, which isolate queues, exchanges and permissions.")

NAME = typer.Argument(metavar="NAME", help="Virtual host.", autocompletion=names_of("vhosts"))
TAGS = typer.Option([], "--tag", metavar="TAG", help="Tag; repeatable.")
COLUMNS = (
    Column("name", "name"),
    Column("description", "description"),
    Column("tags", "tags"),
    Column("default queue type", "default_queue_type"),
)


@app.command("list")
@at_broker
def list_vhosts(api: Api, as_json: bool = AS_JSON) -> None:
    """List virtual hosts."""
    answer = api.get("vhosts")
    print_list(
        answer, COLUMNS, "No virtual hosts that you have access to; grant access with: leveret permissions set", as_json
    )


@app.command("show")
@at_broker
def show_vhost(api: Api, name: str = NAME, as_json: bool = AS_JSON) -> None:
    """Show a virtual host."""
    answer = api.get("vhosts", name)
    if as_json:
        print_json(answer)
    else:
        print_facts(COLUMNS, answer.value)


@app.command("create")
@at_broker
def create_vhost(
    api: Api,
    name: str = NAME,
    description: str | None = typer.Option(None, "--description", metavar="TEXT", help="Description."),
    tag: list[str] = TAGS,
) -> None:
    """Create a virtual host; grant access to it with 'leveret permissions set'."""
    value: Row = {}
    if description is not None:
        value["description"] = description
    if tag:
        value["tags"] = ",".join(tag)
    print_created(f"vhost '{name}'", api.put("vhosts", name, value=value))


@app.command("delete")
@at_broker
def delete_vhost(api: Api, name: str = NAME, yes: bool = YES) -> None:
    """Delete a virtual host with all its queues and messages; its connections are closed."""
    confirm(f"Delete vhost '{name}' with all its queues and messages?", yes)
    api.delete("vhosts", name)
    print_line(f"vhost '{name}' deleted")
