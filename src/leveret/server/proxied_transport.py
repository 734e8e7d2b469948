"""A transport whose peer is a client behind a proxy, or at another node, with the client's address in place of the
peer's."""

from __future__ import annotations

import asyncio
from typing import Any

from leveret.auth.loopback import proxied

# These methods are bound once instead of being wrapped, so that a write costs no extra Python frame.
PASSED_ON = (
    "abort",
    "can_write_eof",
    "close",
    "get_protocol",
    "get_write_buffer_limits",
    "get_write_buffer_size",
    "is_closing",
    "is_reading",
    "pause_reading",
    "resume_reading",
    "set_protocol",
    "set_write_buffer_limits",
    "write",
    "write_eof",
    "writelines",
)


class ProxiedTransport(asyncio.Transport):
    """``transport`` with another ``peername``. Reads do not pass through here: the event loop calls the protocol."""

    def __init__(self, transport: asyncio.Transport, address: str, port: int) -> None:
        super().__init__()
        self._transport = transport
        self._peername = (address, port)
        for name in PASSED_ON:
            setattr(self, name, getattr(transport, name))

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "peername":
            return self._peername
        if name == "socket":  # its address would be the proxy's
            return default
        known = self._transport.get_extra_info(name, default)
        return known[:2] if name == "sockname" and isinstance(known, tuple) else known


def behind_proxy(transport: asyncio.Transport) -> asyncio.Transport:
    """A proxied transport for a proxy that does not send the client's address: it never counts as local. A connection
    that was reset before it was accepted has no address, and is returned unchanged."""
    peer = transport.get_extra_info("peername")
    return ProxiedTransport(transport, proxied(peer[0]), peer[1]) if isinstance(peer, tuple) else transport
