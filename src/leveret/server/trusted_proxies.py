"""The proxies whose PROXY headers are trusted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from leveret.logs import get_log

QUIET = 60.0  # seconds between two log lines about one address
MOST_ADDRESSES = 1000  # that are remembered for it: beyond, nothing is logged


class TrustedProxies:
    """Addresses and networks, as the settings list them."""

    def __init__(self, networks: Iterable[str], now: Callable[[], float]) -> None:
        self._networks: list[IPv4Network | IPv6Network] = [ip_network(each) for each in networks]
        self._now = now
        self._logged: dict[str, float] = {}  # when, the oldest first
        self._log = get_log("proxies")

    def __contains__(self, address: str) -> bool:
        parsed = ip_address(address.partition("%")[0])
        if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
            parsed = parsed.ipv4_mapped
        return any(parsed in network for network in self._networks)

    def report(self, address: str, reason: str, remedy: str) -> None:
        """Log a refused connection, once a minute for each address."""
        now = self._now()
        while self._logged and now - next(iter(self._logged.values())) >= QUIET:
            del self._logged[next(iter(self._logged))]
        if address not in self._logged and len(self._logged) < MOST_ADDRESSES:
            self._logged[address] = now
            self._log.warning("connection refused", peer=address, reason=reason, remedy=remedy)
