"""How far a query is behind its queues: messages, bytes, and the age of the oldest message that it has not read.

Spark fills `sources[].metrics` and `description` of a progress for JVM sources only: a Python source is a
`PythonMicroBatchStream`, which has no such methods (docs/decisions/0069). So the numbers are taken from the broker, by
the end offsets of the progress. `LeveretListener` does so after each batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from leveret.spark.broker_client import BrokerClient
from leveret.spark.errors import BrokerRefused
from leveret.spark.options import Access, connection_options
from leveret.spark.progress import LeaseOffset, StreamOffset, description_of, offset_of
from leveret.spark.source_lookup import rows_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress

NOT_FOUND = 404
MOST_LOOKED_AT = 20  # queues of one source whose oldest message is looked at
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Behind:
    messages: int
    bytes: int  # estimated from the mean size of the queue's messages
    oldest_seconds: float | None  # None if nothing is left to read, and for classic queues, which show no times


def source_metrics(
    progress: StreamingQueryProgress | str, options: Mapping[str, str] | None = None
) -> list[dict[str, object]]:
    """A dictionary for each source of a progress (or its JSON), with the keys description, messages, bytes and
    oldest_seconds. `options`: the connection options of the source. Sources of other formats are left out."""
    whole = json.loads(str(getattr(progress, "json", progress)))
    access = connection_options(options or {})
    found: list[dict[str, object]] = []
    for source in whole["sources"]:
        offset = offset_of(source)
        state = None if offset is None else behind(access, offset)
        if offset is not None and state is not None:
            found.append({"description": description_of(offset), **asdict(state)})
    return found


def behind(access: Access, offset: LeaseOffset | StreamOffset) -> Behind | None:
    """None if the queues do not exist."""
    try:
        if isinstance(offset, LeaseOffset):
            access = replace(access, vhost=offset.vhost)
        with BrokerClient(access) as client:
            return _behind(client, offset)
    except BrokerRefused as refusal:
        if refusal.status != NOT_FOUND:
            raise
        return None


def _behind(client: BrokerClient, offset: LeaseOffset | StreamOffset) -> Behind:
    queues = offset.leases if isinstance(offset, LeaseOffset) else offset
    rows = rows_of(client.get("sources", [("queue", queue) for queue in queues]), "sources") if queues else []
    messages = size = 0
    unread: list[tuple[str, int]] = []
    for row in rows:
        at = row["first"] if isinstance(offset, LeaseOffset) else max(offset[row["queue"]], row["first"])
        left = row["messages"] if isinstance(offset, LeaseOffset) else max(row["next"] - at, 0)
        messages += left
        size += row["bytes"] * left // max(row["messages"], left, 1)
        unread += [(row["queue"], at)] if left else []
    arrived = [moment for queue, at in unread[:MOST_LOOKED_AT] for moment in _arrival(client, queue, at)]
    oldest = min(arrived, default=None)
    age = None if oldest is None else round(max((datetime.now(UTC) - oldest).total_seconds(), 0.0), 3)
    return Behind(messages, size, age)


def _arrival(client: BrokerClient, queue: str, at: int) -> Iterator[datetime]:
    """When the message at this offset arrived; nothing if it is gone meanwhile."""
    query = {"queue": queue, "columns": "offset,timestamp", "from": at, "to": at + 1, "missing": "skip"}
    for batch in client.arrow("messages", query):
        yield from [moment for moment in batch.column("timestamp").to_pylist() if moment is not None]
