"""Headers of SEND become properties of a message, and properties become headers of MESSAGE.

The names are those of RabbitMQ's plugin; ``expires`` (a time), AMQ_SCHEDULED_DELAY and JMSXGroupID are ActiveMQ's. All
other headers become application headers, as text.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal

from leveret.stomp.destinations import REPLY_PREFIX
from leveret.stomp.errors import refuse_long
from leveret.stomp.frame import Frame
from leveret.wire.fields import EPOCH, LAST_SECOND, FarTime, FieldValue, Table
from leveret.wire.properties import Properties

PERSISTENT = 2
TEXTS = {  # header: property
    "content-type": "content_type",
    "content-encoding": "content_encoding",
    "correlation-id": "correlation_id",
    "reply-to": "reply_to",
    "expiration": "expiration",
    "amqp-message-id": "message_id",
    "type": "type",
    "user-id": "user_id",
    "app-id": "app_id",
}
BROKER_HEADERS = frozenset(
    {
        "destination",
        "content-length",
        "receipt",
        "transaction",
        "persistent",
        "priority",
        "timestamp",
        "expires",
        *TEXTS,
    }
)
RESERVED = frozenset({"destination", "content-length", "subscription", "message-id", "ack", "redelivered"})
SCHEDULED_DELAY = "AMQ_SCHEDULED_DELAY"
GROUP = "JMSXGroupID"
MOST_MS = 1 << 53


def properties_of_send(frame: Frame, wall: float) -> Properties:
    """``wall`` is the time, in seconds since 1970."""
    given = frame.headers
    properties = Properties()
    for header, name in TEXTS.items():
        if header in given:
            refuse_long(f"SEND has a {header}", given[header])
            setattr(properties, name, given[header])
    if frame.flag("persistent"):
        properties.delivery_mode = PERSISTENT
    priority = frame.number("priority")
    if priority is not None:
        properties.priority = min(priority, 255)
    seconds = frame.number("timestamp")
    if seconds is not None:
        properties.timestamp = FarTime(seconds) if seconds > LAST_SECOND else datetime.fromtimestamp(seconds, UTC)
    expires = frame.number("expires")
    if expires and properties.expiration is None:
        properties.expiration = str(max(0, expires - int(wall * 1000)))
    headers: Table = {name: value for name, value in given.items() if name not in BROKER_HEADERS}
    for name in headers:
        refuse_long("SEND has a header with a name", name)
    delay = frame.number(SCHEDULED_DELAY)
    if delay:
        headers.setdefault("x-deliver-at", min(int(wall * 1000) + delay, MOST_MS))
    if GROUP in given:
        headers.setdefault("x-group-id", given[GROUP])
    properties.headers = headers or None
    return properties


def headers_of_message(properties: Properties) -> Iterator[tuple[str, str]]:
    """Headers of MESSAGE from properties and application headers; a property wins over a header of the same name."""
    found = dict(_of_properties(properties))
    yield from found.items()
    for name, field in (properties.headers or {}).items():
        text = _text(field)
        if text is not None and name and name not in RESERVED and name not in found:
            yield name, text


def _of_properties(properties: Properties) -> Iterator[tuple[str, str]]:
    for header, name in TEXTS.items():
        value: str | None = getattr(properties, name)
        if value is not None:
            yield header, value if header != "reply-to" else reply_destination(value)
    if properties.delivery_mode == PERSISTENT:
        yield "persistent", "true"
    if properties.priority is not None:
        yield "priority", str(properties.priority)
    if properties.timestamp is not None:
        yield "timestamp", _text(properties.timestamp) or ""


def reply_destination(reply_to: str) -> str:
    """A plain queue name, as AMQP clients write it, becomes a destination to SEND to."""
    return reply_to if reply_to.startswith("/") else REPLY_PREFIX + reply_to


def _text(value: FieldValue) -> str | None:
    """None for values that STOMP cannot express: tables, lists, bytes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return str(int((aware - EPOCH).total_seconds()))
    if isinstance(value, str | int | float | Decimal):
        return str(value)
    return None
