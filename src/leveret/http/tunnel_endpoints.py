"""Tunnels over HTTP: the requests of which http/tunnels.py says what they mean.

Nobody has to log in for them: AMQP does, inside. Until then a peer has the bounds that strangers have on the AMQP port.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.broker.broker import Broker
from leveret.http.answers import done, json_answer
from leveret.http.bodies import body_of, whole_number_of
from leveret.http.errors import TooSlow
from leveret.http.login import SOCKET, HttpConnection
from leveret.http.stream_listeners import LARGEST_PIECE, StreamListeners, peer_name
from leveret.http.tunnels import POLL, Tunnel, Tunnels

PATH = "/api/tunnel"
KNOWN_OF_A_SOCKET = ("peername", "sockname", "ssl_object")
SLOWEST = 30.0  # seconds for the body of a POST: nobody has logged in for it


def routes(listeners: StreamListeners, broker: Broker) -> list[Route]:
    listeners.tunnels = Tunnels(listeners.amqp, broker.timers, listeners.admission)
    mouth = Mouth(listeners.tunnels)
    return [
        Route(PATH, mouth.dig, methods=["POST"]),
        Route(PATH + "/{id}", mouth.take, methods=["POST"]),
        Route(PATH + "/{id}", mouth.give, methods=["GET"]),
        Route(PATH + "/{id}", mouth.leave, methods=["DELETE"]),
    ]


def is_tunnel(path: str) -> bool:
    return path == PATH or path.startswith(PATH + "/")


class Mouth:
    """Where a tunnel comes out on our side."""

    def __init__(self, tunnels: Tunnels) -> None:
        self._tunnels = tunnels

    async def dig(self, request: Request) -> Response:
        socket: asyncio.Transport = request.scope["state"][SOCKET]
        known = {name: socket.get_extra_info(name) for name in KNOWN_OF_A_SOCKET}
        host, names, version = request.headers.get("host", ""), request.headers.keys(), request.scope["http_version"]
        known["peername"] = peer_name(known["peername"], host, names, version)
        tunnel = self._tunnels.dig(HttpConnection(request).source, known)
        return json_answer({"id": tunnel.id, "largest": LARGEST_PIECE, "poll_seconds": POLL}, 201)

    async def take(self, request: Request) -> Response:
        with self._asked(request) as tunnel:
            at = _at(request)
            try:
                async with asyncio.timeout(SLOWEST):
                    data = await body_of(request, self._tunnels.most_bytes(tunnel))
            except TimeoutError:
                raise TooSlow(f"the body did not come within {SLOWEST:g} s: send less at once") from None
            await tunnel.take(at, data)
            return done()

    async def give(self, request: Request) -> Response:
        with self._asked(request) as tunnel:
            gone = asyncio.ensure_future(_hung_up(request))
            gone.add_done_callback(lambda _: tunnel.stir())
            try:
                data = await tunnel.give(_at(request), gone.done)
            finally:
                gone.cancel()
            kind = "application/octet-stream"
            return Response(data, 200, media_type=kind) if data else done()

    async def leave(self, request: Request) -> Response:
        with self._asked(request) as tunnel:
            tunnel.end(None)
            return done()

    @contextmanager
    def _asked(self, request: Request) -> Iterator[Tunnel]:
        tunnel = self._tunnels.found(request.path_params["id"])
        tunnel.waiting += 1
        if self._tunnels.is_known(tunnel):
            HttpConnection(request).authenticated()
        try:
            yield tunnel
        finally:
            tunnel.waiting -= 1
            self._tunnels.note(tunnel)


def _at(request: Request) -> int:
    return whole_number_of(request.query_params, "at")


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
