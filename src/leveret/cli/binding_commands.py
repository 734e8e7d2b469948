"""``leveret bindings``."""

from __future__ import annotations

import typer

from leveret.cli.api_client import Api, Refusal, Row
from leveret.cli.broker_options import (
    ANY_VHOST,
    ARGUMENTS,
    AS_JSON,
    VHOST,
    at_broker,
    group,
    listed_at,
    pairs,
    vhost_in,
)
from leveret.cli.printing import print_json, say
from leveret.cli.tables import Column, draw, name

app = group("Bindings: from an exchange to queues and other exchanges.")

SOURCE = typer.Argument(metavar="EXCHANGE", help="from")
DESTINATION = typer.Argument(metavar="DESTINATION", help="to: a queue, or an exchange with --to-exchange")
KEY = typer.Option("", "--routing-key", metavar="KEY")
TO_EXCHANGE = typer.Option(False, "--to-exchange", help="the destination is an exchange")
COLUMNS = (
    Column("vhost", "vhost"),
    Column("from", "source", name),
    Column("to", "destination"),
    Column("kind", "destination_type"),
    Column("routing key", "routing_key"),
    Column("arguments", "arguments"),
)


@app.command("list")
@at_broker
def list_bindings(
    api: Api,
    vhost: str | None = ANY_VHOST,
    queue: str | None = typer.Option(None, "--queue", metavar="NAME", help="that lead to this queue"),
    exchange: str | None = typer.Option(None, "--exchange", metavar="NAME", help="that start at this exchange"),
    as_json: bool = AS_JSON,
) -> None:
    """List bindings."""
    path = listed_at(api, "bindings", vhost)
    if queue is not None:
        path = ("queues", vhost_in(api, vhost), queue, "bindings")
    elif exchange is not None:
        path = ("exchanges", vhost_in(api, vhost), exchange, "bindings", "source")
    answer = api.get(*path)
    if as_json:
        print_json(answer)
    else:
        draw(COLUMNS, answer.rows, "There are no such bindings. Make one: leveret bindings create EXCHANGE QUEUE")


@app.command("create")
@at_broker
def create_binding(
    api: Api,
    exchange: str = SOURCE,
    destination: str = DESTINATION,
    routing_key: str = KEY,
    to_exchange: bool = TO_EXCHANGE,
    vhost: str | None = VHOST,
    argument: list[str] = ARGUMENTS,
) -> None:
    """Bind a queue, or an exchange, to an exchange."""
    value = {"routing_key": routing_key, "arguments": pairs(argument, "--argument")}
    api.post(*_between(vhost_in(api, vhost), exchange, destination, to_exchange), value=value)
    say(f"'{destination}' is bound to exchange '{exchange}' by key '{routing_key}'")


@app.command("delete")
@at_broker
def delete_binding(
    api: Api,
    exchange: str = SOURCE,
    destination: str = DESTINATION,
    routing_key: str = KEY,
    to_exchange: bool = TO_EXCHANGE,
    vhost: str | None = VHOST,
    argument: list[str] = ARGUMENTS,
) -> None:
    """Remove the binding with this routing key and these arguments."""
    place = vhost_in(api, vhost)
    path = _between(place, exchange, destination, to_exchange)
    arguments = pairs(argument, "--argument")
    rows: list[Row] = [row for row in api.get(*path).rows if row["routing_key"] == routing_key]
    found = next((row for row in rows if row["arguments"] == arguments), None)
    if found is None:
        raise Refusal(
            f"no binding from exchange '{exchange}' to '{destination}' in vhost '{place}' with key '{routing_key}' and "
            f"arguments {arguments}: leveret bindings list --exchange {exchange}"
        )
    api.delete(*path, found["properties_key"])
    say(f"'{destination}' is no longer bound to exchange '{exchange}' by key '{routing_key}'")


def _between(vhost: str, exchange: str, destination: str, to_exchange: bool) -> tuple[str, ...]:
    return "bindings", vhost, "e", exchange, "e" if to_exchange else "q", destination
