"""The properties of a message that the broker acts on, read without decoding the others.  Hot path.

Most properties mean nothing to a broker (content type, IDs, application headers). ``inspect`` skips them by their
lengths. For unusual or malformed properties it returns None: the message is then decoded in full, which also raises the
error.
"""

from __future__ import annotations

from struct import Struct
from struct import error as struct_error

from leveret.message import NEVER, PERSISTENT_BY_PRIORITY, TRANSIENT_BY_PRIORITY, Traits
from leveret.queues.direct_reply import REPLY_TO
from leveret.wire.fields import encode_short

unpack_length = Struct(">I").unpack_from
DIRECT_REPLY_TO = encode_short(REPLY_TO)
LONGEST_EXPIRATION = 16  # digits


def inspect(flags: int, data: bytes, at: int, end: int, now: float, may_matter: bool = True) -> Traits | None:
    """The traits of the properties in data[at:end]; ``at`` is behind the flags.

    ``may_matter`` is False if the headers cannot contain any that the broker acts on.
    """
    mode = priority = 0
    deadline = NEVER
    try:
        if flags & 0xC000:
            if flags & 0x8000:  # content_type
                at += 1 + data[at]
            if flags & 0x4000:  # content_encoding
                at += 1 + data[at]
        if flags & 0x2000:  # headers: CC and BCC are further keys, x-delay and x-deliver-at delay the message
            start = at + 4
            at = start + unpack_length(data, at)[0]
            if at > end:
                return None
            if may_matter and (data.find(b"CC", start, at) >= 0 or data.find(b"x-del", start, at) >= 0):
                return None
        if flags & 0x1000:  # delivery_mode
            mode = data[at]
            at += 1
        if flags & 0x0F00:
            if flags & 0x0800:  # priority
                priority = data[at]
                at += 1
            if flags & 0x0400:  # correlation_id
                at += 1 + data[at]
            if flags & 0x0200:  # reply_to
                if data.startswith(DIRECT_REPLY_TO, at):
                    return None
                at += 1 + data[at]
            if flags & 0x0100:  # expiration, in milliseconds as text
                start = at + 1
                at = start + data[at]
                text = data[start:at]
                if not text.isdigit() or at - start > LONGEST_EXPIRATION:
                    return None
                deadline = now + int(text) / 1000
        if flags & 0x0080:  # message_id
            at += 1 + data[at]
        if flags & 0x007F:
            if flags & 0x0013:  # user_id must be checked; the other flags do not exist
                return None
            if flags & 0x0040:  # timestamp
                at += 8
            if flags & 0x0020:  # type
                at += 1 + data[at]
            if flags & 0x0008:  # app_id
                at += 1 + data[at]
            if flags & 0x0004:  # cluster_id
                at += 1 + data[at]
    except (IndexError, struct_error):
        return None
    if at != end:
        return None
    if deadline == NEVER:
        return PERSISTENT_BY_PRIORITY[priority] if mode == 2 else TRANSIENT_BY_PRIORITY[priority]
    return Traits(persistent=mode == 2, deadline=deadline, priority=priority)


def reply_to_at(flags: int, data: bytes, at: int) -> int:
    """Where reply_to begins in the properties at ``at``, if they have one. IndexError or struct.error: malformed."""
    if flags & 0x8000:
        at += 1 + data[at]
    if flags & 0x4000:
        at += 1 + data[at]
    if flags & 0x2000:
        at += 4 + int(unpack_length(data, at)[0])
    at += (flags & 0x1000 > 0) + (flags & 0x0800 > 0)  # delivery_mode and priority
    return at + 1 + data[at] if flags & 0x0400 else at
