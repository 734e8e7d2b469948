"""``leveret exchanges``."""

from __future__ import annotations

import sys

import typer

from leveret.cli.api_client import Api, Row
from leveret.cli.binding_commands import BINDINGS
from leveret.cli.broker_options import (
    ANY_VHOST,
    ARGUMENTS,
    AS_JSON,
    VHOST,
    at_broker,
    exchange_in,
    group,
    listed_at,
    pairs,
    vhost_in,
)
from leveret.cli.completing import names_of
from leveret.cli.printing import made, print_json, print_list, say
from leveret.cli.tables import Column, count, draw, facts, name, text

app = group("Exchanges: they take messages and hand them to queues.")

NAME = typer.Argument(
    metavar="NAME", help="the exchange; amq.default is the one without a name", autocompletion=names_of("exchanges")
)
HEADER = typer.Option([], "--header", metavar="NAME=VALUE", help="a header of the message")
COLUMNS = (
    Column("vhost", "vhost"),
    Column("name", "name", name),
    Column("type", "type"),
    Column("durable", "durable"),
    Column("auto-delete", "auto_delete"),
    Column("internal", "internal"),
    Column("published", "message_stats.publish_in", count),
    Column("routed", "message_stats.publish_out", count),
    Column("policy", "policy"),
)
STEPS = (*BINDINGS[:3], Column("by", "by"), *BINDINGS[3:])


@app.command("list")
@at_broker
def list_exchanges(api: Api, vhost: str | None = ANY_VHOST, as_json: bool = AS_JSON) -> None:
    """List exchanges."""
    answer = api.get(*listed_at(api, "exchanges", vhost), query={"sort": "name"})
    print_list(answer, COLUMNS, "There are no exchanges that you may see.", as_json)


@app.command("show")
@at_broker
def show_exchange(api: Api, name: str = NAME, vhost: str | None = VHOST, as_json: bool = AS_JSON) -> None:
    """Show all about an exchange, and where its bindings lead."""
    place, name = vhost_in(api, vhost), exchange_in(name)
    answer = api.get("exchanges", place, name)
    if as_json:
        print_json(answer)
        return
    facts((*COLUMNS, Column("arguments", "arguments")), answer.value)
    bindings = api.get("exchanges", place, name, "bindings", "source").rows
    if bindings:
        say("")
        draw(BINDINGS, bindings, "")


@app.command("create")
@at_broker
def create_exchange(
    api: Api,
    name: str = NAME,
    kind: str = typer.Option("direct", "--type", metavar="TYPE", help="direct, fanout, topic, headers or another"),
    vhost: str | None = VHOST,
    transient: bool = typer.Option(False, "--transient", help="gone after a restart"),
    auto_delete: bool = typer.Option(False, "--auto-delete", help="gone with its last binding"),
    internal: bool = typer.Option(False, "--internal", help="only other exchanges may publish to it"),
    argument: list[str] = ARGUMENTS,
) -> None:
    """Create an exchange; one that is there with the same properties stays as it is."""
    value: Row = {"type": kind, "durable": not transient, "auto_delete": auto_delete, "internal": internal}
    value["arguments"] = pairs(argument, "--argument")
    made(f"exchange '{name}'", api.put("exchanges", vhost_in(api, vhost), name, value=value))


@app.command("delete")
@at_broker
def delete_exchange(
    api: Api,
    name: str = NAME,
    vhost: str | None = VHOST,
    if_unused: bool = typer.Option(False, "--if-unused", help="only if nothing is bound to it"),
) -> None:
    """Delete an exchange with its bindings; queues stay."""
    api.delete("exchanges", vhost_in(api, vhost), exchange_in(name), query={"if-unused": if_unused or None})
    say(f"exchange '{name}' deleted")


@app.command("route")
@at_broker
def route(
    api: Api,
    name: str = NAME,
    routing_key: str = typer.Argument("", metavar="ROUTING_KEY"),
    vhost: str | None = VHOST,
    header: list[str] = HEADER,
    as_json: bool = AS_JSON,
) -> None:
    """Say where a message would go, and by which bindings; nothing is published."""
    headers = {f"headers.{key}": value for key, _, value in (item.partition("=") for item in header)}
    pairs(header, "--header")  # refuses what is no pair
    query = {"routing_key": routing_key, **headers}
    answer = api.get("exchanges", vhost_in(api, vhost), exchange_in(name), "route", query=query)
    if as_json:
        print_json(answer)
        return
    found = answer.value
    draw(STEPS, found["bindings"], "No binding takes it.")
    queues = text(found["queues"]) if found["queues"] else ""
    say(f"It would reach {queues}." if queues else "It would reach no queue.")
    if found.get("by_chance"):
        sys.stderr.write("One of the exchanges chooses by chance: the next message may go elsewhere.\n")
