"""Rows of messages: their properties, and their bodies as text, JSON or base64."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

import msgspec

from leveret.wire.properties import LAYOUT, Properties

Row = dict[str, Any]

TEXT, BASE64 = "string", "base64"
LARGEST_JSON = 256 << 10  # bytes of a body that is parsed: nested lists take about 100 ms per MiB


def plain(value: object) -> Any:
    """A value of a table for JSON: times in seconds since 1970, bytes as text if they are UTF-8."""
    if isinstance(value, Mapping):
        return {name: plain(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [plain(member) for member in value]
    if isinstance(value, datetime):
        return int(value.timestamp())
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        return data.decode() if _is_text(data) else base64.b64encode(data).decode()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)  # times after year 9999 are a subclass of int
    return value


def properties_row(properties: Properties) -> Row:
    """The properties that are set."""
    values = {name: getattr(properties, name) for _, name, _, _ in LAYOUT}
    return {name: plain(value) for name, value in values.items() if value is not None}


def payload_row(body: bytes, *, as_base64: bool, truncate: int | None) -> Row:
    """As in RabbitMQ: ``payload_bytes`` is the full size, even if the payload is truncated."""
    part = body if truncate is None else body[:truncate]
    if as_base64 or not _is_text(body):
        payload, encoding = base64.b64encode(part).decode(), BASE64
    else:
        payload, encoding = part.decode("utf-8", "ignore"), TEXT  # the last character may be truncated
    return {"payload_bytes": len(body), "payload": payload, "payload_encoding": encoding}


def decoded_row(body: bytes, truncate: int) -> Row:
    """A row with ``payload_format``: json, text or binary. A complete JSON body is included as ``payload_json``.
    A body above LARGEST_JSON is text: parsing it would block the event loop, even in a thread."""
    row = payload_row(body, as_base64=False, truncate=truncate)
    is_whole = len(body) <= truncate
    row["truncated"] = not is_whole
    row["payload_format"] = "binary" if row["payload_encoding"] == BASE64 else "text"
    if row["payload_format"] == "text" and is_whole and len(body) <= LARGEST_JSON and _is_json(body):
        row["payload_format"] = "json"
        row["payload_json"] = msgspec.Raw(body)
    return row


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_json(body: bytes) -> bool:
    """Whether the body is a JSON object or array. A plain number is also JSON, but is usually meant as text."""
    if body.lstrip()[:1] not in (b"{", b"["):
        return False
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
