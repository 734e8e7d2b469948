"""Errors of the client.

LeveretError
├── AmqpError            the broker closed a channel or the connection; ``code`` is its reply code (leveret.errors)
│   └── PeerError        with a code that is not one of ours
└── ClientError
    ├── ConnectionLost   the connection was lost, or could not be opened
    │   └── Interrupted  only inside a recovering connection: the connection is lost and another one follows
    ├── TransactionRolledBack  the connection was lost before the commit: the transaction is rolled back
    ├── Closed           a call on a channel or connection that is closed
    ├── Nacked           the broker rejected a message
    ├── Unroutable       a mandatory message was returned: no queue matched
    ├── Cancelled        the broker cancelled a consumer, for example because its queue was deleted
    └── AddressError     an invalid address; names the invalid part and what is expected
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from leveret import errors
from leveret.errors import AmqpError, LeveretError

if TYPE_CHECKING:
    from leveret.client.messages import Returned

BY_CODE: dict[tuple[int, str], type[AmqpError]] = {
    (kind.code, kind.closes): kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, AmqpError) and kind is not AmqpError
}


class ClientError(LeveretError):
    """Root of the errors of the client."""


class ConnectionLost(ClientError):
    pass


class Interrupted(ConnectionLost):
    pass


class TransactionRolledBack(ClientError):
    pass


class Closed(ClientError):
    pass


class Nacked(ClientError):
    pass


class Unroutable(ClientError):
    def __init__(self, returned: Returned) -> None:
        super().__init__(
            f"message to exchange '{returned.exchange}' with routing key '{returned.routing_key}' cannot be routed: "
            f"{returned.reply_code} {returned.reply_text}; bind a queue, or publish without mandatory"
        )
        self.returned = returned


class Cancelled(ClientError):
    pass


class AddressError(ClientError):
    pass


class PeerError(AmqpError):
    """The broker closed a channel or the connection with an unknown code."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code  # type: ignore[misc]


def error_of_close(code: int, text: str, closes: Literal["channel", "connection"]) -> AmqpError:
    """The error for a close of the broker, with its text but without the title at its beginning."""
    kind = BY_CODE.get((code, closes)) or BY_CODE.get((code, "channel"))
    if kind is None:
        return PeerError(code, text)
    return kind(text.removeprefix(f"{kind.title} - "))
