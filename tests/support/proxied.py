"""Clients of AMQP, STOMP and HTTP that come through a proxy: one login on each, and what the broker answers."""

from __future__ import annotations

import socket
import ssl
import struct
from dataclasses import replace
from urllib.parse import urlsplit

from leveret.bootstrap import Bootstrap, BootstrapPermission, BootstrapUser
from leveret.config import Settings
from leveret.wire.constants import PROTOCOL_HEADER
from leveret.wire.frames import method_frame
from leveret.wire.methods import ConnectionClose, ConnectionStartOk, ConnectionTune
from tests.support.http_api import QUIET, basic
from tests.support.raw_client import CAPABILITIES, plain
from tests.support.stomp_client import made

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
PROXY = "127.0.0.2"  # an address of every Linux machine, and not the one that clients use
ANN = Bootstrap(
    users=(BootstrapUser("ann", password="ann", tags=frozenset({"administrator"})),),
    permissions=(BootstrapPermission("ann", "/", ".*", ".*", ".*"),),
)
BEHIND_PROXY: Settings = replace(
    QUIET,
    stomp_port=0,
    bootstrap=ANN,
    proxy_protocol=frozenset({"amqp", "amqps", "http", "https", "stomp", "stomps"}),
    trusted_proxies=(PROXY,),
)
ACCEPTED = {
    "amqp": struct.pack(">IHH", 12, ConnectionTune.CLASS_ID, ConnectionTune.METHOD_ID),  # size, class, method
    "stomp": b"CONNECTED",
    "http": b"HTTP/1.1 200 ",
}
REFUSED = {
    "amqp": struct.pack(">HH", ConnectionClose.CLASS_ID, ConnectionClose.METHOD_ID),
    "stomp": b"ERROR",
    "http": b"HTTP/1.1 4",
}


def v1(address: str, port: int = 50000) -> bytes:
    family = "TCP6" if ":" in address else "TCP4"
    here = "::1" if ":" in address else "192.0.2.1"
    return f"PROXY {family} {address} {here} {port} 5672\r\n".encode()


def v2(address: str | None, port: int = 50000, tlv: bytes = b"\x04\x00\x03abc") -> bytes:
    """Without an address: a connection of the proxy's own."""
    if address is None:
        return SIGNATURE + b"\x20\0\0\0"
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    rest = 2 * socket.inet_pton(family, address) + struct.pack(">HH", port, 5672) + tlv
    return SIGNATURE + struct.pack(">BBH", 0x21, 0x21 if ":" in address else 0x11, len(rest)) + rest


def request(scheme: str, user: str) -> bytes:
    """A login with a password that is the user's name."""
    if scheme == "amqp":
        start_ok = ConnectionStartOk({"capabilities": CAPABILITIES}, "PLAIN", plain(user, user), "en_US")
        return PROTOCOL_HEADER + method_frame(0, start_ok)
    if scheme == "stomp":
        return made("CONNECT", {"accept-version": "1.2", "login": user, "passcode": user, "host": "/"})
    return f"GET /api/whoami HTTP/1.1\r\nHost: localhost\r\nAuthorization: {basic(user, user)}\r\n\r\n".encode()


def connected(url: str, source: str | None = None) -> socket.socket:
    where = urlsplit(url)
    return socket.create_connection((where.hostname, where.port or 0), 60, (source, 0) if source else None)


def logs_in(peer: socket.socket, scheme: str, user: str, header: bytes = b"") -> bool:
    """Sends the header and the login in one piece; whether the broker accepts the login rather than closing."""
    received = b""
    try:
        peer.sendall(header + request(scheme, user))
        while ACCEPTED[scheme] not in received and REFUSED[scheme] not in received:
            data = peer.recv(65536)
            if not data:
                return False
            received += data
    except ConnectionError:
        return False
    return ACCEPTED[scheme] in received


def wrapped(peer: socket.socket, tls: ssl.SSLContext) -> ssl.SSLSocket:
    return tls.wrap_socket(peer, server_hostname="127.0.0.1")
