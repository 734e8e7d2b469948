"""``leveret streams``."""

from __future__ import annotations

from typing import Any

import typer

from leveret.cli.api_client import Api
from leveret.cli.broker_options import AS_JSON, VHOST, at_broker, group, vhost_in
from leveret.cli.name_completion import names_of
from leveret.cli.object_commands import list_command
from leveret.cli.output import print_object
from leveret.cli.tables import RATES, UNKNOWN, Column, columns, count, duration, size

app = group("List and show streams, super streams and sharded queues.")


def share(value: Any) -> str:
    return UNKNOWN if value is None else f"{value:.0%}"


COLUMNS = (
    *columns("vhost", "name", "kind"),
    *columns("partitions", "messages", shown=count),
    Column("size", "bytes", size),
    *RATES,
    *columns("readers", "lag", shown=count),
    Column("largest share", "largest_share", share),
)
FACTS = (
    *COLUMNS,
    *columns("first_offset", "last_offset", "segments", shown=count),
    Column("max age", "retention.max_age", duration),
    Column("max size", "retention.max_bytes", size),
    Column("problem", "problem"),
)
PARTITIONS = (
    Column("partition", "partition", count),
    Column("queue", "name"),
    *columns("messages", shown=count, unacked="messages_unacknowledged", consumers="consumers"),
    *RATES,
    Column("lag", "lag", count),
    Column("share", "share", share),
)
READERS = (
    Column("reader", "name"),
    Column("consumer", "consumer_tag"),
    Column("stream", "queue"),
    *columns("offset", "lag", shown=count),
    Column("connected", "is_live"),
    Column("pinned", "pinned"),
    Column("connection", "channel_details.connection_name"),
)


list_command(
    app,
    "streams",
    COLUMNS,
    help="List streams, super streams and sharded queues.",
    empty="No streams. To create one: leveret queues create NAME --type stream",
    query={"sort": "name"},
)


@app.command("show")
@at_broker
def show_stream(
    api: Api,
    name: str = typer.Argument(
        metavar="NAME", help="Stream, or the exchange of a super stream.", autocompletion=names_of("streams")
    ),
    vhost: str | None = VHOST,
    as_json: bool = AS_JSON,
) -> None:
    """Show the offsets, retention, partitions and readers of a stream."""
    answer = api.get("streams", vhost_in(api, vhost), name)
    print_object(
        answer,
        FACTS,
        as_json,
        lambda row: [(PARTITIONS, row.get("partition_details")), (READERS, row["reader_details"])],
    )
