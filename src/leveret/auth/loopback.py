"""Which peers are this very machine: ``guest`` may come from no other."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address
from urllib.parse import urlsplit


def is_loopback(address: str) -> bool:
    """127/8, ::1 and the first inside IPv6 (::ffff:127.x). An unknown address, which is empty, is not loopback: a peer
    that resets its connection before it is accepted has none, wherever it is."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        return parsed.ipv4_mapped.is_loopback
    return parsed.is_loopback


def http_peer(address: str, host: str, names: Iterable[str] = ()) -> str:
    """The address of an HTTP client, for the rule above. ``host`` is what it takes us for, ``names`` those of all its
    headers.

    A page of somebody else, whose name was made to lead to this machine, speaks from this machine; so does a proxy in
    front of us. The page names another host than ours, and so do many proxies; others tell of themselves by a header.
    None of them is taken for local.
    """
    if not is_loopback(address):
        return address
    if any(_tells_of_a_proxy(name.lower()) for name in names):
        return f"{address} for somebody behind a proxy"
    return address if _is_this_machine(host) else f"{address} for {host[:255]}"


def _tells_of_a_proxy(header: str) -> bool:
    return header in ("forwarded", "via", "x-real-ip") or header.startswith("x-forwarded-")


def _is_this_machine(host: str) -> bool:
    """A loopback address or the name that always leads here: no page can have either for its name. Nor an address in
    the network: whoever means this machine by it comes from that address, or through a proxy."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        if not name or name == "localhost" or name.endswith(".localhost") or is_loopback(name):
            return True
        return ip_address(name).is_unspecified
    except ValueError:
        return False
