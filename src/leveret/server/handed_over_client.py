"""A client that has logged in at another cell and is served here: the socket is a link to that cell."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from leveret.auth.users import User
from leveret.server.proxied_transport import ProxiedTransport
from leveret.session.handover import Handover

if TYPE_CHECKING:
    from leveret.server.amqp_protocol import AmqpProtocol


class PeerFacts(NamedTuple):
    """What the cell that accepted a connection knows about it."""

    peer_host: str
    peer_port: int
    host: str
    port: int
    tls: tuple[str, str] | None  # version and cipher
    certificate: dict[str, Any] | None


class RemoteTls(NamedTuple):
    """The part of ``ssl.SSLObject`` that is shown."""

    tls: tuple[str, str]

    def version(self) -> str:
        return self.tls[0]

    def cipher(self) -> tuple[str, str, int]:
        return self.tls[1], self.tls[0], 0


class HandedOverTransport(ProxiedTransport):
    """The link, with the addresses and the TLS of the client."""

    def __init__(self, transport: asyncio.Transport, facts: PeerFacts) -> None:
        super().__init__(transport, facts.peer_host, facts.peer_port)
        tls = None if facts.tls is None else RemoteTls(facts.tls)
        self._facts = {"sockname": (facts.host, facts.port), "ssl_object": tls, "peercert": facts.certificate}

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._facts[name] if name in self._facts else super().get_extra_info(name, default)


class HandedOverClient(asyncio.Protocol):
    """Passes the link to ``protocol`` as the connection of the client, which is logged in."""

    def __init__(self, protocol: AmqpProtocol, facts: PeerFacts, handover: Handover, user: User) -> None:
        self._protocol = protocol
        self._facts = facts
        self._handover, self._user = handover, user

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        plain = cast(asyncio.Transport, transport)  # uvloop's transport does not inherit from it
        protocol = self._protocol
        plain.set_protocol(protocol)
        protocol.connection_made(HandedOverTransport(plain, self._facts))
        if not plain.is_closing():  # else there are too many connections
            protocol.authenticated()
            protocol.session.take_over(self._handover, self._user)
