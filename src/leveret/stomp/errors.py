"""Errors of STOMP clients, with the two parts of an ERROR frame: a short message and the details."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from leveret.errors import LeveretError

LONGEST_NAME = 255  # bytes: the limit of AMQP for all names
NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class StompError(LeveretError):
    """Closes the connection with an ERROR frame; ``more`` are further headers of it.

    ``ending`` follows the detail: a line break, except where RabbitMQ sends none.
    """

    def __init__(self, message: str, detail: str, more: Mapping[str, str] = NO_HEADERS, *, ending: str = "\n") -> None:
        super().__init__(f"{message}: {detail}")
        self.message = message
        self.detail = detail
        self.more = more
        self.ending = ending


def internal_error(bug: Exception) -> StompError:
    """The traceback is logged, not sent to the client."""
    return StompError("internal_error", f"INTERNAL_ERROR - {type(bug).__name__}")


def is_too_long(name: str) -> bool:
    """Whether AMQP cannot encode this name."""
    return len(name) > LONGEST_NAME or len(name.encode()) > LONGEST_NAME


def refuse_long(what: str, name: str) -> None:
    if is_too_long(name):
        raise StompError("Invalid header", f"{what} of more than {LONGEST_NAME} bytes")
