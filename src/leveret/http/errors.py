"""What went wrong, as HTTP says it: a status and JSON with a word and a reason.

A Problem may be raised anywhere below a route; so may any error of the house. Whatever else escapes is a bug: it is
logged with its trace, and the client learns no more than that.
"""

from __future__ import annotations

from typing import ClassVar

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from leveret.errors import AmqpError, BrokerStopped, LeveretError, StoreError
from leveret.logs import get_log

log = get_log("http")
NOT_FOUND = "Object Not Found"  # RabbitMQ's word, which clients compare; the reason says what is missing


class Problem(LeveretError):
    """An error with a status of its own. ``extra`` goes into the JSON beside word and reason."""

    status: ClassVar[int] = 500
    word: ClassVar[str] = "internal_error"
    headers: ClassVar[dict[str, str]] = {}

    def __init__(self, reason: str, **extra: object) -> None:
        super().__init__(reason)
        self.reason = reason
        self.extra = extra


class BadRequest(Problem):
    status, word = 400, "bad_request"


class PageOutOfRange(Problem):
    status, word = 400, "page_out_of_range"


class NotLoggedIn(Problem):
    status, word = 401, "not_authorised"
    headers = {"WWW-Authenticate": 'Basic realm="Leveret", charset="UTF-8"'}


class Refused(Problem):
    status, word = 403, "access_refused"


class NotThere(Problem):
    status, word = 404, NOT_FOUND


class TooSlow(Problem):
    status, word = 408, "too_slow"
    headers = {"Connection": "close"}


class Conflict(Problem):
    status, word = 409, "conflict"


class Gone(Problem):
    status, word = 410, "gone"


class TooLarge(Problem):
    status, word = 413, "too_large"


class NotAvailable(Problem):
    """Something that is to be installed first."""

    status, word = 501, "not_available"


class Blocked(Problem):
    """An alarm: publishers wait."""

    status, word = 503, "blocked"
    headers = {"Retry-After": "1"}


class Busy(Problem):
    """Others came first; in a moment there is room again."""

    status, word = 503, "busy"
    headers = {"Retry-After": "1"}


STATUS_OF_CODE = {403: 403, 404: 404, 405: 409, 406: 409, 506: 503, 530: 403, 320: 503, 541: 500}
"""What a reply code of AMQP means here; all others are the client's wrong input."""


def answer_of(error: Exception, method: str, path: str) -> Response:
    if isinstance(error, Problem):
        told = {"error": error.word, "reason": error.reason, **error.extra}
        return JSONResponse(told, error.status, headers=error.headers)
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
        return JSONResponse(_spoken(error, method, path), error.status_code, headers=error.headers)
    log.exception("internal error while handling a request", method=method, path=path)
    return JSONResponse({"error": "internal_error", "reason": "internal error in the broker, see its log"}, 500)


def _spoken(error: HTTPException, method: str, path: str) -> dict[str, str]:
    if error.status_code == 404:
        return {"error": NOT_FOUND, "reason": f"nothing is at {path}: /api/openapi.json lists what there is"}
    if error.status_code == 405:
        return {"error": "method_not_allowed", "reason": f"{path} does not take {method}"}
    return {"error": "bad_request", "reason": error.detail}
