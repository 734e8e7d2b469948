"""A client of a standby: it waits for a link to the leader, and then both sockets are joined.

    accepted ──(http: request line)──> waits for the leader ──> joined ──> closed
                      └──> answered here, closed

Buffers are bounded: while one side does not read, the other one is not read either. The end of the client's input is
passed on as such. The end of the leader's is the end of the connection: brokers close whole connections.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from leveret.cluster import standby_http
from leveret.server.admission import Admitted

if TYPE_CHECKING:
    from leveret.cluster.relay import Relay

BUFFER = 64 << 10  # bytes that one side has not read before the other one is not read any more; plus one read
CLOSE_SECONDS = 5.0  # for a peer to read the rest


class RelayedClient(asyncio.Protocol):
    """``leader``: the life of the leader that it is connected to, or tries; empty while there is none."""

    def __init__(self, relay: Relay, scheme: str) -> None:
        self.scheme = scheme
        self.address = ("", 0)
        self.leader = ""
        self.attempt: asyncio.Timeout | None = None  # to connect to the leader
        self.admitted: Admitted | None = None
        self._relay = relay
        self._transport: asyncio.Transport | None = None
        self._link: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._early = b""  # sent by the client before there was a link
        self._has_ended = False  # the client's input, before there was a link
        self._loop = asyncio.get_running_loop()

    # ---- for the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)  # uvloop's transport does not inherit from it
        peer = transport.get_extra_info("peername")
        if self.admitted is not None:  # counted since the PROXY header was expected
            self.admitted.close = transport.abort
        elif isinstance(peer, tuple):  # without an address: reset before it was accepted
            self.admitted = self._relay.admission.enter(peer[0], transport.abort)
        if self.admitted is None:
            transport.abort()
            return
        self.address = peer[0], peer[1]
        if not self._relay.enter(self):
            transport.abort()
            return
        transport.set_write_buffer_limits(high=BUFFER)
        self._begin()

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        self._early += data
        self._transport.pause_reading()

    def eof_received(self) -> bool:
        """A client that has sent nothing, such as a probe of the port, is not relayed."""
        self._has_ended = True
        return bool(self._early)

    def connection_lost(self, error: Exception | None) -> None:
        self._relay.leave(self)
        if self.admitted is not None:
            self.admitted.leave()
        if self._connecting is not None:
            self._connecting.cancel()

    # ---- the link

    def _begin(self) -> None:
        self._connecting = self._relay.start(self._connect())

    async def _connect(self) -> None:
        transport = self._transport
        assert transport is not None
        link = await self._relay.open_link(self)
        if link is None:
            self._refuse(transport)
            return
        try:
            await self._loop.create_connection(lambda: LeaderSide(self, transport), sock=link.socket)
        except OSError:  # lost at once
            link.close()
            transport.abort()

    def joined(self, link: asyncio.Transport) -> None:
        """Called by the leader's side, without an await between this and the last byte that came early."""
        assert self._transport is not None
        if self._transport.is_closing():
            link.abort()
            return
        if self.admitted is not None:
            self.admitted.authenticated()  # the leader counts it from here on
        self._link = link
        if self._early:
            link.write(self._early)
            self._early = b""
        if self._has_ended:
            link.write_eof()
        self._transport.set_protocol(ClientSide(self, link))
        self._transport.resume_reading()

    # ---- the end

    def _refuse(self, transport: asyncio.Transport) -> None:
        """There is no leader."""
        transport.abort()

    def leader_has_closed(self) -> None:
        for transport in (self._transport, self._link):
            if transport is not None:
                close_soon(transport)

    def leader_is_gone(self) -> None:
        if self._link is not None:
            self.leader = ""
            self._link.abort()  # closes the client's side, too
        elif self.attempt is not None:
            self.attempt.reschedule(self._loop.time())  # tries the next one

    def abort(self) -> None:
        for transport in (self._transport, self._link):
            if transport is not None:
                transport.abort()


class HttpClient(RelayedClient):
    """The request line decides whether this node answers."""

    def __init__(self, relay: Relay, scheme: str) -> None:
        super().__init__(relay, scheme)
        self._due: asyncio.TimerHandle | None = None  # for the request line; None: the request is relayed

    def data_received(self, data: bytes) -> None:
        if self._due is None:
            super().data_received(data)
            return
        self._early += data
        if standby_http.is_undecided(self._early):
            return
        path = standby_http.own_path(self._early)
        if path is None:
            self._relay_request()
        elif standby_http.is_complete(self._early):
            self._answer(path)
        elif len(self._early) > standby_http.LONGEST_HEAD:
            self.abort()

    def eof_received(self) -> bool:
        if self._due is not None and self._early:
            self._relay_request()  # an incomplete head is the leader's to refuse
        return super().eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        self._forget_deadline()
        super().connection_lost(error)

    def _begin(self) -> None:
        self._due = self._loop.call_later(self._relay.handshake_timeout, self.abort)

    def _forget_deadline(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _relay_request(self) -> None:
        assert self._transport is not None
        self._forget_deadline()
        self._transport.pause_reading()
        super()._begin()

    def _refuse(self, transport: asyncio.Transport) -> None:
        transport.write(standby_http.no_leader(self._early))
        close_soon(transport)

    def _answer(self, path: str) -> None:
        assert self._transport is not None
        self._transport.write(standby_http.response(self._early, path, self._relay.state))
        close_soon(self._transport)


class _Side(asyncio.Protocol):
    """Of two joined sockets: reads from one, writes to ``other``."""

    def __init__(self, owner: RelayedClient, other: asyncio.Transport) -> None:
        self._owner = owner
        self._other = other

    def data_received(self, data: bytes) -> None:
        if not self._other.is_closing():
            self._other.write(data)

    def pause_writing(self) -> None:
        if not self._other.is_closing():
            self._other.pause_reading()

    def resume_writing(self) -> None:
        if not self._other.is_closing():
            self._other.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        close_soon(self._other)


class LeaderSide(_Side):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)
        transport.set_write_buffer_limits(high=BUFFER)
        self._owner.joined(transport)

    def eof_received(self) -> bool:
        self._owner.leader_has_closed()
        return True


class ClientSide(_Side):
    def eof_received(self) -> bool:
        if not self._other.is_closing():
            self._other.write_eof()
        return True

    def connection_lost(self, error: Exception | None) -> None:
        self._owner.connection_lost(error)
        super().connection_lost(error)


def close_soon(transport: asyncio.Transport) -> None:
    """Close it when the peer has read the rest, at the latest after CLOSE_SECONDS."""
    if transport.is_closing():
        return
    is_flushed = not transport.get_write_buffer_size()
    transport.close()
    if not is_flushed:
        asyncio.get_running_loop().call_later(CLOSE_SECONDS, transport.abort)
