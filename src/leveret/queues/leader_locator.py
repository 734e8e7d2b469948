"""The argument x-queue-leader-locator: with several cells, the choice of the cell of a new queue.

RabbitMQ's old names are accepted with the meaning that RabbitMQ gives them today. The argument has an effect only when
the queue is declared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leveret.queues.argument_kinds import Arguments, one_of

LEADER_LOCATOR = "x-queue-leader-locator"
BALANCED, CLIENT_LOCAL = "balanced", "client-local"
LOCATORS = {
    CLIENT_LOCAL: CLIENT_LOCAL,
    BALANCED: BALANCED,
    "random": BALANCED,
    "least-leaders": BALANCED,
    "min-masters": BALANCED,
}


def leader_locator(arguments: Arguments) -> str | None:
    """balanced, client-local, or None without the argument."""
    value = one_of(arguments, LEADER_LOCATOR, tuple(LOCATORS))
    return None if value is None else LOCATORS[value]


def without_unknown(values: Mapping[str, Any], name: str = LEADER_LOCATOR) -> dict[str, Any]:
    """The stored arguments or policy without a locator that is not accepted: 0.1.0 stored any value, without effect."""
    return {key: value for key, value in values.items() if key != name or value in (None, *LOCATORS)}
