"""Accepts AMQP and STOMP connections, or refuses them when there are too many."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import replace

from leveret.auth.mechanisms import Credentials
from leveret.auth.users import User
from leveret.broker.broker import Broker
from leveret.logs import LogInterval, get_log
from leveret.server.admission import Admission
from leveret.server.amqp_protocol import AmqpProtocol
from leveret.server.handed_over_client import HandedOverClient, PeerFacts
from leveret.server.logins import Logins
from leveret.server.periodic_checks import PeriodicChecks
from leveret.server.ports import Ports
from leveret.server.stomp_protocol import StompProtocol
from leveret.session.connection import Connection
from leveret.session.handover import Handover
from leveret.session.limits import Limits

BETWEEN_REFUSALS = 5.0  # seconds between two log lines about refused connections, however many there are


class Listener:
    """All AMQP and STOMP sockets of a node, with and without TLS."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        broker: Broker,
        logins: Logins,
        checks: PeriodicChecks,
        limits: Limits,
        connection_max: int | None,
        admission: Admission,
    ) -> None:
        self.loop = loop
        self.limits = limits
        self._broker = broker
        self._logins = logins
        self._checks = checks
        self.admission = admission
        self._most = connection_max
        self._refusal_log = LogInterval(BETWEEN_REFUSALS)
        self.amqp = Ports(lambda: AmqpProtocol(self), lambda: checks.handshake_timeout, admission)
        self.stomp = Ports(lambda: StompProtocol(self), lambda: checks.handshake_timeout, admission)
        self._log = get_log("listener")
        self._all_closed = asyncio.Event()
        self._relayed: set[AmqpProtocol] = set()  # connections that other cells serve, and count

    def set_limits(self, max_message_size: int, connection_max: int | None) -> None:
        """Set the limits of new connections; open ones keep theirs."""
        unfinished = most_unfinished(max_message_size)
        self.limits = replace(self.limits, max_message_size=max_message_size, max_partial_bytes=unfinished)
        self._most = connection_max

    # ---- for the protocols

    def admit(self, protocol: AmqpProtocol, name: str) -> Connection:
        def login(credentials: Credentials, done: Callable[[User | None], None]) -> None:
            self._logins.login(credentials, protocol, done)

        session = protocol.open_session(self._broker, login, self.limits, name)
        if protocol.admitted is None or (self._most is not None and len(self._checks.protocols) >= self._most):
            self._log_refusal(name)
            protocol.abort()
            return session
        self._checks.protocols.add(protocol)
        self._broker.registry.add(session)
        return session

    def _log_refusal(self, name: str) -> None:
        admission = self.admission
        if self._refusal_log.is_due(self.loop.time()):
            self._log.warning(
                "connection refused: too many connections",
                connection=name,
                connections=len(self._checks.protocols),
                connection_max=self._most,
                sockets=f"{admission.sockets} of {admission.most_sockets}",
                unauthenticated=f"{admission.unauthenticated.taken} of {admission.places}",
            )

    def relayed(self, protocol: AmqpProtocol) -> None:
        """Another cell serves the client from now on, and counts its traffic."""
        self._broker.registry.note_traffic(protocol.received, protocol.sent)
        self._checks.protocols.discard(protocol)
        self._relayed.add(protocol)
        self.admission.sockets += 1  # the link

    async def take_over(self, link: socket.socket, facts: PeerFacts, handover: Handover, user: User) -> None:
        """Serve a client that has logged in at another cell. The socket is non-blocking."""
        protocol = StompProtocol(self) if handover.protocol == "stomp" else AmqpProtocol(self)
        client = HandedOverClient(protocol, facts, handover, user)
        await self.loop.connect_accepted_socket(lambda: client, link)

    def closed(self, protocol: AmqpProtocol, error: Exception | None) -> None:
        self._checks.protocols.discard(protocol)
        if protocol in self._relayed:
            self._relayed.remove(protocol)
            self.admission.sockets -= 1
        else:
            self._broker.registry.note_traffic(protocol.received, protocol.sent)
        write = self._log.debug if protocol.session.login_was_refused else self._log.info
        write("connection closed", connection=protocol.session.name, error=error)
        if not self._open():
            self._all_closed.set()

    def _open(self) -> set[AmqpProtocol]:
        return self._checks.protocols | self._relayed

    # ---- the end

    async def stop(self, seconds: float) -> None:
        """Accept no more connections, close the open ones with a reason, and abort those left when the time is up."""
        self.amqp.close()
        self.stomp.close()
        self._all_closed.clear()
        for protocol in self._open():
            protocol.session.force_close("broker forced connection closure with reason 'shutdown'")
        self._broker.tick()
        if self._open():
            try:
                await asyncio.wait_for(self._all_closed.wait(), seconds)
            except TimeoutError:
                self._log.warning("connections aborted at shutdown", number=len(self._open()))
        for protocol in self._open():
            protocol.abort()
        if self._open():
            self._all_closed.clear()
            await asyncio.wait_for(self._all_closed.wait(), 1.0)


def most_unfinished(max_message_size: int) -> int:
    """Bytes of incomplete messages that one connection may have."""
    return max(64 << 20, 2 * max_message_size)
