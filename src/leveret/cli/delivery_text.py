"""The output formats of ``leveret consume``: one readable line, one line of JSON, or the body only."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from typing import Any

from leveret.cli.output import encoded_payload
from leveret.cli.tables import name, printable, text
from leveret.client import Delivery
from leveret.wire.properties import LAYOUT, Properties

OFFSET = "x-stream-offset"
MOST_HEX = 64  # bytes of a binary body that are printed unless --hex is given


Shown = Callable[[Delivery], bytes]


def as_line(delivery: Delivery, in_hex: bool = False) -> bytes:
    """Exchange, routing key and body; a body that is not UTF-8 is printed in hex, shortened."""
    parts = [name(delivery.exchange), text(delivery.routing_key), _readable(delivery.body, in_hex)]
    if OFFSET in delivery.headers:
        parts.insert(0, text(delivery.headers[OFFSET]))
    if delivery.redelivered:
        parts.insert(-1, "(redelivered)")
    return ("  ".join(parts) + "\n").encode("utf-8", "backslashreplace")


def as_hex_line(delivery: Delivery) -> bytes:
    return as_line(delivery, in_hex=True)


def as_raw(delivery: Delivery) -> bytes:
    return delivery.body + b"\n"


def as_json_line(delivery: Delivery) -> bytes:
    """With the field names of the HTTP API."""
    row = {
        "exchange": delivery.exchange,
        "routing_key": delivery.routing_key,
        "redelivered": delivery.redelivered,
        "properties": _finite(_given(delivery.properties)),
        "payload_bytes": len(delivery.body),
        **encoded_payload(delivery.body),
    }
    return json.dumps(row, default=_plain).encode() + b"\n"


def _readable(body: bytes, in_hex: bool) -> str:
    if not in_hex:
        try:
            return printable(body.decode())
        except UnicodeDecodeError:
            if len(body) > MOST_HEX:
                return f"{body[:MOST_HEX].hex(' ')} ... ({len(body)} bytes)"
    return body.hex(" ")


def _given(properties: Properties) -> dict[str, Any]:
    values = {field: getattr(properties, field) for _, field, _, _ in LAYOUT}
    return {field: value for field, value in values.items() if value is not None}


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: they become strings."""
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _plain(value: object) -> str:
    """Header values of types that JSON does not have."""
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    return str(value)
