"""Each error has its status; what is not meant for the client is not in the answer."""

from __future__ import annotations

import json

import pytest

from leveret.errors import (
    AccessRefused,
    BrokerStopped,
    ConfigError,
    FrameError,
    NotFound,
    PreconditionFailed,
    StoreError,
)
from leveret.http.errors import (
    BadRequest,
    Blocked,
    Conflict,
    ContentTooLarge,
    Gone,
    NotAvailable,
    Unauthorized,
    error_response,
)


@pytest.mark.parametrize(
    ("error", "status", "word"),
    [
        (BadRequest("x"), 400, "bad_request"),
        (Unauthorized("x"), 401, "not_authorised"),
        (Conflict("x"), 409, "conflict"),
        (Gone("x"), 410, "gone"),
        (ContentTooLarge("x"), 413, "too_large"),
        (NotAvailable("x"), 501, "not_available"),
        (Blocked("x"), 503, "blocked"),
        (AccessRefused("x"), 403, "access_refused"),
        (NotFound("x"), 404, "Object Not Found"),
        (PreconditionFailed("x"), 409, "precondition_failed"),
        (FrameError("x"), 400, "frame_error"),
        (StoreError("x"), 503, "store_lost"),
        (BrokerStopped("x"), 503, "stopping"),
        (ConfigError("x"), 400, "bad_request"),
    ],
)
def test_the_status_of(error: Exception, status: int, word: str) -> None:
    answer = error_response(error, "GET", "/")
    assert answer.status_code == status
    assert json.loads(bytes(answer.body)) == {"error": word, "reason": "x"}


def test_headers_and_further_facts() -> None:
    assert error_response(Blocked("x"), "GET", "/").headers["retry-after"] == "1"
    assert error_response(Unauthorized("x"), "GET", "/").headers["www-authenticate"].startswith("Basic ")
    assert json.loads(bytes(error_response(Gone("x", first=7), "GET", "/").body))["first"] == 7


def test_a_bug_tells_nothing_of_itself() -> None:
    answer = error_response(RuntimeError("secret"), "GET", "/")
    assert answer.status_code == 500
    assert b"secret" not in bytes(answer.body)
