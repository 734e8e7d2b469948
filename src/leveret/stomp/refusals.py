"""What a peer did wrong, in the two parts of an ERROR frame: a short name and the whole story."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from leveret.errors import LeveretError

LONGEST_NAME = 255  # bytes, as AMQP has it for names of any kind
NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class StompRefusal(LeveretError):
    """Ends the connection with an ERROR frame; ``more`` are further headers of it.

    ``ending`` is what follows the detail: a line break, except where RabbitMQ has none.
    """

    def __init__(self, message: str, detail: str, more: Mapping[str, str] = NO_HEADERS, *, ending: str = "\n") -> None:
        super().__init__(f"{message}: {detail}")
        self.message = message
        self.detail = detail
        self.more = more
        self.ending = ending


def is_too_long(name: str) -> bool:
    """For any name in AMQP."""
    return len(name) > LONGEST_NAME or len(name.encode()) > LONGEST_NAME


def refuse_long(what: str, name: str) -> None:
    if is_too_long(name):
        raise StompRefusal("Invalid header", f"{what} of more than {LONGEST_NAME} bytes")
