"""The lines of ``leveret dump``: one JSON object each, with its ``kind``.

JSON has fewer types than AMQP: timestamps become ISO 8601 strings, decimals strings, bytes ``{"base64": "..."}``.
"""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Iterable, Iterator
from dataclasses import fields
from datetime import UTC, datetime
from decimal import Decimal

from leveret.errors import FrameError
from leveret.store.definitions import (
    BindingRow,
    Definitions,
    ExchangeRow,
    ParameterRow,
    QueueRow,
    Row,
    UserRow,
    VhostRow,
)
from leveret.store.inspection import Stored
from leveret.wire.content import body_of, body_size, properties_of
from leveret.wire.fields import decode_table
from leveret.wire.properties import Properties

KINDS = {
    "vhosts": "vhost",
    "users": "user",
    "permissions": "permission",
    "topic_permissions": "topic_permission",
    "exchanges": "exchange",
    "queues": "queue",
    "bindings": "binding",
    "parameters": "parameter",
}
UTF8, BASE64 = "utf-8", "base64"


def definition_lines(definitions: Definitions, queue: str | None, vhost: str | None) -> Iterator[str]:
    """All definitions, or those of one virtual host, or one queue and its bindings."""
    for name, kind in KINDS.items():
        for row in getattr(definitions, name):
            if _is_about(row, queue, vhost):
                yield json.dumps({"kind": kind, **_row_facts(row)})


def _is_about(row: Row, queue: str | None, vhost: str | None) -> bool:
    place = row.name if isinstance(row, VhostRow) else None if isinstance(row, UserRow) else row.vhost
    if vhost not in (None, place):
        return False
    if queue is None:
        return True
    if isinstance(row, BindingRow):
        return row.destination_kind == "queue" and row.destination == queue
    return isinstance(row, QueueRow) and row.name == queue


def _row_facts(row: Row) -> dict[str, object]:
    facts: dict[str, object] = dict(row._asdict())
    if isinstance(row, UserRow):
        facts["has_password"] = facts.pop("password_hash") is not None  # never the hash itself
        facts["tags"] = row.tags.split(",") if row.tags else []
    if isinstance(row, ExchangeRow):
        facts["type"] = facts.pop("kind")
    if isinstance(row, ExchangeRow | QueueRow | BindingRow):
        facts["arguments"] = _plain(_arguments(row.arguments))
    if isinstance(row, ParameterRow):
        facts["value"] = _plain(_value(row.value))
    return facts


def _value(data: bytes) -> object:
    try:
        return json.loads(data)
    except ValueError:
        return data


def _arguments(data: bytes) -> object:
    try:
        return decode_table(data, 0, len(data))[0]
    except FrameError:
        return data


def message_lines(queue: QueueRow, messages: Iterable[Stored], bodies: bool) -> Iterator[str]:
    arguments = _arguments(queue.arguments)
    is_stream = isinstance(arguments, dict) and arguments.get("x-queue-type") == "stream"
    for stored in messages:
        content, address, _ = stored.message
        place = {"offset": stored.sequence - 1} if is_stream else {"sequence": stored.sequence, "lane": stored.lane}
        facts: dict[str, object] = {
            "kind": "message",
            "vhost": queue.vhost,
            "queue": queue.name,
            **place,
            "exchange": address.exchange,
            "routing_key": address.key,
            "properties": _properties(content),
            "tries": stored.tries,
            "redelivered": stored.redelivered,
            "published": _time(stored.published),
            "size": body_size(content),
        }
        if bodies:
            facts |= _body(body_of(content))
        yield json.dumps(facts)


def _properties(content: bytes) -> object:
    try:
        found = properties_of(content)
    except FrameError as problem:  # from the publisher: the broker does not validate properties that it does not use
        return {"unreadable": str(problem)}
    values = {field.name: getattr(found, field.name) for field in fields(Properties)}
    return {name: _plain(value) for name, value in values.items() if value is not None}


def _body(body: bytes) -> dict[str, object]:
    try:
        return {"body": body.decode(), "body_encoding": UTF8}
    except UnicodeDecodeError:
        return {"body": b64encode(body).decode(), "body_encoding": BASE64}


def _time(seconds: float) -> str | None:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return None


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, bytes):
        return {BASE64: b64encode(value).decode()}
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Decimal) or (isinstance(value, float) and not math.isfinite(value)):
        return str(value)
    return value
