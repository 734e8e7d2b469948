"""JSON responses, and responses without a body."""

from __future__ import annotations

import base64
from datetime import datetime
from decimal import Decimal

import msgspec
from starlette.responses import Response

JSON = "application/json"


def encoded(value: object) -> bytes:
    """The value as JSON; also values that occur in the arguments of queues and exchanges."""
    return msgspec.json.encode(value, enc_hook=_plain)


def _plain(value: object) -> object:
    if isinstance(value, memoryview | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | Decimal):
        return str(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} is not JSON serializable")


def json_bytes_response(body: bytes, status: int = 200) -> Response:
    return Response(body, status, media_type=JSON)


def json_response(value: object, status: int = 200) -> Response:
    return json_bytes_response(encoded(value), status)


def put_response(is_new: bool) -> Response:
    """201 for a new object, 204 for an updated one."""
    return Response(status_code=201 if is_new else 204)


def download(body: bytes) -> Response:
    """A body is never shown as a page of this origin, whatever it contains."""
    headers = {"Content-Disposition": "attachment; filename=message", "X-Content-Type-Options": "nosniff"}
    return Response(body, media_type="application/octet-stream", headers=headers)


def no_content() -> Response:
    return Response(status_code=204)
