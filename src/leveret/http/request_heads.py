"""Refuses requests that a proxy may delimit differently than the broker, with 400, before h11 parses them.

h11 is lenient where RFC 9112 allows it: a line may end in LF alone, a field may continue on the next line, and
Transfer-Encoding overrides Content-Length. Where a proxy in front of the broker decides otherwise, a client can hide a
request inside its own (request smuggling, CWE-444). No client in use sends such heads. h11 also limits only heads that
are incomplete, so the size of complete ones is checked here.
"""

from __future__ import annotations

import re

import h11

LARGEST_HEAD = 64 << 10
HEAD_END = re.compile(rb"\n\r?\n")  # the end of a head in h11
FOLDED = re.compile(rb"\n[ \t]")


class StrictConnection(h11.Connection):
    """The server's end of an HTTP connection."""

    def __init__(self, prefix: bytes = b"") -> None:
        """``prefix``: a path that is removed from those that begin with it, as ``/leveret``."""
        super().__init__(h11.SERVER, LARGEST_HEAD)
        self._below = prefix + b"/"

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        if self.their_state is h11.IDLE:
            received = self.trailing_data[0]
            end = HEAD_END.search(received)
            if end is not None:
                refuse_ambiguous(received[: end.end()])
        event = super().next_event()
        if isinstance(event, h11.EndOfMessage) and event.headers:
            raise h11.RemoteProtocolError("trailer fields are not supported")
        if isinstance(event, h11.Request) and len(self._below) > 1 and event.target.startswith(self._below):
            return self._without_prefix(event)
        return event

    def _without_prefix(self, event: h11.Request) -> h11.Request:
        target = event.target[len(self._below) - 1 :]
        return h11.Request(method=event.method, headers=event.headers, target=target, http_version=event.http_version)


def refuse_ambiguous(head: bytes) -> None:
    """Raises h11.RemoteProtocolError."""
    if len(head) > LARGEST_HEAD:
        raise h11.RemoteProtocolError(f"request head larger than {LARGEST_HEAD} bytes", 431)
    lines = head.count(b"\r\n")
    if head.count(b"\n") != lines or head.count(b"\r") != lines:
        raise h11.RemoteProtocolError("line without CRLF")
    if FOLDED.search(head) is not None:
        raise h11.RemoteProtocolError("folded header field")
    fields = head.lower()
    if b"\ntransfer-encoding:" in fields:
        if b"\ncontent-length:" in fields:
            raise h11.RemoteProtocolError("both Content-Length and Transfer-Encoding")
        if head.partition(b"\r\n")[0].endswith(b"HTTP/1.0"):
            raise h11.RemoteProtocolError("Transfer-Encoding in HTTP/1.0")
