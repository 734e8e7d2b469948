"""Transports carry bytes. ``open_transport`` opens one for the scheme of an address; the layers above do not depend on
its kind."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from leveret.client.address import Address
from leveret.client.errors import AddressError


class Listener(Protocol):
    """Receives the events of a transport."""

    def received(self, data: bytes) -> None: ...

    def lost(self, problem: Exception | None) -> None:
        """Nothing more can be received or sent."""

    def congested(self, is_so: bool) -> None:
        """Whether too many bytes wait to be sent."""


class Transport(Protocol):
    def write(self, data: bytes) -> None: ...

    def close(self) -> None:
        """After everything is sent."""

    def abort(self) -> None:
        """At once."""


Opener = Callable[[Address, Listener], Awaitable[Transport]]

OPENERS: dict[str, str] = {
    "tcp": "leveret.client.transports:open_tcp",
    "ws": "leveret.client.ws_transport:open_ws",
    "http": "leveret.client.http_tunnel:open_tunnel",
}
"""The functions that open each transport. Their modules and libraries are imported on first use."""


async def open_transport(address: Address, listener: Listener) -> Transport:
    """The first component of the chain in docs/internals/client.md."""
    module, _, name = OPENERS[address.transport].partition(":")
    try:
        opener: Opener = getattr(import_module(module), name)
    except ModuleNotFoundError as missing:
        raise AddressError(f"{address.shown} needs {missing.name}: pip install 'leveret[server]'") from missing
    return await opener(address, listener)


# ---- TCP and TLS


class TcpTransport(asyncio.Protocol):
    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._socket: asyncio.Transport = None  # type: ignore[assignment]  # set by connection_made, which is called first

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast(asyncio.Transport, transport)  # uvloop's does not inherit from it

    def data_received(self, data: bytes) -> None:
        self._listener.received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._listener.lost(exc)

    def pause_writing(self) -> None:
        self._listener.congested(True)

    def resume_writing(self) -> None:
        self._listener.congested(False)

    def write(self, data: bytes) -> None:
        self._socket.write(data)

    def close(self) -> None:
        self._socket.close()

    def abort(self) -> None:
        self._socket.abort()


async def open_tcp(address: Address, listener: Listener) -> TcpTransport:
    loop = asyncio.get_running_loop()
    _, transport = await loop.create_connection(
        lambda: TcpTransport(listener), address.host, address.port, **security_of(address)
    )
    return transport


def security_of(address: Address) -> dict[str, Any]:
    """The TLS arguments of asyncio.open_connection and loop.create_connection."""
    if not address.is_tls:
        return {}
    return {"ssl": tls_of(address), "server_hostname": address.server_name or address.host}


def tls_of(address: Address) -> ssl.SSLContext:
    for name in ("cacertfile", "certfile", "keyfile"):
        file = getattr(address, name)
        if file and not Path(file).is_file():  # the error of ssl does not name it
            raise AddressError(f"'{name}' of {address.shown}: file not found: '{file}'")
    context = ssl.create_default_context(cafile=address.cacertfile or None)
    if not address.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if address.certfile:
        context.load_cert_chain(address.certfile, address.keyfile or None)
    return context
