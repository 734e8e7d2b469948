"""A message that is published over HTTP: its properties and body in JSON, checked field by field."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from leveret.api.views.message import BASE64, TEXT
from leveret.http.amqp_values import short_text_of, table_of
from leveret.http.bodies import LARGEST_BODY, Json, decode_object, has_many_values, refuse_many_values
from leveret.http.errors import BadRequest, ContentTooLarge
from leveret.http.values import integer_of, text_of
from leveret.wire.fields import LAST_SECOND, FarTime
from leveret.wire.properties import Properties

MISSING = msgspec.Raw(b"")
MOST_SECONDS = (1 << 63) - 1
TEXTS = (
    "content_type",
    "content_encoding",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
)


class _Outline(msgspec.Struct):
    """The parts of a publish request as raw JSON. Other fields are skipped without being decoded."""

    routing_key: msgspec.Raw = MISSING
    payload: msgspec.Raw = MISSING
    payload_encoding: msgspec.Raw = MISSING
    properties: msgspec.Raw = MISSING


_outline = msgspec.json.Decoder(_Outline)


def published_object(body: bytes, what: str) -> Json:
    """The JSON object in the body. It is decoded on the event loop, so only the payload may be large: decoding a string
    is fast, a million empty lists take a second."""
    if len(body) <= LARGEST_BODY and not has_many_values(body):
        return decode_object(body, what)
    try:
        outline = _outline.decode(body)
    except msgspec.ValidationError:
        raise BadRequest(f"{what} must be a JSON object") from None
    except (msgspec.DecodeError, ValueError, RecursionError) as problem:
        raise BadRequest(f"{what} is not JSON: {problem}") from None
    parts = {name: bytes(getattr(outline, name)) for name in ("routing_key", "payload_encoding", "properties")}
    if sum(map(len, parts.values())) > LARGEST_BODY:
        raise ContentTooLarge(f"{what} is larger than {LARGEST_BODY} bytes without its payload: send less at once")
    payload = bytes(outline.payload)
    if not payload.startswith(b'"'):
        raise BadRequest("'payload' must be a string")
    small = b",".join(b'"%s":%s' % (name.encode(), part) for name, part in parts.items() if part)
    refuse_many_values(small, f"{what}, without its payload,")
    return {**decode_object(b"{%s}" % small, what), **decode_object(b'{"payload":%s}' % payload, what)}


def body_from(given: Mapping[str, object]) -> bytes:
    payload, encoding = text_in(given, "payload"), text_of(given, "payload_encoding", TEXT)
    if encoding == TEXT:
        return payload.encode()
    if encoding != BASE64:
        raise BadRequest(f"'payload_encoding' must be {TEXT} or {BASE64}, not '{encoding}'")
    try:
        return base64.b64decode(payload, validate=True)
    except (binascii.Error, ValueError) as problem:
        raise BadRequest(f"'payload' is not base64: {problem}") from None


def text_in(given: Mapping[str, object], name: str) -> str:
    """A string that can be encoded; null characters are allowed."""
    value = given.get(name)
    if not isinstance(value, str):
        raise BadRequest(f"'{name}' must be a string, not {'missing' if value is None else type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadRequest(f"'{name}' contains a lone surrogate: send it as {BASE64}") from None
    return value


def properties_from(given: Mapping[str, object]) -> Properties:
    """Unknown names are ignored, as by RabbitMQ; null is the same as a missing value."""
    value = given.get("properties")
    if value is None or value == []:  # sent by languages without empty objects
        value = {}
    if not isinstance(value, dict):
        raise BadRequest(f"'properties' must be an object with names and values: it is a {type(value).__name__}")
    said = {name: each for name, each in value.items() if each is not None}
    properties = Properties()
    for name in TEXTS:
        if name in said:
            setattr(properties, name, short_text_of(said, name))
    if "headers" in said:
        properties.headers = table_of(said, "headers")
    if "delivery_mode" in said:
        properties.delivery_mode = integer_of(said, "delivery_mode", 1, 2)
    if "priority" in said:
        properties.priority = integer_of(said, "priority", 0, 255)
    if "timestamp" in said:
        properties.timestamp = _time(integer_of(said, "timestamp", 0, MOST_SECONDS))
    return properties


def _time(seconds: int) -> datetime | FarTime:
    return FarTime(seconds) if seconds > LAST_SECOND else datetime.fromtimestamp(seconds, UTC)
