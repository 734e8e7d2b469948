"""Requests for the queues and offsets of a broker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from leveret.spark.broker_client import BrokerClient
from leveret.spark.errors import OptionError
from leveret.spark.offsets import Offsets, Source, placed, sorted_by_queue, wanted_offset, wanted_time
from leveret.spark.options import Home, Position, Selection, endpoint_of

STREAM = "stream"


def sources_of(client: BrokerClient, selection: Selection) -> list[Source]:
    """The queues of a selection, sorted by name."""
    rows = rows_of(client.get("sources", {selection.parameter: selection.value}), "sources")
    return sorted((_source_of(row) for row in rows), key=lambda source: source.queue)


def _source_of(row: dict[str, Any]) -> Source:
    home = Home(endpoint_of(row["endpoint"]), row["cell"]) if "endpoint" in row else None
    sizes = row["first"], row["next"], row["messages"], row["bytes"]
    return Source(row["queue"], row["kind"], row["partition"], *sizes, home)


def offsets_at(client: BrokerClient, sources: Iterable[Source], option: str, timestamp: int) -> Offsets:
    """The offset of the first message of each queue that arrived at or after this time, in milliseconds since 1970."""
    sources = list(sources)
    for source in sources:
        if source.kind != STREAM:
            raise OptionError(
                f"option {option} needs stream queues, '{source.queue}' is a {source.kind} queue; "
                "remove it and filter by the column timestamp"
            )
    query = [("queue", source.queue) for source in sources] + [("timestamp", str(timestamp))]
    return {row["queue"]: row["at"] for row in rows_of(client.get("offsets", query), "offsets")}


def resolved(
    client: BrokerClient, sources: Iterable[Source], position: Position, *, fail_on_data_loss: bool
) -> Offsets:
    """The offset of each queue at a position, which may have others as well (`refuse_strangers`). Offsets of classic
    queues may no longer exist."""
    sources = list(sources)
    if position.timestamp is not None or position.timestamps is not None:
        times: dict[int, list[Source]] = {}
        for source in sources:
            times.setdefault(wanted_time(source, position), []).append(source)
        found = [offsets_at(client, some, position.option, time) for time, some in times.items()]
        return sorted_by_queue({queue: offset for each in found for queue, offset in each.items()})
    return {
        source.queue: placed(
            source,
            wanted_offset(source, position),
            position.option,
            lossy=source.kind != STREAM or not fail_on_data_loss,
        )
        for source in sources
    }


def rows_of(answer: dict[str, Any], name: str) -> list[dict[str, Any]]:
    rows = answer.get(name)
    return rows if isinstance(rows, list) else []
