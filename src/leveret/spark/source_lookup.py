"""Questions about queues to a broker, and the answers as values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from leveret.spark.broker_client import BrokerClient
from leveret.spark.errors import OptionError
from leveret.spark.offsets import Offsets, Source
from leveret.spark.options import Selection

STREAM = "stream"


def sources_of(client: BrokerClient, selection: Selection) -> list[Source]:
    """The queues of a selection, by name."""
    rows = rows_of(client.get("sources", {selection.parameter: selection.value}), "sources")
    found = (
        Source(row["queue"], row["kind"], row["partition"], row["first"], row["next"], row["messages"], row["bytes"])
        for row in rows
    )
    return sorted(found, key=lambda source: source.queue)


def offsets_at(client: BrokerClient, sources: Iterable[Source], option: str, timestamp: int) -> Offsets:
    """Per queue the first offset whose message is not older than the timestamp."""
    sources = list(sources)
    for source in sources:
        if source.kind != STREAM:
            raise OptionError(
                f"option {option} needs stream queues, '{source.queue}' is a {source.kind} queue; "
                "remove it and filter by the column timestamp"
            )
    query = [("queue", source.queue) for source in sources] + [("timestamp", str(timestamp))]
    return {row["queue"]: row["at"] for row in rows_of(client.get("offsets", query), "offsets")}


def rows_of(answer: dict[str, Any], name: str) -> list[dict[str, Any]]:
    rows = answer.get(name)
    return rows if isinstance(rows, list) else []
