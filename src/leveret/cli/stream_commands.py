"""``leveret streams``."""

from __future__ import annotations

from typing import Any

import typer

from leveret.cli.api_client import Api
from leveret.cli.broker_options import ANY_VHOST, AS_JSON, VHOST, at_broker, group, listed_at, vhost_in
from leveret.cli.name_completion import names_of
from leveret.cli.output import print_json, print_line
from leveret.cli.tables import UNKNOWN, Column, count, duration, print_facts, print_table, rate, size

app = group("List and show streams, super streams and sharded queues.")


def share(value: Any) -> str:
    return UNKNOWN if value is None else f"{value:.0%}"


COLUMNS = (
    Column("vhost", "vhost"),
    Column("name", "name"),
    Column("kind", "kind"),
    Column("partitions", "partitions", count),
    Column("messages", "messages", count),
    Column("size", "bytes", size),
    Column("publish", "message_stats.publish_details.rate", rate),
    Column("deliver", "message_stats.deliver_get_details.rate", rate),
    Column("readers", "readers", count),
    Column("lag", "lag", count),
    Column("largest share", "largest_share", share),
)
FACTS = (
    *COLUMNS,
    Column("first offset", "first_offset", count),
    Column("last offset", "last_offset", count),
    Column("segments", "segments", count),
    Column("max age", "retention.max_age", duration),
    Column("max size", "retention.max_bytes", size),
    Column("problem", "problem"),
)
PARTITIONS = (
    Column("partition", "partition", count),
    Column("queue", "name"),
    Column("messages", "messages", count),
    Column("unacked", "messages_unacknowledged", count),
    Column("consumers", "consumers", count),
    Column("publish", "message_stats.publish_details.rate", rate),
    Column("deliver", "message_stats.deliver_get_details.rate", rate),
    Column("lag", "lag", count),
    Column("share", "share", share),
)
READERS = (
    Column("reader", "name"),
    Column("consumer", "consumer_tag"),
    Column("stream", "queue"),
    Column("offset", "offset", count),
    Column("lag", "lag", count),
    Column("connected", "is_live"),
    Column("pinned", "pinned"),
    Column("connection", "channel_details.connection_name"),
)


@app.command("list")
@at_broker
def list_streams(api: Api, vhost: str | None = ANY_VHOST, as_json: bool = AS_JSON) -> None:
    """List streams, super streams and sharded queues."""
    answer = api.get(*listed_at(api, "streams", vhost), query={"sort": "name"})
    if as_json:
        print_json(answer)
    else:
        print_table(COLUMNS, answer.rows, "No streams. To create one: leveret queues create NAME --type stream")


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
    if as_json:
        print_json(answer)
        return
    stream = answer.value
    print_facts(FACTS, stream)
    for columns, rows in ((PARTITIONS, stream.get("partition_details")), (READERS, stream["reader_details"])):
        if rows:
            print_line("")
            print_table(columns, rows, "")
