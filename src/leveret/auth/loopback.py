"""Which peers are this very machine: ``guest`` may come from no other."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from urllib.parse import urlsplit


def is_loopback(address: str) -> bool:
    """127/8, ::1 and the first inside IPv6 (::ffff:127.x); a Unix socket's empty address counts as local."""
    if not address:
        return True
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        return parsed.ipv4_mapped.is_loopback
    return parsed.is_loopback


def http_peer(address: str, host: str) -> str:
    """The address of an HTTP client, for the rule above. ``host`` is what it takes us for.

    A page of somebody else, whose name was made to lead to this machine, speaks from this machine; so does a proxy in
    front of us. Both name another host than ours, and are not taken for local then.
    """
    if not is_loopback(address) or _is_this_machine(host):
        return address
    return f"{address} for {host[:255]}"


def _is_this_machine(host: str) -> bool:
    """An address, or the name that always leads here; no page can have either for its name."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return not name or name == "localhost" or name.endswith(".localhost") or bool(ip_address(name))
    except ValueError:
        return False
