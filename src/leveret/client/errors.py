"""What goes wrong for a client.

LeveretError
├── AmqpError            the broker closed a channel or the connection; ``code`` is its reply code (leveret.errors)
│   └── PeerError        with a code that is not one of ours
└── ClientError
    ├── ConnectionLost   the connection ended without a word, or could not be made
    │   └── Interrupted  inside a recovering connection only: the connection is lost and another one follows
    ├── TransactionRolledBack  a commit whose connection was lost: nothing of the transaction counts
    ├── Closed           a call on a channel or connection that is closed
    ├── Nacked           the broker did not take a message
    ├── Unroutable       a mandatory message came back: no queue wanted it
    ├── Cancelled        the broker ended a consumer, for example since its queue is gone
    └── AddressError     an address that cannot be used; says which part, and what is expected
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
    """Root of what only a client runs into."""


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
            f"no queue takes a message for exchange '{returned.exchange}' with key '{returned.routing_key}': "
            f"{returned.reply_code} {returned.reply_text}; bind a queue, or publish without mandatory"
        )
        self.returned = returned


class Cancelled(ClientError):
    pass


class AddressError(ClientError):
    pass


class PeerError(AmqpError):
    """A close with a code of its own."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code  # type: ignore[misc]


def told_by_peer(code: int, text: str, closes: Literal["channel", "connection"]) -> AmqpError:
    """The error that a close stands for. Its text is the peer's, without the title that is in it."""
    kind = BY_CODE.get((code, closes)) or BY_CODE.get((code, "channel"))
    if kind is None:
        return PeerError(code, text)
    return kind(text.removeprefix(f"{kind.title} - "))
