"""The port on which a node accepts links from the other nodes of its cell, from the start of the process to its end.

That it is open shows that the process lives: a connection that is refused shows that it does not.

Links that have not proved yet that they belong to the cell have a limited number of places. When these are taken, a
new link replaces the oldest one of the address that has the most (server/admission.py).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from leveret.cluster.link import (
    HANDSHAKE_SECONDS,
    Frame,
    Link,
    LinkLost,
    LinkRefused,
    Peer,
    accept_request,
    prepare_socket,
)
from leveret.errors import ClusterError, ConfigError
from leveret.logs import LogInterval, get_log
from leveret.server.admission import Admission, Admitted, most_connections

BACKLOG = 1024
MEMORY = 1 << 40  # no limit: frames are small until the other side is known
BETWEEN_REFUSALS = 5.0  # seconds between two log lines about refused links
PAUSE = 0.5  # seconds before the next accept when there are no file descriptors
Service = Callable[[Link, Frame], Awaitable[None]]


class ClusterPort:
    """``services``: by the name of the request. A service answers the request, and owns the link until it returns; a
    service that passes the socket on (``Link.detach``) returns after that. ``others``: for links of other cells."""

    def __init__(
        self, peer: Peer, services: Mapping[str, Service], *others: tuple[Peer, Mapping[str, Service]]
    ) -> None:
        self._services = {peer: services, **dict(others)}
        self._listening: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._admission = Admission(MEMORY, most_connections() // 2)
        self._refusals = LogInterval(BETWEEN_REFUSALS)
        self._log = get_log("cluster").bind(cell=peer.cell)

    async def listen(self, hosts: tuple[str, ...], port: int) -> int:
        """Returns the port; 0 binds a free one."""
        loop = asyncio.get_running_loop()
        for host in hosts:
            try:
                found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
                for family, place in dict.fromkeys((each[0], each[4]) for each in found):
                    bound = socket.create_server(place[:2], family=family, backlog=BACKLOG)
                    bound.setblocking(False)
                    self._listening.append(bound)
                    port = port or int(bound.getsockname()[1])
            except OSError as problem:
                self.close()
                raise ConfigError(
                    f"cannot listen on {host} port {port} for other nodes ({problem.strerror or problem}): choose "
                    "others with --cluster-host and --cluster-port"
                ) from problem
        for each in self._listening:
            self._start(self._accept(each))
        return port

    def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        for each in self._listening:
            each.close()
        self._listening.clear()

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, (host, *_) = await loop.sock_accept(listening)
            except OSError as problem:
                self._log.warning("cannot accept a link", reason=str(problem))
                await asyncio.sleep(PAUSE)
                continue
            self._begin(accepted, host)

    def _begin(self, accepted: socket.socket, host: str) -> None:
        serving: asyncio.Task[None] | None = None

        def close() -> None:  # called when the place is needed for another link
            if serving is not None:
                serving.cancel()

        admitted = self._admission.enter(host, close)
        if admitted is None:
            accepted.close()
            return
        link = Link(accepted)
        serving = self._start(self._serve(link, host, admitted))
        serving.add_done_callback(lambda _: link.close())  # also if it was cancelled before it began

    async def _serve(self, link: Link, host: str, admitted: Admitted) -> None:
        try:
            prepare_socket(link.socket)
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                peer, request = await accept_request(link, *self._services)
            admitted.leave()
            service = self._services[peer].get(str(request.get("ask")))
            if service is None:
                await link.send({"error": f"this version of Leveret does not know the request {request.get('ask')!r}"})
            else:
                await _answer(service, link, request)
        except LinkRefused as problem:
            if self._refusals.is_due(asyncio.get_running_loop().time()):
                self._log.warning("link of another node refused", address=host, reason=str(problem))
        except (LinkLost, OSError) as problem:
            self._log.debug("link lost", address=host, reason=str(problem))
        except Exception:  # noqa: BLE001 - one link must not end the others
            self._log.exception("internal error on the cluster port", address=host)
        finally:
            admitted.leave()
            link.close()


async def _answer(service: Service, link: Link, request: Frame) -> None:
    try:
        await service(link, request)
    except ClusterError as problem:  # such as a node that is starting
        await link.send({"error": str(problem)})
