"""HTTP errors: a status, and JSON with an error code and a reason.

An endpoint may raise an HttpError or any other LeveretError. Every other exception is a bug: it is logged with its
traceback, and the client gets status 500 without details.
"""

from __future__ import annotations

from typing import ClassVar

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from leveret.errors import AmqpError, BrokerStopped, LeveretError, StoreError
from leveret.logs import get_log

log = get_log("http")
NOT_FOUND = "Object Not Found"  # RabbitMQ's text, which clients compare; the reason names the object


class HttpError(LeveretError):
    """An error with an HTTP status. ``extra`` is added to the JSON."""

    status: ClassVar[int] = 500
    error: ClassVar[str] = "internal_error"
    headers: ClassVar[dict[str, str]] = {}

    def __init__(self, reason: str, **extra: object) -> None:
        super().__init__(reason)
        self.reason = reason
        self.extra = extra


class BadRequest(HttpError):
    status, error = 400, "bad_request"


class PageOutOfRange(HttpError):
    status, error = 400, "page_out_of_range"


class Unauthorized(HttpError):
    status, error = 401, "not_authorised"
    headers = {"WWW-Authenticate": 'Basic realm="Leveret", charset="UTF-8"'}


class Forbidden(HttpError):
    status, error = 403, "access_refused"


class ObjectNotFound(HttpError):
    status, error = 404, NOT_FOUND


class RequestTimeout(HttpError):
    status, error = 408, "too_slow"
    headers = {"Connection": "close"}


class Conflict(HttpError):
    status, error = 409, "conflict"


class Gone(HttpError):
    status, error = 410, "gone"


class ContentTooLarge(HttpError):
    status, error = 413, "too_large"


class NotAvailable(HttpError):
    """The endpoint needs an extra (of pip) that is not installed."""

    status, error = 501, "not_available"


class Blocked(HttpError):
    """An alarm blocks publishers."""

    status, error = 503, "blocked"
    headers = {"Retry-After": "1"}


class Paused(HttpError):
    """All deliveries are paused."""

    status, error = 503, "paused"
    headers = {"Retry-After": "1"}


class Busy(HttpError):
    """Too many requests of this kind are in progress."""

    status, error = 503, "busy"
    headers = {"Retry-After": "1"}


class Unconfirmed(HttpError):
    """A queue of another cell has not confirmed a message."""

    status, error = 503, "not_confirmed"
    headers = {"Retry-After": "1"}


class ProviderFailed(HttpError):
    """The identity provider of single sign-on does not answer, or not as it should."""

    status, error = 502, "provider_failed"

    def __init__(self, reason: str, **extra: object) -> None:
        super().__init__(f"the identity provider cannot be used: {reason}", **extra)


STATUS_OF_CODE = {403: 403, 404: 404, 405: 409, 406: 409, 506: 503, 530: 403, 320: 503, 541: 500}
"""HTTP status by AMQP reply code; all others are 400."""


def error_response(error: Exception, method: str, path: str) -> Response:
    if isinstance(error, HttpError):
        body = {"error": error.error, "reason": error.reason, **error.extra}
        return JSONResponse(body, error.status, headers=error.headers)
    if isinstance(error, AmqpError):
        status = STATUS_OF_CODE.get(error.code, 400)
        return JSONResponse(
            {"error": NOT_FOUND if status == 404 else error.title.lower(), "reason": error.text}, status
        )
    if isinstance(error, StoreError):
        return JSONResponse({"error": "store_lost", "reason": str(error)}, 503)
    if isinstance(error, BrokerStopped):
        return JSONResponse({"error": "stopping", "reason": str(error)}, 503)
    if isinstance(error, LeveretError):
        return JSONResponse({"error": "bad_request", "reason": str(error)}, 400)
    if isinstance(error, HTTPException):
        return JSONResponse(_routing_error(error, method, path), error.status_code, headers=error.headers)
    log.exception("internal error while handling a request", method=method, path=path)
    return JSONResponse({"error": "internal_error", "reason": "internal error in the broker, see its log"}, 500)


def _routing_error(error: HTTPException, method: str, path: str) -> dict[str, str]:
    if error.status_code == 404:
        return {"error": NOT_FOUND, "reason": f"no such path: {path}; see /api/openapi.json"}
    if error.status_code == 405:
        return {"error": "method_not_allowed", "reason": f"{path} does not support {method}"}
    return {"error": "bad_request", "reason": error.detail}
