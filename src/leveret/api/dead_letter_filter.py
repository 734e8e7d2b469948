"""The first dead-lettering of a message, read from its headers, and filters on it.

The queue, reason and exchange have headers of their own (broker/dead_letters.py). The routing key and the time are in
the entries of ``x-death``, the latest of which comes first. The error comes from a header of the consumer that rejected
the message, the task from Celery's header; both are empty if the message has none.

    death.reason=rejected & death.queue=orders & death.exchange=shop & death.routing_key=order.paid
    death.error=out of stock & death.task=shop.pack
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from leveret.api.views.message import plain
from leveret.broker.dead_letters import DEATHS, FIRST_DEATH
from leveret.broker.publish_rules import readable_properties
from leveret.http.errors import BadRequest
from leveret.message import Message
from leveret.wire.fields import FieldValue

QUERY = "death."
TASK = "task"  # Celery's
ERRORS = (
    "x-exception-message",
    "x-exception",
    "exception",
    "x-error",
    "error",
    "x-last-error",
    "x-exception-stacktrace",
)
LONGEST_TEXT = 300  # characters of an error or a task
Headers = Mapping[str, FieldValue]


class FirstDeath(NamedTuple):
    """``died``: time of the latest dead-lettering, in seconds since 1970."""

    reason: str
    queue: str
    exchange: str
    routing_key: str
    error: str
    task: str
    died: int | None


class WantedDeath(NamedTuple):
    """None matches any value."""

    reason: str | None = None
    queue: str | None = None
    exchange: str | None = None
    routing_key: str | None = None
    error: str | None = None
    task: str | None = None

    def is_of(self, message: Message) -> bool:
        death = first_death(headers_of(message))
        if death is None:
            return False
        return all(wanted is None or wanted == told for wanted, told in zip(self, death, strict=False))


def wanted_death(query: Mapping[str, str]) -> WantedDeath | None:
    """None if the query has no such filter."""
    asked = {name.removeprefix(QUERY): text for name, text in query.items() if name.startswith(QUERY)}
    for name in asked:
        if name not in WantedDeath._fields:
            known = ", ".join(QUERY + field for field in WantedDeath._fields)
            raise BadRequest(f"'{QUERY}{name[:80]}' is unknown: use {known}")
    return WantedDeath(**asked) if asked else None


def headers_of(message: Message) -> Headers:
    return readable_properties(message).headers or {}


def first_death(headers: Headers) -> FirstDeath | None:
    """None if the message is not a dead letter."""
    queue, reason, exchange = [headers.get(name) for name in FIRST_DEATH]
    if not isinstance(queue, str) or not isinstance(reason, str):
        return None
    deaths = headers.get(DEATHS)
    entries = [entry for entry in deaths if isinstance(entry, dict)] if isinstance(deaths, list) else []
    of_first = [entry for entry in entries if entry.get("queue") == queue and entry.get("reason") == reason]
    told = (of_first or entries or [{}])[-1]
    keys = told.get("routing-keys")
    key = keys[0] if isinstance(keys, list) and keys else ""
    return FirstDeath(
        reason,
        queue,
        exchange if isinstance(exchange, str) else "",
        key if isinstance(key, str) else "",
        error_in(headers),
        _text(headers.get(TASK)),
        _seconds(entries[0].get("time")) if entries else None,
    )


def error_in(headers: Headers) -> str:
    """The error of the consumer that rejected the message, from one of the headers that clients use for it."""
    return next((text for name in ERRORS if (text := _text(headers.get(name)))), "")


def _text(value: FieldValue) -> str:
    if not isinstance(value, str | bytes):  # a large table is not converted for nothing
        return ""
    text: str = plain(value)
    return text.strip()[:LONGEST_TEXT]


def _seconds(time: FieldValue) -> int | None:
    if isinstance(time, datetime):
        return int(time.timestamp())
    return int(time) if isinstance(time, int) and not isinstance(time, bool) else None
