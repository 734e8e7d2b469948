"""Listening sockets: bind them, admit peers, refuse those that are too many."""

from __future__ import annotations

import asyncio
import socket
import ssl
from dataclasses import replace
from typing import Any

from leveret.broker.broker import Broker
from leveret.logs import get_log
from leveret.server.binding import reuse_address, unusable
from leveret.server.logins import Logins
from leveret.server.pulse import Pulse
from leveret.server.transport import Doorman
from leveret.session.connection import Connection
from leveret.session.limits import Limits

BACKLOG = 1024
SPARE_FILES = 64  # descriptors that connections may not use up: files, the loop, a way in for the operator


class Listener:
    """All AMQP sockets of a node, with and without TLS."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        broker: Broker,
        logins: Logins,
        pulse: Pulse,
        limits: Limits,
        max_connections: int | None,
    ) -> None:
        self.loop = loop
        self.limits = limits
        self._broker = broker
        self._logins = logins
        self._pulse = pulse
        self._most = _most_connections(max_connections)
        self._servers: list[asyncio.Server] = []
        self._sealed: list[asyncio.Server] = []  # those with TLS
        self._is_over = False
        self._log = get_log("listener")
        self._gone = asyncio.Event()

    async def listen(self, hosts: tuple[str, ...], port: int, flag: str, context: ssl.SSLContext | None) -> int:
        """Bind every host at one port; the port, which is a picked one if 0 was asked for."""
        for host in hosts:
            try:
                server = await self._serve(context, host=host or None, port=port, reuse_address=reuse_address())
            except OSError as problem:
                raise unusable(host, port, flag, problem) from problem
            (self._servers if context is None else self._sealed).append(server)
            port = port or server.sockets[0].getsockname()[1]
        return port

    async def _serve(self, context: ssl.SSLContext | None, **where: Any) -> asyncio.Server:
        return await self.loop.create_server(
            lambda: Doorman(self),
            ssl=context,
            ssl_handshake_timeout=self._pulse.handshake_timeout if context else None,
            backlog=BACKLOG,
            **where,
        )

    # ---- what may change while it listens

    def keep_to(self, max_message_bytes: int, max_connections: int | None) -> None:
        """From the next peer on; those who are here stay, with what they were promised."""
        unfinished = most_unfinished(max_message_bytes)
        self.limits = replace(self.limits, max_message_bytes=max_message_bytes, max_partial_bytes=unfinished)
        self._most = _most_connections(max_connections)

    async def renew(self, context: ssl.SSLContext) -> None:
        """Receive new peers with ``context``; who is connected or shaking hands stays as it is.

        The sockets stay too, under a second descriptor each, so nobody who knocks meanwhile is turned away.
        """
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
        if self._is_over:  # the listener was stopped meanwhile
            _close(made)

    # ---- the doormen call

    def admit(self, doorman: Doorman, name: str) -> Connection:
        session = Connection(self._broker, doorman, self._logins.login, self.limits, name)
        if len(self._pulse.doormen) >= self._most:
            self._log.warning("connection refused: too many", connection=name, most=self._most)
            doorman.abort()
            return session
        self._pulse.doormen.add(doorman)
        self._broker.registry.add(session)
        return session

    def dismiss(self, doorman: Doorman, error: Exception | None) -> None:
        self._pulse.doormen.discard(doorman)
        self._broker.registry.note_traffic(doorman.received, doorman.sent)
        self._log.info("connection gone", connection=doorman.session.name, error=error)
        if not self._pulse.doormen:
            self._gone.set()

    # ---- the end

    async def stop(self, seconds: float) -> None:
        """No new peers; those that are here are told, and cut off when their time is up."""
        self._is_over = True
        _close(self._servers + self._sealed)
        self._gone.clear()
        for doorman in list(self._pulse.doormen):
            doorman.session.force_close("broker forced connection closure with reason 'shutdown'")
        self._broker.turn()
        if self._pulse.doormen:
            try:
                await asyncio.wait_for(self._gone.wait(), seconds)
            except TimeoutError:
                self._log.warning("peers cut off at shutdown", number=len(self._pulse.doormen))
        for doorman in list(self._pulse.doormen):
            doorman.abort()
        if self._pulse.doormen:
            self._gone.clear()
            await asyncio.wait_for(self._gone.wait(), 1.0)


def most_unfinished(max_message_bytes: int) -> int:
    """Bytes of messages under way that one connection may have us keep."""
    return max(64 << 20, 2 * max_message_bytes)


def _close(servers: list[asyncio.Server]) -> None:
    for server in servers:
        server.close()


def _most_connections(wanted: int | None) -> int:
    """Not more than there are file descriptors, so that running out of them harms nobody who is connected."""
    most = wanted if wanted is not None else 1 << 20
    try:
        import resource
    except ImportError:
        return most
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files == resource.RLIM_INFINITY:
        return most
    return max(1, min(most, files - SPARE_FILES))
