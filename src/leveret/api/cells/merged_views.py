"""Views that are made of the views of all cells: sums of counters and rates, nodes, dead letters, streams, metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from leveret.api.views.node import mean_times
from leveret.api.views.stream import SUMMED, added
from leveret.http.rows import Row
from leveret.stats.totals import CHURN, MEASURED_COUNTS, MEMORY_KINDS, TRAFFIC_COUNTS

LENGTHS = ("messages", "messages_ready", "messages_unacknowledged")
STATS = ("message_stats", *LENGTHS, *(f"{name}_details" for name in LENGTHS))
OF_TRAFFIC = tuple(each for name in TRAFFIC_COUNTS for each in (name, f"{name}_details"))
OF_OVERVIEW = ("message_stats", "queue_totals", "object_totals", "churn_rates", *OF_TRAFFIC)
ALARMS = ("mem_alarm", "disk_free_alarm")
OF_MEMBER = (
    *("cell", "role", "running", "connected", "epoch", "batch", "lag_records", "lag_bytes", "lag_seconds", "last_seen"),
    "problem",
)
MEASURED = (
    *("mem_used", "fd_used", "sockets_used", "proc_used", *MEASURED_COUNTS, *CHURN),
    *(f"memory_{kind}" for kind in MEMORY_KINDS),
)
OF_PROCESSES = (
    *("mem_limit", "fd_total", "sockets_total", "messages_routing_refused"),
    *(each for name in MEASURED for each in (name, f"{name}_details")),
)
TRACE_SUMS = ("stories", "bytes", "forgotten")  # nodes of 0.2 have these names only


def _summed(rows: Sequence[Row], columns: Sequence[str]) -> Row:
    """The first row, with the sums of these columns over all rows."""
    return rows[0] | added([{name: row[name] for name in columns if name in row} for row in rows])


def merged_overview(rows: Sequence[Row]) -> Row:
    first = rows[0]
    merged = _summed(rows, [name for name in OF_OVERVIEW if name in first])
    merged["object_totals"]["exchanges"] = first["object_totals"]["exchanges"]  # all cells have the same
    for name in ("listeners", "contexts"):
        if name in first:
            listed = [each for row in rows for each in row.get(name, ())]
            merged[name] = [each for place, each in enumerate(listed) if each not in listed[:place]]
    return merged


def merged_vhost(rows: Sequence[Row]) -> Row:
    states = {node: state for row in rows for node, state in row["cluster_state"].items()}
    return _summed(rows, (*STATS, *OF_TRAFFIC)) | {"cluster_state": states}


def merged_exchange(rows: Sequence[Row]) -> Row:
    return _summed(rows, ("message_stats",))


def merged_traces(rows: Sequence[Row]) -> Row:
    merged = _summed(rows, TRACE_SUMS)
    return merged | {"traces": merged["stories"], "discarded": merged["forgotten"]}


def joined(
    lists: Sequence[Sequence[Row]], key: Callable[[Row], Any], merge: Callable[[Sequence[Row]], Row]
) -> list[Row]:
    """One row for each key, in the order of their first appearance."""
    by_key: dict[Any, list[Row]] = {}
    for rows in lists:
        for row in rows:
            by_key.setdefault(key(row), []).append(row)
    return [merge(rows) if len(rows) > 1 else rows[0] for rows in by_key.values()]


def missing_node(name: str, cell: str) -> Row:
    """A node that does not answer, as RabbitMQ lists nodes that are down."""
    facts = {"name": name, "cell": cell, "type": "disc"}
    return facts | {"running": False, "being_drained": False, "partitions": []}


def merged_nodes(rows: Sequence[Row]) -> list[Row]:
    """One row for each node, of its rows in all cells. With cells on one machine, each has a node of its own."""
    by_name: dict[str, list[Row]] = {}
    for row in rows:
        by_name.setdefault(row["name"], []).append(row)
    return [_merged_node(each) if any("role" in row for row in each) else each[0] for each in by_name.values()]


def _merged_node(rows: Sequence[Row]) -> Row:
    """A node of replicated cells: what it does in each of them, and the sums of the processes that lead. Standbys
    report no figures."""
    leading = [row for row in rows if "mem_used" in row]
    merged = _summed(leading, OF_PROCESSES) if leading else dict(next((row for row in rows if row["running"]), rows[0]))
    for alarm in ALARMS if leading else ():
        merged[alarm] = any(row[alarm] for row in leading)
    merged |= mean_times(merged)
    merged["running"] = any(row["running"] for row in rows)
    merged["cells"] = [{name: row.get(name) for name in OF_MEMBER} for row in rows]
    return merged


def merged_dead_letters(views: Sequence[Row]) -> Row:
    examined = sum(view["looked_at"] for view in views)  # nodes of 0.2 have this name only
    queues = sorted((row for view in views for row in view["queues"]), key=lambda row: (row["vhost"], row["name"]))
    return {
        "groups": [group for view in views for group in view["groups"]],
        "queues": queues,
        "examined": examined,
        "looked_at": examined,  # its name up to 0.2
        "is_complete": all(view["is_complete"] for view in views),
    }


# ---- streams


def merged_stream(rows: Sequence[Row]) -> Row:
    """A super stream or a sharded exchange, whose partitions are in several cells; or a stream, which is in one."""
    kinds = [row for row in rows if row["partitions"]] or rows
    merged = dict(kinds[0]) | _summed(rows, (*SUMMED, "partitions", *STATS))
    merged["kind"], merged["state"] = kinds[0]["kind"], _state(rows)
    if "retention" in kinds[0]:
        merged["retention"] = kinds[0]["retention"]
    merged["problem"] = None if any(row["partitions"] for row in rows) else rows[0]["problem"]
    merged["lag"] = max((row["lag"] for row in rows if row["lag"] is not None), default=None)
    merged["largest_share"] = max(
        (share for row in rows if (share := _share(row, row["largest_share"], rows)) is not None), default=None
    )
    if any("partition_details" in row for row in rows):
        merged["partition_details"] = _partitions(rows)
        merged["reader_details"] = [each for row in rows for each in row.get("reader_details", ())]
    return merged


def _state(rows: Sequence[Row]) -> str:
    return "paused" if any(row["state"] == "paused" for row in rows) else "running"


def _published(row: Row) -> int:
    return int(row.get("message_stats", {}).get("publish", 0))


def _share(row: Row, share: float | None, rows: Sequence[Row]) -> float | None:
    """``share`` is one of the messages that were published to the partitions of one row."""
    total = sum(map(_published, rows))
    return None if share is None or not total else share * _published(row) / total


def _partitions(rows: Sequence[Row]) -> list[Row]:
    found = [
        each | {"share": _share(row, each["share"], rows)} for row in rows for each in row.get("partition_details", ())
    ]
    found.sort(key=lambda each: (each["is_draining"], each["name"]))
    return [each | {"partition": place} for place, each in enumerate(found)]


# ---- metrics


def merged_metrics(texts: dict[str, str]) -> bytes:
    """The metrics of all cells, each sample with its cell as a label; help and type once for each name."""
    heads: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for cell, text in texts.items():
        name = ""
        for line in text.splitlines():
            if line.startswith("#"):
                name = line.split(" ", 3)[2]
                known = heads.setdefault(name, [])
                if len(known) < 2:
                    known.append(line)
            else:
                samples.setdefault(name, []).append(_labelled(line, cell))
    lines = [line for name, head in heads.items() for line in (*head, *samples.get(name, ()))]
    return "\n".join([*lines, ""]).encode()


def _labelled(line: str, cell: str) -> str:
    name, brace, rest = line.partition("{")
    if brace:
        return f'{name}{{cell="{cell}",{rest}'
    name, _, value = line.partition(" ")
    return f'{name}{{cell="{cell}"}} {value}'
