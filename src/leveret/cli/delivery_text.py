"""One delivered message as the commands show it: a line for people, a line of JSON, or its body byte for byte."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from leveret.cli.tables import name, printable, text
from leveret.wire.methods import BasicDeliver
from leveret.wire.properties import LAYOUT, Properties

OFFSET = "x-stream-offset"


class Delivery(NamedTuple):
    method: BasicDeliver
    properties: Properties
    body: bytes


Shown = Callable[[Delivery], bytes]


def as_line(delivery: Delivery, in_hex: bool = False) -> bytes:
    """Exchange, routing key and body; what cannot be read as text is shown by its bytes."""
    method = delivery.method
    parts = [name(method.exchange), text(method.routing_key), _readable(delivery.body, in_hex)]
    headers = delivery.properties.headers or {}
    if OFFSET in headers:
        parts.insert(0, text(headers[OFFSET]))
    if method.redelivered:
        parts.insert(-1, "(again)")
    return ("  ".join(parts) + "\n").encode("utf-8", "backslashreplace")


def as_hex_line(delivery: Delivery) -> bytes:
    return as_line(delivery, in_hex=True)


def as_raw(delivery: Delivery) -> bytes:
    return delivery.body + b"\n"


def as_json_line(delivery: Delivery) -> bytes:
    """With the names that the HTTP API has for them."""
    method, body = delivery.method, delivery.body
    try:
        payload, encoding = body.decode(), "string"
    except UnicodeDecodeError:
        payload, encoding = base64.b64encode(body).decode(), "base64"
    row = {
        "exchange": method.exchange,
        "routing_key": method.routing_key,
        "redelivered": method.redelivered,
        "properties": _finite(_given(delivery.properties)),
        "payload_bytes": len(body),
        "payload": payload,
        "payload_encoding": encoding,
    }
    return json.dumps(row, default=_plain).encode() + b"\n"


def _readable(body: bytes, in_hex: bool) -> str:
    if not in_hex:
        try:
            return printable(body.decode())
        except UnicodeDecodeError:
            pass
    return body.hex(" ")


def _given(properties: Properties) -> dict[str, Any]:
    values = {field: getattr(properties, field) for _, field, _, _ in LAYOUT}
    return {field: value for field, value in values.items() if value is not None}


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: they become texts."""
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _plain(value: object) -> str:
    """What a header may hold and JSON has no word for."""
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    return str(value)
