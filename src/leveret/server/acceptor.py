"""Accepts connections that begin with a PROXY header, a TLS handshake, or both.

Such a connection is counted from the accept on (admission.py): first under its peer address, and once a trusted proxy
has sent the client's address, under that one. The PROXY header comes before the TLS handshake, so the
socket is read here up to the end of the header, and only then passed to the event loop with or without TLS. From then
on the address of the client replaces that of the proxy (proxied_transport.py). The same holds for connections that a
standby of the cell has accepted, whose address it has sent before (cluster/relay.py).

Where proxies are expected, connections from loopback are served without a header unless loopback is listed: they are
made by tools on this machine, such as the health check of the container. Connections from all other addresses that are
not listed are closed.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, cast

from leveret.auth.loopback import is_loopback, proxied
from leveret.server.admission import Admission, Admitted
from leveret.server.proxied_transport import ProxiedTransport
from leveret.server.proxy_header import Address, BadHeader, TrustedProxies, client_of, missing

PAUSE = 1.0  # seconds before the next accept when there are no file descriptors
NO_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


Admit = Callable[[], Any]  # makes a protocol object with an attribute ``admitted``, an Admitted or None


class Acceptor:
    """Has the parts of ``asyncio.Server`` that Ports uses. ``context`` can be replaced."""

    def __init__(
        self,
        sockets: list[socket.socket],
        admit: Admit,
        handshake_timeout: Callable[[], float],
        admission: Admission,
        context: ssl.SSLContext | None,
        proxies: TrustedProxies | None,
    ) -> None:
        self.sockets = sockets
        self.context = context
        self._admit = admit
        self._handshake_timeout = handshake_timeout
        self._admission = admission
        self._proxies = proxies
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        for listening in sockets:
            listening.setblocking(False)
            self._run(self._accept(listening)).add_done_callback(lambda _, each=listening: each.close())  # type: ignore[misc]

    def adopt(self, peer: socket.socket, client: Address) -> None:
        """Serve a connection that another node has accepted for this one. The socket is non-blocking. The address
        counts as that node sent it: loopback, for a client on that machine, is local here too."""
        self._begin(peer, client, client)

    def close(self) -> None:
        """Accept no more connections. Those that are not established yet are closed."""
        for task in self._tasks:
            task.cancel()

    async def wait_closed(self) -> None:
        """Until the ports are free, after ``close``."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                peer, (host, port, *_) = await self._loop.sock_accept(listening)
            except OSError as problem:  # the peer has disconnected already, or there are no descriptors
                await asyncio.sleep(PAUSE if problem.errno in NO_RESOURCES else 0)
                continue
            if self._proxies is None or host in self._proxies or is_loopback(host):
                self._begin(peer, (host, port))
            else:
                self._proxies.report(host, "not a trusted proxy", f"add {host} to trusted_proxies")
                peer.close()

    def _begin(self, peer: socket.socket, address: Address, client: Address | None = None) -> None:
        receiving: asyncio.Task[None] | None = None

        def close() -> None:  # called when the place is needed for another connection
            if receiving is not None:
                receiving.cancel()

        admitted = self._admission.enter(address[0], close)
        if admitted is None:
            peer.close()
            return
        receiving = self._run(self._receive(peer, address, admitted, client))
        receiving.add_done_callback(lambda task: peer.close() if task.cancelled() else None)

    async def _receive(self, peer: socket.socket, address: Address, admitted: Admitted, client: Address | None) -> None:
        """The header and the TLS handshake have one deadline, counted from here."""
        protocol, seconds = self._admit(), self._handshake_timeout()
        protocol.admitted = admitted
        is_served, receiving = False, asyncio.current_task()
        assert receiving is not None
        try:
            async with asyncio.timeout(seconds) as deadline:
                client = client or await self._client(peer, address)
                if client is not None:
                    admitted.move_to(client[0])
                await self._loop.connect_accepted_socket(
                    lambda: AcceptedProtocol(protocol, client, partial(self._establish, receiving, deadline)),
                    peer,
                    ssl=self.context,
                    ssl_handshake_timeout=seconds if self.context else None,
                )
                is_served = True
        except BadHeader as problem:
            assert self._proxies is not None
            remedy = "let the proxy send a PROXY header (HAProxy: send-proxy-v2), or remove it from trusted_proxies"
            self._proxies.report(address[0], str(problem), remedy)
        except OSError:  # disconnected, too slow, or the TLS handshake failed
            pass
        finally:
            if not is_served:
                admitted.leave()
                peer.close()

    def _establish(self, receiving: asyncio.Task[None], deadline: asyncio.Timeout) -> bool:
        """Whether the connection may be passed to its protocol. From then on nothing may cancel the task: uvloop would
        close the connection without calling ``connection_lost``."""
        if receiving.cancelling():
            return False
        self._tasks.discard(receiving)
        deadline.reschedule(None)
        return True

    async def _client(self, peer: socket.socket, address: Address) -> Address | None:
        """The client's address from the PROXY header, which never counts as local; None if the peer is the client
        itself."""
        if self._proxies is None or address[0] not in self._proxies:
            return None
        head = b""
        while (size := missing(head)) > 0:
            data = await self._loop.sock_recv(peer, size)
            if not data:
                raise ConnectionResetError
            head += data
        host, port = client_of(head) or address
        return proxied(host), port


class AcceptedProtocol(asyncio.Protocol):
    """Passes the connection to ``protocol`` if ``establish`` allows it, with the address of ``client`` if given."""

    def __init__(self, protocol: asyncio.BaseProtocol, client: Address | None, establish: Callable[[], bool]) -> None:
        self._protocol = protocol
        self._client = client
        self._establish = establish

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's transport does not inherit from it
        if not self._establish():
            transport.abort()
            return
        transport.set_protocol(self._protocol)
        if self._client is not None:
            transport = ProxiedTransport(transport, *self._client)
        self._protocol.connection_made(transport)
