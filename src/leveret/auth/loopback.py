"""Loopback addresses: users such as ``guest`` may log in from this machine only."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address
from urllib.parse import urlsplit


def is_loopback(address: str) -> bool:
    """127/8, ::1 and 127/8 mapped to IPv6 (::ffff:127.x). An unknown (empty) address is not loopback: a peer that
    resets its connection before it is accepted has no address, wherever it is."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        return parsed.ipv4_mapped.is_loopback
    return parsed.is_loopback


def proxied(address: str) -> str:
    """The address of a client whose connection came through a proxy. It is never loopback: even if the proxy, or its
    client, is on this machine, the request may come from elsewhere."""
    return f"{address} for a client behind a proxy" if is_loopback(address) else address


def http_peer(address: str, host: str, names: Iterable[str] = (), version: str = "1.1") -> str:
    """The address of an HTTP client, for the rules that depend on it. ``host`` is the Host header, ``names`` are the
    names of all headers.

    A loopback address alone does not make a client local. A page of another site whose name resolves to this machine
    (DNS rebinding) connects from here, and so does a proxy on this machine, for clients anywhere. Such a page sends
    another Host, and so do many proxies. Other proxies are recognised by a header that they add, by HTTP/1.0 (nginx's
    default) or by a request without Host. A proxy that does none of this needs the setting ``behind_proxy``.
    """
    if not is_loopback(address):
        return address
    if not host or version == "1.0" or any(_is_proxy_header(name.lower()) for name in names):
        return proxied(address)
    return address if _is_this_machine(host) else f"{address} for {host[:255]}"


def _is_proxy_header(header: str) -> bool:
    return header in ("forwarded", "via", "x-real-ip") or header.startswith("x-forwarded-")


def _is_this_machine(host: str) -> bool:
    """A loopback address or ``localhost``: no other site can have such a name. A network address does not count: a
    client on this machine that uses it connects from that address, or through a proxy."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        if name == "localhost" or name.endswith(".localhost") or is_loopback(name):
            return True
        return ip_address(name).is_unspecified
    except ValueError:
        return False
