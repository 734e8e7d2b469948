"""``leveret exchanges``."""

from __future__ import annotations

import sys

import typer

from leveret.cli.api_client import Api, Misuse, Row
from leveret.cli.binding_commands import BINDINGS
from leveret.cli.broker_options import (
    ARGUMENTS,
    AS_JSON,
    ROUTING_KEY,
    VHOST,
    at_broker,
    exchange_in,
    group,
    pairs,
    vhost_in,
)
from leveret.cli.name_completion import choices, names_of
from leveret.cli.object_commands import list_command
from leveret.cli.output import print_created, print_json, print_line, print_object
from leveret.cli.tables import Column, columns, count, name, print_table, text

app = group("List, show, create and delete exchanges, and test routing.")

NAME = typer.Argument(
    metavar="NAME", help="Exchange; amq.default is the default exchange.", autocompletion=names_of("exchanges")
)
HEADER = typer.Option([], "--header", metavar="NAME=VALUE", help="Message header; repeatable.")
COLUMNS = (
    Column("vhost", "vhost"),
    Column("name", "name", name),
    *columns("type", "durable"),
    Column("auto-delete", "auto_delete"),
    Column("internal", "internal"),
    *columns(shown=count, published="message_stats.publish_in", routed="message_stats.publish_out"),
    Column("policy", "policy"),
)
TYPES = choices("direct", "fanout", "topic", "headers")
STEPS = (*BINDINGS[:3], Column("matched by", "by"), *BINDINGS[3:])


list_command(
    app,
    "exchanges",
    COLUMNS,
    help="List exchanges.",
    empty="No exchanges that you have access to.",
    query={"sort": "name"},
)


@app.command("show")
@at_broker
def show_exchange(api: Api, name: str = NAME, vhost: str | None = VHOST, as_json: bool = AS_JSON) -> None:
    """Show an exchange and its bindings."""
    place, name = vhost_in(api, vhost), exchange_in(name)
    facts = (*COLUMNS, *columns("arguments"))
    print_object(
        api.get("exchanges", place, name),
        facts,
        as_json,
        lambda row: [(BINDINGS, api.get("exchanges", place, name, "bindings", "source").rows)],
    )


@app.command("create")
@at_broker
def create_exchange(
    api: Api,
    name: str = NAME,
    kind: str = typer.Option(
        "direct", "--type", metavar="TYPE", help="direct, fanout, topic, headers or another type.", autocompletion=TYPES
    ),
    vhost: str | None = VHOST,
    transient: bool = typer.Option(False, "--transient", help="Not durable: deleted when the broker restarts."),
    auto_delete: bool = typer.Option(False, "--auto-delete", help="Delete it with its last binding."),
    internal: bool = typer.Option(False, "--internal", help="Only other exchanges can publish to it."),
    argument: list[str] = ARGUMENTS,
) -> None:
    """Create an exchange; an existing one with the same properties is not changed."""
    value: Row = {"type": kind, "durable": not transient, "auto_delete": auto_delete, "internal": internal}
    value["arguments"] = pairs(argument, "--argument")
    print_created(f"exchange '{name}'", api.put("exchanges", vhost_in(api, vhost), name, value=value))


@app.command("delete")
@at_broker
def delete_exchange(
    api: Api,
    name: str = NAME,
    vhost: str | None = VHOST,
    if_unused: bool = typer.Option(False, "--if-unused", help="Only if it has no bindings."),
) -> None:
    """Delete an exchange and its bindings."""
    api.delete("exchanges", vhost_in(api, vhost), exchange_in(name), query={"if-unused": if_unused or None})
    print_line(f"exchange '{name}' deleted")


@app.command("route")
@at_broker
def route(
    api: Api,
    name: str = NAME,
    routing_key: str = typer.Argument("", metavar="[ROUTING_KEY]", help="Routing key of the message."),
    key: str | None = ROUTING_KEY,
    vhost: str | None = VHOST,
    header: list[str] = HEADER,
    as_json: bool = AS_JSON,
) -> None:
    """Show which queues a message would reach, and by which bindings; nothing is published."""
    headers = {f"headers.{key}": value for key, _, value in (item.partition("=") for item in header)}
    pairs(header, "--header")  # validates the format
    if key is not None and routing_key:
        raise Misuse("the routing key is given as an argument and with --routing-key: use only one of them")
    query = {"routing_key": routing_key if key is None else key, **headers}
    answer = api.get("exchanges", vhost_in(api, vhost), exchange_in(name), "route", query=query)
    if as_json:
        print_json(answer)
        return
    found = answer.value
    print_table(STEPS, found["bindings"], "No binding matches.")
    queues = text(found["queues"]) if found["queues"] else ""
    print_line(f"Routed to: {queues}" if queues else "Not routed to any queue.")
    if found.get("by_chance"):
        sys.stderr.write("One of the exchanges routes at random: the next message may reach other queues.\n")
