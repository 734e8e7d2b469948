"""Errors as channel.close and connection.close."""

from __future__ import annotations

from leveret.errors import AmqpError, InternalFault
from leveret.wire.constants import MAX_SHORT_STRING
from leveret.wire.methods import ChannelClose, ConnectionClose

NO_METHOD = (0, 0)


def channel_close(error: AmqpError, method: tuple[int, int]) -> ChannelClose:
    return ChannelClose(error.code, _fitting(error.reply_text), *(error.method or method))


def connection_close(error: AmqpError, method: tuple[int, int]) -> ConnectionClose:
    return ConnectionClose(error.code, _fitting(error.reply_text), *(error.method or method))


def internal_error(error: Exception) -> InternalFault:
    """Any other exception is an internal error; the traceback is logged, not sent to the client."""
    return InternalFault(f"unexpected {type(error).__name__}; the broker's log has the details")


def _fitting(text: str) -> str:
    """A short string holds 255 bytes; cut long texts at a character."""
    raw = text.encode("utf-8")
    if len(raw) <= MAX_SHORT_STRING:
        return text
    return raw[: MAX_SHORT_STRING - 3].decode("utf-8", "ignore") + "..."
