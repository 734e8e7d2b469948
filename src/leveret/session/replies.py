"""The one place where an error becomes a close on the wire."""

from __future__ import annotations

from leveret.errors import AmqpError, InternalFault
from leveret.wire.constants import MAX_SHORT_STRING
from leveret.wire.methods import ChannelClose, ConnectionClose

NO_METHOD = (0, 0)


def channel_close(error: AmqpError, method: tuple[int, int]) -> ChannelClose:
    class_id, method_id = error.method or method
    return ChannelClose(error.code, _fitting(error.reply_text), class_id, method_id)


def connection_close(error: AmqpError, method: tuple[int, int]) -> ConnectionClose:
    class_id, method_id = error.method or method
    return ConnectionClose(error.code, _fitting(error.reply_text), class_id, method_id)


def bug(error: Exception) -> InternalFault:
    """Whatever is not an AmqpError is a bug of ours; the trace is in the log, not on the wire."""
    return InternalFault(f"unexpected {type(error).__name__}; the broker's log has the details")


def _fitting(text: str) -> str:
    """A short string holds 255 bytes; cut long texts at a character."""
    raw = text.encode("utf-8")
    if len(raw) <= MAX_SHORT_STRING:
        return text
    return raw[: MAX_SHORT_STRING - 3].decode("utf-8", "ignore") + "..."
