"""Errors between Spark and a broker.

LeveretError
├── OptionError        an invalid option or schema; raised on the driver before the query starts
├── BrokerRefused      the broker refused a request; carries status and reason
├── BrokerUnreachable  no response within `retrySeconds`
├── DataLoss           messages that the query still needs were deleted on the broker
├── OldCheckpoint      the checkpoint is older than what its query has written
└── Unroutable         messages of a mandatory sink that were not routed to a queue
"""

from __future__ import annotations

from collections.abc import Mapping

from leveret.errors import ConfigError, LeveretError


class OptionError(ConfigError):
    """Names the option, the value and the remedy."""


class BrokerRefused(LeveretError):
    """An HTTP response other than success, with the broker's reason."""

    def __init__(self, request: str, status: int, answer: Mapping[str, object]) -> None:
        self.status = status
        self.answer = answer
        self.reason = str(answer.get("reason") or answer.get("error") or "no reason given")
        super().__init__(f"{request}: the broker responded with {status}: {self.reason}")


class BrokerUnreachable(LeveretError):
    """The text names the endpoints, the last failure and the options that help."""


class DataLoss(LeveretError):
    """The text names the queue, the offsets and the remedy."""


class OldCheckpoint(LeveretError):
    """The text names the batch, the last batch and the remedy."""


class Unroutable(LeveretError):
    """The text names the exchange, the number of messages and the remedy."""
