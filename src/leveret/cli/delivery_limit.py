"""The delivery limit of a queue: a message that is requeued more often is dead-lettered or dropped.

It matters for commands that requeue what they consumed, since each of them counts as a delivery.
"""

from __future__ import annotations

import sys

from leveret.cli.api_client import Row

QUEUE_COLUMNS = "type,arguments,effective_policy_definition"
KEYS = ("delivery-limit", "max-redeliveries")
RETRIES = ("x-retry-delay-min", "x-delayed-retry-type")  # without a limit of their own
OF_QUORUM_QUEUES = 20  # by default, as in RabbitMQ 4


def delivery_limit(queue: Row) -> int | None:
    """``queue``: a row of the API with QUEUE_COLUMNS. None: no limit."""
    arguments, policy = queue.get("arguments") or {}, queue.get("effective_policy_definition") or {}
    given = [arguments.get(f"x-{key}", policy.get(key)) for key in KEYS]
    limits = [limit for limit in given if isinstance(limit, int)]
    if limits:
        return None if min(limits) < 0 else min(limits)
    has_default = queue.get("type") == "quorum" or any(key in arguments for key in RETRIES)
    return OF_QUORUM_QUEUES if has_default else None


def warn_of_limit(queue: str, limit: int | None) -> None:
    if limit is not None:
        sys.stderr.write(
            f"Queue '{queue}' has a delivery limit of {limit}: messages that were delivered more often are "
            "dead-lettered or dropped when they are requeued.\n"
        )
