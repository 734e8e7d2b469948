"""Answers in JSON, and those that have nothing to say."""

from __future__ import annotations

import base64
from datetime import datetime
from decimal import Decimal

import msgspec
from starlette.responses import Response

JSON = "application/json"


def encoded(value: object) -> bytes:
    """JSON of plain values, and of what can stand in the arguments of a queue."""
    return msgspec.json.encode(value, enc_hook=_plain)


def _plain(value: object) -> object:
    if isinstance(value, memoryview | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | Decimal):
        return str(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError(f"no JSON for {type(value).__name__}")


def json_bytes(body: bytes, status: int = 200) -> Response:
    return Response(body, status, media_type=JSON)


def json_answer(value: object, status: int = 200) -> Response:
    return json_bytes(encoded(value), status)


def made(is_new: bool) -> Response:
    """What a PUT says: 201 if there was nothing before, 204 if there was."""
    return Response(status_code=201 if is_new else 204)


def done() -> Response:
    return Response(status_code=204)
