"""The tree of errors that Leveret raises.

    LeveretError
    ├── ConfigError            a setting, file or flag that cannot be used, with the remedy
    ├── BrokerStopped          a call on an embedded broker that is not running
    ├── StoreError             a data directory that cannot be used, with cause and remedy
    ├── ClusterError           a replicated log or its engine that cannot be used, with cause and remedy
    └── AmqpError              carries its own reply code and what it closes
        ├── (closes the channel)
        │   ├── AccessRefused 403      ├── NotFound 404
        │   ├── ResourceLocked 405     └── PreconditionFailed 406
        └── (closes the connection)
            ├── ConnectionForced 320   ├── LoginRefused 403
            ├── FrameError 501         ├── SyntaxFault 502        ├── CommandInvalid 503
            ├── ChannelFault 504       ├── UnexpectedFrame 505    ├── ResourceFault 506
            └── NotAllowed 530         ├── Unsupported 540        └── InternalFault 541

An AmqpError may be raised anywhere; only ``session/replies.py`` turns it into a close on the wire. Any other
exception is a bug: it is logged with its traceback and answered with 541.
"""

from __future__ import annotations

from typing import ClassVar, Literal


class LeveretError(Exception):
    """Base class of all errors of Leveret."""


class ConfigError(LeveretError):
    """A setting that cannot be used. The text names the setting, the value and the remedy."""


class BrokerStopped(LeveretError):
    """A call reached an embedded broker that is not running."""


class StoreError(LeveretError):
    """A data directory that cannot be used as it is. The text names it, the cause and the remedy."""


class DamagedJournal(StoreError):
    """The journal of a member of a cell cannot be read in full. Other members have all of it."""


class ClusterError(LeveretError):
    """A replicated log, or the engine that stores it, cannot be used as it is. The text names cause and remedy."""


class AmqpError(LeveretError):
    """An error with a reply code of AMQP 0-9-1.

    ``method`` is the (class id, method id) that caused it; by default the session fills in the method it is handling.
    """

    code: ClassVar[int]
    title: ClassVar[str]
    closes: ClassVar[Literal["channel", "connection"]]

    def __init__(self, text: str, *, method: tuple[int, int] | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.method = method

    @property
    def reply_text(self) -> str:
        """The text as RabbitMQ words it: ``NOT_FOUND - no queue 'q' in vhost '/'``."""
        return f"{self.title} - {self.text}"


class AccessRefused(AmqpError):
    code, title, closes = 403, "ACCESS_REFUSED", "channel"


class NotFound(AmqpError):
    code, title, closes = 404, "NOT_FOUND", "channel"


class ResourceLocked(AmqpError):
    code, title, closes = 405, "RESOURCE_LOCKED", "channel"


class PreconditionFailed(AmqpError):
    code, title, closes = 406, "PRECONDITION_FAILED", "channel"


class ConnectionForced(AmqpError):
    code, title, closes = 320, "CONNECTION_FORCED", "connection"


class LoginRefused(AmqpError):
    """Wrong credentials; the text does not name the part that is wrong."""

    code, title, closes = 403, "ACCESS_REFUSED", "connection"


class FrameError(AmqpError):
    code, title, closes = 501, "FRAME_ERROR", "connection"


class SyntaxFault(AmqpError):
    code, title, closes = 502, "SYNTAX_ERROR", "connection"


class CommandInvalid(AmqpError):
    code, title, closes = 503, "COMMAND_INVALID", "connection"


class ChannelFault(AmqpError):
    code, title, closes = 504, "CHANNEL_ERROR", "connection"


class UnexpectedFrame(AmqpError):
    code, title, closes = 505, "UNEXPECTED_FRAME", "connection"


class ResourceFault(AmqpError):
    code, title, closes = 506, "RESOURCE_ERROR", "connection"


class NotAllowed(AmqpError):
    code, title, closes = 530, "NOT_ALLOWED", "connection"


class Unsupported(AmqpError):
    code, title, closes = 540, "NOT_IMPLEMENTED", "connection"


class InternalFault(AmqpError):
    code, title, closes = 541, "INTERNAL_ERROR", "connection"


def error_of(code: int, text: str) -> AmqpError:
    """The error that another broker has replied, with its code and text."""
    kinds = (AccessRefused, NotFound, ResourceLocked, PreconditionFailed, NotAllowed, Unsupported, ResourceFault)
    kind = next((each for each in kinds if each.code == code), InternalFault)
    return kind(text.removeprefix(f"{kind.title} - "))
