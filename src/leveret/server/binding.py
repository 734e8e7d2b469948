"""Taking ports: the listening sockets of one kind of peer, and what is said when a port cannot be had.

A listener with TLS gets a new context while it listens: its sockets are served a second time, under a second
descriptor each, before the first servers close. So nobody who knocks meanwhile is turned away, and whoever is
connected, or shaking hands, stays with the context it met.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from typing import Any

from leveret.errors import ConfigError

BACKLOG = 1024


class Ports:
    """``admit`` makes the protocol object of each new peer."""

    def __init__(self, admit: Callable[[], asyncio.BaseProtocol], handshake_timeout: Callable[[], float]) -> None:
        self._admit = admit
        self._handshake_timeout = handshake_timeout  # seconds for TLS, asked for with each new context
        self._plain: list[asyncio.Server] = []
        self._sealed: list[asyncio.Server] = []  # those with TLS
        self._is_over = False

    async def listen(self, hosts: tuple[str, ...], port: int, flag: str, context: ssl.SSLContext | None) -> int:
        """Bind every host at one port; the port, which is a picked one if 0 was asked for."""
        for host in hosts:
            try:
                server = await self._serve(context, host=host or None, port=port, reuse_address=reuse_address())
            except OSError as problem:
                raise unusable(host, port, flag, problem) from problem
            (self._plain if context is None else self._sealed).append(server)
            port = port or server.sockets[0].getsockname()[1]
        return port

    async def renew(self, context: ssl.SSLContext) -> None:
        """Receive new peers with ``context``."""
        made: list[asyncio.Server] = []
        try:
            for door in [door for server in self._sealed for door in server.sockets]:
                again = socket.fromfd(door.fileno(), door.family, door.type)
                try:
                    made.append(await self._serve(context, sock=again))
                except BaseException:
                    again.close()
                    raise
        except BaseException:
            _close(made)
            raise
        _close(self._sealed)
        self._sealed = made
        if self._is_over:  # closed meanwhile
            _close(made)

    def close(self) -> None:
        self._is_over = True
        _close(self._plain + self._sealed)

    async def _serve(self, context: ssl.SSLContext | None, **where: Any) -> asyncio.Server:
        return await asyncio.get_running_loop().create_server(
            self._admit,
            ssl=context,
            ssl_handshake_timeout=self._handshake_timeout() if context else None,
            backlog=BACKLOG,
            **where,
        )


def _close(servers: list[asyncio.Server]) -> None:
    for server in servers:
        server.close()


def reuse_address() -> bool | None:
    return True if hasattr(socket, "SO_REUSEADDR") and not hasattr(socket, "SO_EXCLUSIVEADDRUSE") else None


def unusable(host: str, port: int, flag: str, problem: OSError) -> ConfigError:
    if problem.errno == errno.EADDRINUSE:
        return ConfigError(f"port {port} on {host} is taken: choose another with {flag}, 0 picks a free one")
    if problem.errno in (errno.EACCES, errno.EPERM):
        return ConfigError(f"port {port} on {host} is not allowed for this user: choose one above 1023 with {flag}")
    return ConfigError(f"cannot listen on {host} port {port}: {problem}; check --host and {flag}")
