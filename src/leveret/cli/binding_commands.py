"""``leveret bindings``."""

from __future__ import annotations

import shlex
from typing import NamedTuple

import typer

from leveret.cli.api_client import Api, Refusal, Row
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
from leveret.cli.name_completion import names_of
from leveret.cli.output import print_line, print_list
from leveret.cli.tables import Column, columns, name

app = group("List, create and delete bindings: routes from an exchange to queues and other exchanges.")

BINDINGS = (
    Column("source", "source", name),
    Column("destination", "destination"),
    Column("type", "destination_type"),
    *columns("routing_key", "arguments"),
)
COLUMNS = (*columns("vhost"), *BINDINGS)


class Ends(NamedTuple):
    """The arguments and options that identify a binding."""

    exchange: str = typer.Argument(metavar="EXCHANGE", help="Source exchange.", autocompletion=names_of("exchanges"))
    destination: str = typer.Argument(
        metavar="DESTINATION", help="Queue, or exchange with --to-exchange.", autocompletion=names_of("queues")
    )
    routing_key: str = typer.Option("", "--routing-key", metavar="KEY", help="Binding key.")
    to_exchange: bool = typer.Option(False, "--to-exchange", help="DESTINATION is an exchange.")
    vhost: str | None = VHOST
    argument: list[str] = ARGUMENTS

    def path(self, api: Api) -> tuple[str, ...]:
        kind = "e" if self.to_exchange else "q"
        return "bindings", vhost_in(api, self.vhost), "e", exchange_in(self.exchange), kind, self.destination


@app.command("list")
@at_broker
def list_bindings(
    api: Api,
    vhost: str | None = ANY_VHOST,
    queue: str | None = typer.Option(None, "--queue", metavar="NAME", help="Only bindings of this queue."),
    exchange: str | None = typer.Option(
        None, "--exchange", metavar="NAME", help="Only bindings whose source is this exchange."
    ),
    as_json: bool = AS_JSON,
) -> None:
    """List bindings."""
    path = listed_at(api, "bindings", vhost)
    if queue is not None:
        path = ("queues", vhost_in(api, vhost), queue, "bindings")
    elif exchange is not None:
        path = ("exchanges", vhost_in(api, vhost), exchange_in(exchange), "bindings", "source")
    answer = api.get(*path)
    print_list(answer, COLUMNS, "No bindings. To create one: leveret bindings create EXCHANGE QUEUE", as_json)


@app.command("create")
@at_broker
def create_binding(api: Api, ends: Ends) -> None:
    """Bind a queue or an exchange to an exchange."""
    value = {"routing_key": ends.routing_key, "arguments": pairs(ends.argument, "--argument")}
    api.post(*ends.path(api), value=value)
    print_line(f"'{ends.destination}' bound to exchange '{name(ends.exchange)}' with key '{ends.routing_key}'")


@app.command("delete")
@at_broker
def delete_binding(api: Api, ends: Ends) -> None:
    """Delete the binding with this routing key and these arguments."""
    path, key = ends.path(api), ends.routing_key
    arguments = pairs(ends.argument, "--argument")
    rows: list[Row] = [row for row in api.get(*path).rows if row["routing_key"] == key]
    found = next((row for row in rows if row["arguments"] == arguments), None)
    if found is None:
        raise Refusal(
            f"no binding from exchange '{name(ends.exchange)}' to '{ends.destination}' in vhost "
            f"'{vhost_in(api, ends.vhost)}' with key '{key}' and arguments {arguments}: see 'leveret bindings list "
            f"--exchange {shlex.quote(ends.exchange)}'"
        )
    api.delete(*path, found["properties_key"])
    print_line(f"'{ends.destination}' unbound from exchange '{name(ends.exchange)}' with key '{key}'")
