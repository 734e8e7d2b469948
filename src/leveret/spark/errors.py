"""What can go wrong between Spark and a broker, drawn as one tree.

LeveretError
├── OptionError        an option, or a schema, that cannot be used; raised at the driver before anything runs
├── BrokerRefused      the broker answered, and the answer is no; carries the status and its reason
├── BrokerUnreachable  nobody answered for as long as `retrySeconds` allows
├── DataLoss           messages that the query still needs are gone from the broker
└── Unroutable         messages of a mandatory sink that reached no queue
"""

from __future__ import annotations

from collections.abc import Mapping

from leveret.errors import ConfigError, LeveretError


class OptionError(ConfigError):
    """The text names the option, the value and the remedy."""


class BrokerRefused(LeveretError):
    """An answer other than success, in the broker's own words."""

    def __init__(self, request: str, status: int, answer: Mapping[str, object]) -> None:
        self.status = status
        self.answer = answer
        self.reason = str(answer.get("reason") or answer.get("error") or "no reason given")
        super().__init__(f"{request}: the broker answers {status}: {self.reason}")


class BrokerUnreachable(LeveretError):
    """The text names the endpoints, the last failure and the options that help."""


class DataLoss(LeveretError):
    """The text names the queue, the offsets and the remedy."""


class Unroutable(LeveretError):
    """The text names the exchange, the number of messages and the remedy."""
