"""The output formats of ``leveret consume``: one readable line, one line of JSON, or the body only."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from leveret.cli.output import encoded_payload
from leveret.cli.tables import name, printable, text
from leveret.client import Delivery
from leveret.wire.properties import LAYOUT, Properties

OFFSET = "x-stream-offset"
MOST_HEX = 64  # bytes of a binary body that are printed unless --hex is given
MOST_TEXT = 1_000  # bytes of a text body that are printed in a terminal
SHORT = MOST_TEXT + 4  # bytes of a body that ``as_short_line`` needs: a character may be cut at the end


class Printed(NamedTuple):
    """A message, delivered or browsed. ``size``: that of the whole body, of which ``body`` may be the beginning."""

    exchange: str
    routing_key: str
    redelivered: bool
    properties: dict[str, Any]
    body: bytes
    size: int


Shown = Callable[[Printed], bytes]


def of_delivery(delivery: Delivery) -> Printed:
    properties = _finite(_given(delivery.properties))
    body = delivery.body
    return Printed(delivery.exchange, delivery.routing_key, delivery.redelivered, properties, body, len(body))


def of_row(row: dict[str, Any]) -> Printed:
    """A row of the HTTP API."""
    payload: str = row["payload"]
    body = payload.encode() if row["payload_encoding"] == "string" else base64.b64decode(payload)
    return Printed(
        row["exchange"], row["routing_key"], row["redelivered"], row["properties"], body, row["payload_bytes"]
    )


def as_line(message: Printed) -> bytes:
    """Exchange, routing key and body; a body that is not UTF-8 is printed in hex, shortened."""
    return _line(message, _readable(message, message.size))


def as_short_line(message: Printed) -> bytes:
    """The same for a terminal: a long text is shortened, too."""
    return _line(message, _readable(message, MOST_TEXT))


def as_hex_line(message: Printed) -> bytes:
    return _line(message, message.body.hex(" "))


def as_raw(message: Printed) -> bytes:
    return message.body + b"\n"


def as_json_line(message: Printed) -> bytes:
    """With the field names of the HTTP API."""
    row = {
        "exchange": message.exchange,
        "routing_key": message.routing_key,
        "redelivered": message.redelivered,
        "properties": message.properties,
        "payload_bytes": message.size,
        **encoded_payload(message.body),
    }
    return json.dumps(row, default=_plain).encode() + b"\n"


def _line(message: Printed, body: str) -> bytes:
    parts = [name(message.exchange), text(message.routing_key), body]
    headers = message.properties.get("headers") or {}
    if OFFSET in headers:
        parts.insert(0, text(headers[OFFSET]))
    if message.redelivered:
        parts.insert(-1, "(redelivered)")
    return ("  ".join(parts) + "\n").encode("utf-8", "backslashreplace")


def _readable(message: Printed, most: int) -> str:
    """At most ``most`` bytes of a text."""
    body = message.body
    try:
        whole = body.decode()
        shown = whole if len(body) <= most else body[:most].decode(errors="ignore")
        is_whole, shown = len(shown) == len(whole), printable(shown)
    except UnicodeDecodeError:
        is_whole, shown = message.size <= MOST_HEX, body[:MOST_HEX].hex(" ")
    return shown if is_whole and len(body) == message.size else f"{shown} ... ({message.size} bytes)"


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
