"""Who comes in over AMQP or STOMP: admitted, or refused because there are too many."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import replace

from leveret.auth.mechanisms import Credentials
from leveret.auth.users import User
from leveret.broker.broker import Broker
from leveret.logs import Occasionally, get_log
from leveret.server.admission import Admission
from leveret.server.binding import Ports
from leveret.server.logins import Logins
from leveret.server.pulse import Pulse
from leveret.server.stomp_doorman import StompDoorman
from leveret.server.transport import Doorman
from leveret.server.trusted_proxies import TrustedProxies
from leveret.session.connection import Connection
from leveret.session.limits import Limits

Proxies = TrustedProxies | None
BETWEEN_REFUSALS = 5.0  # seconds between two log lines about refused connections, however many there are


class Listener:
    """All AMQP and STOMP sockets of a node, with and without TLS."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        broker: Broker,
        logins: Logins,
        pulse: Pulse,
        limits: Limits,
        connection_max: int | None,
        admission: Admission,
    ) -> None:
        self.loop = loop
        self.limits = limits
        self._broker = broker
        self._logins = logins
        self._pulse = pulse
        self.admission = admission
        self._most = connection_max
        self._refusal_line = Occasionally(BETWEEN_REFUSALS)
        self._ports = Ports(lambda: Doorman(self), lambda: pulse.handshake_timeout, admission)
        self._stomp_ports = Ports(lambda: StompDoorman(self), lambda: pulse.handshake_timeout, admission)
        self._log = get_log("listener")
        self._gone = asyncio.Event()

    async def listen(
        self, hosts: tuple[str, ...], port: int, flag: str, context: ssl.SSLContext | None, proxies: Proxies = None
    ) -> int:
        """Bind every host at one port; the port, which is a picked one if 0 was asked for."""
        return await self._ports.listen(hosts, port, flag, context, proxies)

    async def listen_for_stomp(
        self, hosts: tuple[str, ...], port: int, flag: str, context: ssl.SSLContext | None, proxies: Proxies = None
    ) -> int:
        return await self._stomp_ports.listen(hosts, port, flag, context, proxies)

    # ---- what may change while it listens

    def keep_to(self, max_message_size: int, connection_max: int | None) -> None:
        """From the next peer on; those who are here stay, with what they were promised."""
        unfinished = most_unfinished(max_message_size)
        self.limits = replace(self.limits, max_message_size=max_message_size, max_partial_bytes=unfinished)
        self._most = connection_max

    async def renew(self, context: ssl.SSLContext) -> None:
        """Receive new peers with ``context``; who is connected or shaking hands stays as it is."""
        await self._ports.renew(context)

    async def renew_stomp(self, context: ssl.SSLContext) -> None:
        """The same for STOMP."""
        await self._stomp_ports.renew(context)

    # ---- the doormen call

    def admit(self, doorman: Doorman, name: str) -> Connection:
        def login(credentials: Credentials, done: Callable[[User | None], None]) -> None:
            self._logins.login(credentials, doorman, done)

        session = doorman.open_session(self._broker, login, self.limits, name)
        if doorman.admitted is None or (self._most is not None and len(self._pulse.doormen) >= self._most):
            self._log_refusal(name)
            doorman.abort()
            return session
        self._pulse.doormen.add(doorman)
        self._broker.registry.add(session)
        return session

    def _log_refusal(self, name: str) -> None:
        admission = self.admission
        if self._refusal_line.is_due(self.loop.time()):
            self._log.warning(
                "connection refused: too many connections",
                connection=name,
                connections=len(self._pulse.doormen),
                connection_max=self._most,
                sockets=f"{admission.sockets} of {admission.most_sockets}",
                unauthenticated=f"{admission.unauthenticated.taken} of {admission.places}",
            )

    def dismiss(self, doorman: Doorman, error: Exception | None) -> None:
        self._pulse.doormen.discard(doorman)
        self._broker.registry.note_traffic(doorman.received, doorman.sent)
        self._log.info("connection closed", connection=doorman.session.name, error=error)
        if not self._pulse.doormen:
            self._gone.set()

    # ---- the end

    async def stop(self, seconds: float) -> None:
        """No new peers; those that are here are told, and cut off when their time is up."""
        self._ports.close()
        self._stomp_ports.close()
        self._gone.clear()
        for doorman in list(self._pulse.doormen):
            doorman.session.force_close("broker forced connection closure with reason 'shutdown'")
        self._broker.turn()
        if self._pulse.doormen:
            try:
                await asyncio.wait_for(self._gone.wait(), seconds)
            except TimeoutError:
                self._log.warning("connections aborted at shutdown", number=len(self._pulse.doormen))
        for doorman in list(self._pulse.doormen):
            doorman.abort()
        if self._pulse.doormen:
            self._gone.clear()
            await asyncio.wait_for(self._gone.wait(), 1.0)


def most_unfinished(max_message_size: int) -> int:
    """Bytes of messages under way that one connection may have us keep."""
    return max(64 << 20, 2 * max_message_size)
