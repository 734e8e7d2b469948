"""``leveret streams``."""

from __future__ import annotations

from typing import Any

import typer

from leveret.cli.api_client import Api
from leveret.cli.broker_options import ANY_VHOST, AS_JSON, VHOST, at_broker, group, listed_at, vhost_in
from leveret.cli.completing import names_of
from leveret.cli.printing import print_json, say
from leveret.cli.tables import UNKNOWN, Column, count, draw, duration, facts, rate, size

app = group("Streams, super streams and sharded queues.")


def share(value: Any) -> str:
    return UNKNOWN if value is None else f"{value:.0%}"


COLUMNS = (
    Column("vhost", "vhost"),
    Column("name", "name"),
    Column("kind", "kind"),
    Column("partitions", "partitions", count),
    Column("messages", "messages", count),
    Column("size", "bytes", size),
    Column("in", "message_stats.publish_details.rate", rate),
    Column("out", "message_stats.deliver_get_details.rate", rate),
    Column("readers", "readers", count),
    Column("lag", "lag", count),
    Column("largest share", "largest_share", share),
)
FACTS = (
    *COLUMNS,
    Column("first offset", "first_offset", count),
    Column("last offset", "last_offset", count),
    Column("segments", "segments", count),
    Column("kept for", "retention.max_age", duration),
    Column("kept up to", "retention.max_bytes", size),
    Column("problem", "problem"),
)
PARTITIONS = (
    Column("partition", "partition", count),
    Column("queue", "name"),
    Column("messages", "messages", count),
    Column("unacked", "messages_unacknowledged", count),
    Column("consumers", "consumers", count),
    Column("in", "message_stats.publish_details.rate", rate),
    Column("out", "message_stats.deliver_get_details.rate", rate),
    Column("lag", "lag", count),
    Column("share", "share", share),
)
READERS = (
    Column("reader", "name"),
    Column("consumer", "consumer_tag"),
    Column("stream", "queue"),
    Column("offset", "offset", count),
    Column("lag", "lag", count),
    Column("live", "is_live"),
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
        draw(COLUMNS, answer.rows, "No streams. Declare a queue with the argument x-queue-type=stream.")


@app.command("show")
@at_broker
def show_stream(
    api: Api,
    name: str = typer.Argument(
        metavar="NAME", help="of a stream, or of the exchange over several", autocompletion=names_of("streams")
    ),
    vhost: str | None = VHOST,
    as_json: bool = AS_JSON,
) -> None:
    """Show offsets and retention, partitions, and how far each reader is behind."""
    answer = api.get("streams", vhost_in(api, vhost), name)
    if as_json:
        print_json(answer)
        return
    stream = answer.value
    facts(FACTS, stream)
    for columns, rows in ((PARTITIONS, stream.get("partition_details")), (READERS, stream["reader_details"])):
        if rows:
            say("")
            draw(columns, rows, "")
