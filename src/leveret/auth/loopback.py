"""Which peers are this very machine: ``guest`` may come from no other."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address


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
