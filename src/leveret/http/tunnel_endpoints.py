"""The endpoints of tunnels (http/tunnels.py).

They need no login: the client authenticates inside the tunnel, by AMQP. Until then the limits of unauthenticated
connections apply, as on the AMQP port.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from leveret.broker.broker import Broker
from leveret.http.bodies import read_body
from leveret.http.errors import RequestTimeout
from leveret.http.login import SOCKET, HttpConnection
from leveret.http.responses import json_response, no_content
from leveret.http.stream_listeners import LARGEST_PIECE, StreamListeners, peer_name
from leveret.http.tunnels import POLL, Tunnel, Tunnels
from leveret.http.values import integer_of

PATH = "/api/tunnel"
SOCKET_INFO = ("peername", "sockname", "ssl_object")
SLOWEST = 30.0  # seconds for the body of a POST: it may be sent before authentication


def routes(listeners: StreamListeners, broker: Broker) -> list[Route]:
    listeners.tunnels = Tunnels(listeners.amqp, broker.timers, listeners.admission)
    endpoints = TunnelEndpoints(listeners.tunnels)
    return [
        Route(PATH, endpoints.open, methods=["POST"]),
        Route(PATH + "/{id}", endpoints.receive, methods=["POST"]),
        Route(PATH + "/{id}", endpoints.send, methods=["GET"]),
        Route(PATH + "/{id}", endpoints.close, methods=["DELETE"]),
    ]


def is_tunnel(path: str) -> bool:
    return path == PATH or path.startswith(PATH + "/")


class TunnelEndpoints:
    def __init__(self, tunnels: Tunnels) -> None:
        self._tunnels = tunnels

    async def open(self, request: Request) -> Response:
        socket: asyncio.Transport = request.scope["state"][SOCKET]
        info = {name: socket.get_extra_info(name) for name in SOCKET_INFO}
        host, names, version = request.headers.get("host", ""), request.headers.keys(), request.scope["http_version"]
        info["peername"] = peer_name(info["peername"], host, names, version)
        tunnel = self._tunnels.open(HttpConnection(request).source, info)
        return json_response({"id": tunnel.id, "largest": LARGEST_PIECE, "poll_seconds": POLL}, 201)

    async def receive(self, request: Request) -> Response:
        with self._used(request) as tunnel:
            at = _at(request)
            try:
                async with asyncio.timeout(SLOWEST):
                    data = await read_body(request, self._tunnels.most_bytes(tunnel))
            except TimeoutError:
                raise RequestTimeout(f"the body was not received within {SLOWEST:g} s: send less at once") from None
            await tunnel.take(at, data)
            return no_content()

    async def send(self, request: Request) -> Response:
        with self._used(request) as tunnel:
            gone = asyncio.ensure_future(_disconnected(request))
            gone.add_done_callback(lambda _: tunnel.wake())
            try:
                data = await tunnel.give(_at(request), gone.done)
            finally:
                gone.cancel()
            kind = "application/octet-stream"
            return Response(data, 200, media_type=kind) if data else no_content()

    async def close(self, request: Request) -> Response:
        with self._used(request) as tunnel:
            tunnel.end(None)
            return no_content()

    @contextmanager
    def _used(self, request: Request) -> Iterator[Tunnel]:
        tunnel = self._tunnels.found(request.path_params["id"])
        tunnel.waiting += 1
        if self._tunnels.is_known(tunnel):
            HttpConnection(request).authenticated()
        try:
            yield tunnel
        finally:
            tunnel.waiting -= 1
            self._tunnels.mark_used(tunnel)


def _at(request: Request) -> int:
    return integer_of(request.query_params, "at")


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
