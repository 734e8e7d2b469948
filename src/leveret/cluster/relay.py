"""The client ports of a standby: connections are passed on to the leader, whatever their protocol.

A standby copies bytes in both directions and looks at none of them: TLS ends at the leader. Two things happen here
first: a PROXY header is read where one is expected (server/acceptor.py), and a few HTTP requests are answered
(standby_http.py). The link to the leader begins with the address of the client, which counts there as the peer.

A client that connects while there is no leader waits for one, up to WAIT_SECONDS. When the leader changes, or is found
dead, the connections to it are closed, and clients connect again as they do after any loss.

Each connection takes two file descriptors. Those that wait for a leader have the places of unauthenticated connections
(server/admission.py); the leader counts them as well, by the same addresses.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from leveret.cluster.lease import LeaseHolder
from leveret.cluster.link import Frame, Link, LinkLost, LinkRefused, Peer, open_link
from leveret.cluster.relayed_client import HttpClient, RelayedClient
from leveret.cluster.standby_http import StandbyState
from leveret.config import Settings
from leveret.logs import LogInterval, get_log
from leveret.machine import usable_memory
from leveret.server.admission import Admission, most_connections
from leveret.server.ports import Ports
from leveret.server.proxy_header import Address, TrustedProxies

RELAY = "relay"
WAIT_SECONDS = 10.0  # for a leader
PAUSE = 0.1
READS = 4  # how much more than UNAUTHENTICATED_BYTES one read may return
BETWEEN_REFUSALS = 5.0  # seconds between two log lines about refused connections
COUNTED = ("amqp", "amqps", "stomp", "stomps")  # by connection_max
Adopt = Callable[[socket.socket, Address], None]


class Relay:
    """``leader`` returns the present one, ``leader_change`` waits until it may be another one. ``why_not_ready``: the
    reason that the readiness check gives, empty if this node is ready. With ``shares_ports``, members of other cells
    listen on the same ports, except those for HTTP."""

    def __init__(
        self,
        peer: Peer,
        settings: Settings,
        leader: Callable[[], LeaseHolder | None],
        leader_change: Callable[[], Awaitable[None]],
        why_not_ready: Callable[[], str],
        shares_ports: bool = False,
    ) -> None:
        memory = settings.memory_high_watermark.of(usable_memory()) // READS  # what a waiting client has sent is kept
        self.admission = Admission(memory, most_connections() // 2)
        self.clients: set[RelayedClient] = set()
        self.apply(settings)
        self._counted = 0
        self._peer = peer
        self._shares_ports = shares_ports
        self._settings = settings
        self._leader = leader
        self._leader_change = leader_change
        self._has_leader = asyncio.Event()
        self._why_not_ready = why_not_ready
        self._ports: dict[str, Ports] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._watching: asyncio.Task[None] | None = None
        self._refusals = LogInterval(BETWEEN_REFUSALS)
        self._log = get_log("relay").bind(cell=peer.cell)

    # ---- ports

    async def listen(self, ports: Mapping[str, int]) -> dict[str, int]:
        """Open the ports that are not open yet, by scheme. Returns the ports, with free ones in place of 0."""
        bound = dict(ports)
        for scheme, port in ports.items():
            if scheme not in self._ports:
                bound[scheme] = await self._open(scheme, port)
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch_leader())
        return bound

    async def _open(self, scheme: str, port: int) -> int:
        settings, loop = self._settings, asyncio.get_running_loop()
        kind = HttpClient if scheme == "http" else RelayedClient
        proxies = TrustedProxies(settings.trusted_proxies, loop.time) if scheme in settings.proxy_protocol else None
        ports = Ports(lambda: kind(self, scheme), lambda: self.handshake_timeout, self.admission)
        ports.are_shared = self._shares_ports and scheme in COUNTED
        try:
            port = await ports.listen(settings.host, port, f"{scheme}_port", None, proxies)
        except BaseException:
            ports.close()
            raise
        self._ports[scheme] = ports
        return port

    async def close_port(self, scheme: str) -> None:
        """Accept no more clients there: this node leads. Those that wait for a leader are passed on to it."""
        ports = self._ports.pop(scheme, None)
        if ports is not None:
            ports.close()
            await ports.wait_closed()

    async def close_ports(self) -> None:
        for scheme in list(self._ports):
            await self.close_port(scheme)

    async def close(self) -> None:
        await self.close_ports()
        if self._watching is not None:
            self._watching.cancel()
        for client in list(self.clients):
            client.abort()
        while self._tasks:
            await asyncio.wait(self._tasks)

    def apply(self, settings: Settings) -> None:
        """The settings that may change at runtime, for new connections."""
        self.handshake_timeout = settings.handshake_timeout
        self._connection_max = settings.connection_max

    # ---- for the protocols

    @property
    def state(self) -> StandbyState:
        return StandbyState(self._why_not_ready(), sum(bool(client.leader) for client in self.clients))

    def enter(self, client: RelayedClient) -> bool:
        """Whether there is room for one more."""
        is_counted = client.scheme in COUNTED
        if is_counted and self._connection_max is not None and self._counted >= self._connection_max:
            if self._refusals.is_due(asyncio.get_running_loop().time()):
                most = self._connection_max
                self._log.warning(
                    "connection refused: too many connections", client=client.address, connection_max=most
                )
            return False
        self._counted += is_counted
        self.clients.add(client)
        return True

    def leave(self, client: RelayedClient) -> None:
        if client in self.clients:
            self.clients.discard(client)
            self._counted -= client.scheme in COUNTED

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def open_link(self, client: RelayedClient) -> Link | None:
        """A link to the leader for this client; None if there is no leader in time."""
        loop = asyncio.get_running_loop()
        deadline, reason = loop.time() + WAIT_SECONDS, "there is no leader"
        while (left := deadline - loop.time()) > 0:
            leader = await self._wait_for_leader(left)
            if leader is None:
                continue
            client.leader = leader.life
            try:
                async with asyncio.timeout(left) as client.attempt:
                    return await self._open_link(leader, client)
            except (ConnectionRefusedError, LinkLost, LinkRefused, TimeoutError) as problem:
                reason = f"{leader.node} does not accept it: {problem}"
                client.leader = ""
                await asyncio.sleep(PAUSE)
            finally:
                client.attempt = None
        if self._refusals.is_due(loop.time()):
            self._log.warning("connection closed", client=client.address, reason=reason)
        return None

    async def _wait_for_leader(self, seconds: float) -> LeaseHolder | None:
        try:
            await asyncio.wait_for(self._has_leader.wait(), seconds)
        except TimeoutError:
            return None
        return self._leader()

    async def _open_link(self, leader: LeaseHolder, client: RelayedClient) -> Link:
        host, port = client.address
        return await open_link((leader.host, leader.port), self._peer, RELAY, scheme=client.scheme, client=[host, port])

    # ---- the leader

    async def _watch_leader(self) -> None:
        """A leader whose host is gone closes no connection: those to it are closed as soon as that is known."""
        while True:
            leader = self._leader()
            if leader is None:
                self._has_leader.clear()
            else:
                self._has_leader.set()
            life = "" if leader is None else leader.life
            gone = [client for client in self.clients if client.leader not in ("", life)]
            for client in gone:
                client.leader_is_gone()
            if gone:
                self._log.info("connections to the former leader closed", number=len(gone))
            await self._leader_change()


class RelayService:
    """The leader's side, on its cluster port. ``adopters``: what serves connections, by scheme; empty if this node does
    not lead."""

    def __init__(self, adopters: Callable[[], Mapping[str, Adopt]]) -> None:
        self._adopters = adopters

    async def serve(self, link: Link, request: Frame) -> None:
        adopt = self._adopters().get(str(request.get("scheme")))
        client = request.get("client")
        if adopt is None or not isinstance(client, list) or len(client) != 2:
            await link.send({"error": "this node does not lead, or does not listen for this protocol"})
            return
        await link.send({})
        adopt(link.detach(), (str(client[0]), int(client[1])))
