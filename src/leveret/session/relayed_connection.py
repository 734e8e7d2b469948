"""A connection that another cell serves: this one passes its bytes on, in both directions, and looks at none of them.

It takes the place of the session that handled the login. While one side does not read, the other one is not read
either, so buffers are bounded.
"""

from __future__ import annotations

from typing import Protocol

from leveret.errors import AmqpError
from leveret.session.connection import Connection
from leveret.session.outbox import Outbox
from leveret.wire.grammar import Step

UNSENT = "the home cell does not read"  # reason to pause


class HomeLink(Protocol):
    """The connection to the home cell."""

    def write(self, data: bytes) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def close(self) -> None: ...


class RelayedOutbox(Outbox):
    """Only the state of the socket counts: whether the client reads."""

    __slots__ = ("_link",)

    def __init__(self, session: Connection, link: HomeLink) -> None:
        super().__init__(session.broker, session.peer, session.limits.write_high_watermark, _nothing)
        self._link = link

    def set_writable(self, writable: bool) -> None:
        self.writable = writable
        if writable:
            self._link.resume_reading()
        else:
            self._link.pause_reading()


def _nothing() -> None: ...


class RelayedConnection(Connection):
    """``session``: the one that handled the login. Everything that the client has sent since then is passed on."""

    def __init__(self, session: Connection, link: HomeLink) -> None:
        super().__init__(session.broker, session.peer, session.login, session.limits, session.name)
        self.outbox = RelayedOutbox(session, link)
        self.protocol = session.protocol
        self.step = Step.OPEN
        self._link = link
        session.outbox.flush()
        rest = session.unhandled_input()
        session.lost()
        if rest:
            link.write(rest)

    # ---- from the client

    def receive(self, data: bytes) -> None:
        self._link.write(data)

    def gather(self, size: int) -> None:
        """The home cell counts incomplete frames of STOMP."""

    def lost(self) -> None:
        super().lost()
        self._link.close()

    # ---- from the link

    def pass_back(self, data: bytes) -> None:
        self.peer.write(data)

    def set_link_writable(self, writable: bool) -> None:
        if writable:
            self.resume(UNSENT)
        else:
            self.pause(UNSENT)

    def link_lost(self) -> None:
        self.over()

    # ---- the end

    def force_close(self, reason: str) -> None:
        """The home cell closes it, with its reason: bytes of this cell could get in the middle of a frame."""

    def end_with(self, error: AmqpError) -> None:
        self.over()
