"""Fields that queues can be sorted by: those of the HTTP API's JSON, with dots for the parts of a path.

The list is complete for Leveret: a field is recognised without any queue, and if it is null in all of them. RabbitMQ's
queues have further ones, which are recognised by the queues themselves.
"""

from __future__ import annotations

from typing import Any

from leveret.cli.api_client import Api, Misuse
from leveret.cli.broker_options import did_you_mean

PLAIN = (
    *("name", "vhost", "type", "durable", "auto_delete", "exclusive", "owner_pid_details", "arguments", "node"),
    *("home", "state", "consumers", "consumers_busy", "exclusive_consumer_tag", "single_active_consumer_tag"),
    *("messages", "messages_ready", "messages_unacknowledged", "messages_delayed", "memory", "message_bytes"),
    *("message_bytes_ready", "message_bytes_unacknowledged", "message_bytes_ram", "message_bytes_paged_out"),
    *("messages_ram", "messages_ready_ram", "messages_unacknowledged_ram", "messages_paged_out", "counters", "policy"),
    *("operator_policy", "effective_policy_definition", "head_message_timestamp", "message_stats", "messages_details"),
    *("messages_ready_details", "messages_unacknowledged_details", "drain_estimate", "idle_since"),
    *("oldest_message_age", "delivery_idle_time"),
)
STATS = ("publish", "deliver", "deliver_no_ack", "get", "get_no_ack", "get_empty", "redeliver", "ack", "deliver_get")
COUNTERS = (
    *("acked", "dead_lettered", "delivered", "delivered_no_ack", "dropped", "duplicates", "expired", "got"),
    *("got_no_ack", "got_nothing", "purged", "received", "redelivered", "refused", "requeued", "timed_out"),
)
FIELDS = frozenset(
    [
        *PLAIN,
        *(f"{name}.rate" for name in PLAIN if name.endswith("_details") and name.startswith("messages")),
        *(f"message_stats.{name}" for name in STATS),
        *(f"message_stats.{name}_details.rate" for name in STATS),
        *(f"counters.{name}" for name in COUNTERS),
    ]
)
FREE = ("arguments.", "effective_policy_definition.", "owner_pid_details.")  # users choose the names in them
LOOKED_AT = 100  # queues of another broker


def refuse_unknown_field(api: Api, field: str, names: set[str]) -> None:
    """``names``: those of columns, for the hint."""
    if field in FIELDS or field.startswith(FREE):
        return
    rows = api.get("queues", query={"page": 1, "page_size": LOOKED_AT}).value["items"]
    if not any(_has(row, field) for row in rows):
        raise Misuse(f"unknown field in --sort {field!r}: {did_you_mean(field, names)}")


def _has(row: Any, path: str) -> bool:
    """Also if it is null."""
    for part in path.split("."):
        if not isinstance(row, dict) or part not in row:
            return False
        row = row[part]
    return True
