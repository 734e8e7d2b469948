"""``leveret connections`` and ``leveret consumers``."""

from __future__ import annotations

import typer

from leveret.cli.api_client import Api
from leveret.cli.broker_options import ANY_VHOST, AS_JSON, at_broker, group
from leveret.cli.object_commands import list_command
from leveret.cli.output import print_line, print_list, print_object
from leveret.cli.tables import Column, columns, count, duration, size

app = group("List, show and close client connections.")
consumers_app = group("List consumers.")
channels_app = group("List channels.")

NAME = typer.Argument(metavar="NAME", help="Connection name, see 'leveret connections list'.")
COLUMNS = (
    *columns("name", "vhost", "user", "state"),
    Column("channels", "channels", count),
    *columns(shown=size, received="recv_oct", sent="send_oct"),
    Column("client", "user_provided_name"),
)
FACTS = (
    *COLUMNS,
    Column("protocol", "protocol"),
    Column("SASL mechanism", "auth_mechanism"),
    Column("TLS", "ssl"),
    Column("TLS protocol", "ssl_protocol"),
    Column("heartbeat", "timeout", duration),
    Column("frame max", "frame_max", size),
    *(Column(name, f"client_properties.{name}") for name in ("product", "version", "platform")),
)
CHANNELS = (
    *columns(shown=count, channel="number", consumers="consumer_count", unacked="messages_unacknowledged"),
    *columns(shown=count, unconfirmed="messages_unconfirmed", prefetch="prefetch_count"),
    *columns(shown=count, global_prefetch="global_prefetch_count"),
    *columns("state"),
)
ALL_CHANNELS = (
    Column("name", "name"),
    *columns("vhost", "user"),
    *CHANNELS[1:],
)
CONSUMER = (
    Column("consumer", "consumer_tag"),
    Column("user", "channel_details.user"),
    Column("connection", "channel_details.connection_name"),
    Column("ack required", "ack_required"),
    Column("prefetch", "prefetch_count", count),
    Column("channel prefetch", "channel_prefetch_count", count),
    Column("at limit", "at_prefetch_limit"),
    Column("active", "active"),
)
CONSUMERS = (Column("vhost", "queue.vhost"), Column("queue", "queue.name"), *CONSUMER)


@app.command("list")
@at_broker
def list_connections(
    api: Api,
    vhost: str | None = ANY_VHOST,
    user: str | None = typer.Option(None, "--user", metavar="NAME", help="Only connections of this user."),
    as_json: bool = AS_JSON,
) -> None:
    """List connections."""
    path: tuple[str, ...] = ("connections",)
    if user is not None:
        path = ("connections", "username", user)
    elif vhost or api.vhost:
        path = ("vhosts", vhost or api.vhost or "/", "connections")
    answer = api.get(*path)
    print_list(answer, COLUMNS, "No connections.", as_json)


@app.command("show")
@at_broker
def show_connection(api: Api, name: str = NAME, as_json: bool = AS_JSON) -> None:
    """Show a connection and its channels."""
    answer = api.get("connections", name)
    print_object(answer, FACTS, as_json, lambda row: [(CHANNELS, api.get("connections", name, "channels").rows)])


@app.command("close")
@at_broker
def close_connection(
    api: Api,
    name: str = NAME,
    reason: str = typer.Option(
        "closed by leveret connections close", "--reason", metavar="TEXT", help="Reason sent to the client."
    ),
) -> None:
    """Close a connection; most client libraries reconnect."""
    api.delete("connections", name, reason=reason)
    print_line(f"connection '{name}' closed")


list_command(consumers_app, "consumers", CONSUMERS, help="List consumers.", empty="No consumers.")

list_command(
    channels_app,
    "channels",
    ALL_CHANNELS,
    help="List channels with their consumers and unacknowledged messages.",
    empty="No channels.",
    by_vhost=False,
)


@channels_app.callback()
def _channels() -> None:
    """List channels."""


@consumers_app.callback()
def _consumers() -> None:
    """List consumers."""
