"""Clients of a virtual host that is in another cell: they log in here, and are served there (docs/decisions/0062).

    client          this cell                                        home cell
    ... open   ->   verifies the login, the permission
                    link, on the cluster port: who the client is  -> session in the state after the login
                    joins the two sockets                        <-  open-ok, or an error
    bytes     <->   copies                                       <-> session

While the home cell is away, clients wait, up to WAIT_SECONDS, and are then refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import msgspec

from leveret.broker.broker import Broker
from leveret.broker.cells import RelayedClient
from leveret.cluster.link import HANDSHAKE_SECONDS, Frame, Link, LinkLost, LinkRefused, Peer, open_link
from leveret.cluster.relayed_client import close_soon
from leveret.errors import ClusterError, InternalFault
from leveret.logs import LogInterval, get_log
from leveret.server.amqp_protocol import AmqpProtocol
from leveret.server.handed_over_client import PeerFacts
from leveret.session.connection import Connection
from leveret.session.handover import Handover
from leveret.session.relayed_connection import RelayedConnection

if TYPE_CHECKING:
    from leveret.server.listener import Listener

CLIENT = "client"  # the request on the cluster port
WAIT_SECONDS = 10.0  # for a cell that is away
PAUSE = 0.1
BETWEEN_REFUSALS = 5.0  # seconds between two log lines about refused clients
BUFFER = 64 << 10  # bytes that one side has not read before the other one is not read any more; plus one read
Address = tuple[str, int]


class VhostRelay:
    """A broker.cells.ClientRelay. ``address`` returns the cluster port of a cell, if it is known."""

    def __init__(self, peer: Peer, address: Callable[[str], Address | None]) -> None:
        self._peer = peer
        self._address = address
        self._tasks: set[asyncio.Task[None]] = set()
        self._refusals = LogInterval(BETWEEN_REFUSALS)
        self._log = get_log("cells").bind(cell=peer.node)

    def relay(self, client: RelayedClient, cell: str) -> None:
        task = asyncio.create_task(self._relay(cast(Connection, client), cell))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Clients that wait are not served any more."""
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _relay(self, session: Connection, cell: str) -> None:
        handover, protocol = session.handover(), cast(AmqpProtocol, session.peer)
        link = await self._link(session, cell, {"handover": handover, "facts": protocol.facts()})
        if link is None:
            self._refuse(session, handover, cell)
            return
        accepted = link.detach()
        try:
            await asyncio.get_running_loop().create_connection(lambda: HomeSide(session, protocol), sock=accepted)
        except OSError:  # lost at once
            accepted.close()
            protocol.close()

    async def _link(self, session: Connection, cell: str, client: Frame) -> Link | None:
        """None if the cell does not accept the client in time, or if the client has gone."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + WAIT_SECONDS
        while not session.is_over and loop.time() < deadline:
            address = self._address(cell)
            if address is not None:
                try:
                    async with asyncio.timeout_at(deadline):
                        return await self._accepted(address, client)
                except (OSError, LinkLost, LinkRefused) as problem:
                    self._log.debug("client not accepted yet", other=cell, reason=str(problem))
            await asyncio.sleep(PAUSE)
        return None

    async def _accepted(self, address: Address, client: Frame) -> Link:
        link = await open_link(address, self._peer, CLIENT)
        try:
            await link.send(client)
            answer = await link.receive()
            if "error" in answer:
                raise LinkRefused(str(answer["error"]))
        except BaseException:
            link.close()
            raise
        return link

    def _refuse(self, session: Connection, client: Handover, cell: str) -> None:
        if not session.is_over:
            if self._refusals.is_due(asyncio.get_running_loop().time()):
                self._log.warning("clients refused: a cell does not answer", other=cell, vhost=client.vhost)
            refused = (
                f"access to vhost '{client.vhost}' refused for user '{client.user}': vhost '{client.vhost}' is down"
            )
            session.end_with(InternalFault(f"{refused}, its cell {cell} does not answer; try again later"))


class HomeTransport:
    """The link to the home cell, for the session (HomeLink)."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    def pause_reading(self) -> None:
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        close_soon(self._transport)


class HomeSide(asyncio.Protocol):
    """The link to the home cell, joined with the connection of the client."""

    def __init__(self, session: Connection, protocol: AmqpProtocol) -> None:
        self._waiting = session
        self._protocol = protocol
        self._session: RelayedConnection | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        link = cast(asyncio.Transport, transport)  # uvloop's transport does not inherit from it
        if self._waiting.is_over:
            link.abort()
            return
        link.set_write_buffer_limits(high=BUFFER)
        self._waiting.log.info("connection relayed", user=self._waiting.user.name)
        self._session = RelayedConnection(self._waiting, HomeTransport(link))
        self._protocol.relay(self._session)

    def data_received(self, data: bytes) -> None:
        assert self._session is not None
        self._session.pass_back(data)

    def pause_writing(self) -> None:
        if self._session is not None:
            self._session.set_link_writable(False)

    def resume_writing(self) -> None:
        if self._session is not None:
            self._session.set_link_writable(True)

    def connection_lost(self, error: Exception | None) -> None:
        if self._session is not None:
            self._session.link_lost()


class ClientService:
    """The home cell's side, on its cluster port. ``listener``: None until this cell listens for clients."""

    def __init__(self, broker: Broker, listener: Callable[[], Listener | None]) -> None:
        self._broker = broker
        self._listener = listener

    async def serve(self, link: Link, request: Frame) -> None:
        await link.send({})
        async with asyncio.timeout(HANDSHAKE_SECONDS):
            client = await link.receive()
        handover = msgspec.convert(client["handover"], Handover)
        facts = msgspec.convert(client["facts"], PeerFacts)
        listener, user = self._listener(), self._broker.users.get(handover.user)
        vhost = self._broker.vhosts.get(handover.vhost)
        is_home = vhost is not None and vhost.cell == self._broker.cells.name
        if listener is None or user is None or not is_home:  # changes of the first cell arrive later
            raise ClusterError(f"vhost '{handover.vhost}' or user '{handover.user}' is not here")
        await link.send({})
        await listener.take_over(link.detach(), facts, handover, user)
