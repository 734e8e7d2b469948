"""``leveret connections`` and ``leveret consumers``."""

from __future__ import annotations

import typer

from leveret.cli.api_client import Api
from leveret.cli.broker_options import ANY_VHOST, AS_JSON, at_broker, group, listed_at
from leveret.cli.printing import print_json, print_list, say
from leveret.cli.tables import Column, count, draw, duration, facts, size

app = group("Connections of clients.")
consumers_app = group("Those who consume from queues.")

NAME = typer.Argument(metavar="NAME", help="as leveret connections list shows it")
COLUMNS = (
    Column("name", "name"),
    Column("vhost", "vhost"),
    Column("user", "user"),
    Column("state", "state"),
    Column("channels", "channels", count),
    Column("received", "recv_oct", size),
    Column("sent", "send_oct", size),
    Column("client", "user_provided_name"),
)
FACTS = (
    *COLUMNS,
    Column("protocol", "protocol"),
    Column("login by", "auth_mechanism"),
    Column("TLS", "ssl"),
    Column("TLS protocol", "ssl_protocol"),
    Column("heartbeat", "timeout", duration),
    Column("largest frame", "frame_max", size),
    Column("product", "client_properties.product"),
    Column("version", "client_properties.version"),
    Column("platform", "client_properties.platform"),
)
CHANNELS = (
    Column("channel", "number", count),
    Column("consumers", "consumer_count", count),
    Column("unacked", "messages_unacknowledged", count),
    Column("unconfirmed", "messages_unconfirmed", count),
    Column("prefetch", "prefetch_count", count),
    Column("state", "state"),
)
CONSUMER = (
    Column("consumer", "consumer_tag"),
    Column("user", "channel_details.user"),
    Column("connection", "channel_details.connection_name"),
    Column("acks", "ack_required"),
    Column("prefetch", "prefetch_count", count),
    Column("active", "active"),
)
CONSUMERS = (Column("vhost", "queue.vhost"), Column("queue", "queue.name"), *CONSUMER)


@app.command("list")
@at_broker
def list_connections(
    api: Api,
    vhost: str | None = ANY_VHOST,
    user: str | None = typer.Option(None, "--user", metavar="NAME", help="of this user only"),
    as_json: bool = AS_JSON,
) -> None:
    """List connections."""
    path: tuple[str, ...] = ("connections",)
    if user is not None:
        path = ("connections", "username", user)
    elif vhost or api.vhost:
        path = ("vhosts", vhost or api.vhost or "/", "connections")
    answer = api.get(*path)
    print_list(answer, COLUMNS, "Nobody is connected.", as_json)


@app.command("show")
@at_broker
def show_connection(api: Api, name: str = NAME, as_json: bool = AS_JSON) -> None:
    """Show all about a connection, and its channels."""
    answer = api.get("connections", name)
    if as_json:
        print_json(answer)
        return
    facts(FACTS, answer.value)
    channels = api.get("connections", name, "channels").rows
    if channels:
        say("")
        draw(CHANNELS, channels, "")


@app.command("close")
@at_broker
def close_connection(
    api: Api,
    name: str = NAME,
    reason: str = typer.Option("closed by leveret connections close", "--reason", metavar="TEXT", help="for its log"),
) -> None:
    """Close a connection; a good client opens another."""
    api.delete("connections", name, reason=reason)
    say(f"connection '{name}' closed")


@consumers_app.command("list")
@at_broker
def list_consumers(api: Api, vhost: str | None = ANY_VHOST, as_json: bool = AS_JSON) -> None:
    """List consumers."""
    answer = api.get(*listed_at(api, "consumers", vhost))
    print_list(answer, CONSUMERS, "Nobody consumes.", as_json)


@consumers_app.callback()
def _consumers() -> None:
    """Those who consume from queues."""
