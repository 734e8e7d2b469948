"""The listening sockets of one protocol, and the errors for a port that cannot be used."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable

from leveret.errors import ConfigError
from leveret.server.acceptor import Acceptor, Admit
from leveret.server.admission import Admission
from leveret.server.proxy_header import TrustedProxies

BACKLOG = 1024


class Ports:
    """``admit`` creates the protocol object of each new connection."""

    def __init__(self, admit: Admit, handshake_timeout: Callable[[], float], admission: Admission) -> None:
        self._admit = admit
        self._handshake_timeout = handshake_timeout  # seconds for a PROXY header and TLS
        self._admission = admission
        self.are_shared = False  # with other processes, over which the system spreads the connections
        self._plain: list[asyncio.Server] = []
        self._acceptors: list[Acceptor] = []  # for TLS and for PROXY headers

    async def listen(
        self,
        hosts: tuple[str, ...],
        port: int,
        setting: str,
        context: ssl.SSLContext | None,
        proxies: TrustedProxies | None = None,
    ) -> int:
        """Bind every host at one port. Returns the port; 0 binds a free one. Connections of ``proxies`` must begin with
        a PROXY header."""
        for host in hosts:
            try:
                sockets = await bound(host, port, self.are_shared)
                if context is None and proxies is None:
                    await self._serve(sockets)
                else:
                    self._acceptors.append(
                        Acceptor(sockets, self._admit, self._handshake_timeout, self._admission, context, proxies)
                    )
            except OSError as problem:
                raise unusable(host, port, setting, problem) from problem
            port = port or int(sockets[0].getsockname()[1])
        return port

    async def _serve(self, sockets: list[socket.socket]) -> None:
        loop = asyncio.get_running_loop()
        for listening in sockets:
            self._plain.append(await loop.create_server(self._admit, sock=listening, backlog=BACKLOG))

    def adopter(self, context: ssl.SSLContext | None) -> Acceptor:
        """Serves connections that other nodes have accepted, as a port with this context would."""
        acceptor = Acceptor([], self._admit, self._handshake_timeout, self._admission, context, None)
        self._acceptors.append(acceptor)
        return acceptor

    async def renew(self, context: ssl.SSLContext) -> None:
        """Use ``context`` for new connections; those that are open or in their handshake stay as they are."""
        for acceptor in self._acceptors:
            acceptor.context = acceptor.context and context

    def close(self) -> None:
        for server in self._plain:
            server.close()
        for acceptor in self._acceptors:
            acceptor.close()

    async def wait_closed(self) -> None:
        """Until the ports are free, after ``close``. Connections may still be open."""
        for acceptor in self._acceptors:
            await acceptor.wait_closed()


async def bound(host: str, port: int, is_shared: bool = False) -> list[socket.socket]:
    """Listening sockets, one for each address that ``host`` resolves to."""
    found = await asyncio.get_running_loop().getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    try:
        for family, address in dict.fromkeys((each[0], each[4]) for each in found):
            sockets.append(socket.create_server(address, family=family, backlog=BACKLOG, reuse_port=is_shared))
    except BaseException:
        for listening in sockets:
            listening.close()
        raise
    return sockets


def unusable(host: str, port: int, setting: str, problem: OSError) -> ConfigError:
    if problem.errno == errno.EADDRINUSE:
        return ConfigError(f"port {port} on {host} is in use: set {setting} to another one; 0 picks a free one")
    if problem.errno in (errno.EACCES, errno.EPERM):
        return ConfigError(f"port {port} on {host} is not allowed for this user: set {setting} to one above 1023")
    return ConfigError(f"cannot listen on {host} port {port}: {problem}; check host and {setting}")
