"""The header of the PROXY protocol, versions 1 and 2: a proxy sends it first, with the address of its client.

Version 1 is a line of text, version 2 is binary:

    PROXY TCP4 203.0.113.9 198.51.100.1 56324 5672 CR LF
    signature (12 bytes), version and command (1), family (1), length of the rest (2), addresses, TLVs (ignored)

https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from leveret.logs import get_log

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
LINE = b"PROXY "
LONGEST_LINE = 107
SHORTEST = 15  # bytes that every header has: PROXY UNKNOWN CR LF
FIXED = 16  # bytes of version 2 up to the addresses
LONGEST_REST = 4096  # bytes of addresses and TLVs; HAProxy sends a few hundred at most
PORT = re.compile("0|[1-9][0-9]{0,4}")
LOCAL, PROXY = 0x20, 0x21  # version 2, with the command
UNSPEC, TCP4, TCP6 = 0x00, 0x11, 0x21

Address = tuple[str, int]
Kind = type[IPv4Address] | type[IPv6Address]
NAMED: dict[str, Kind] = {"TCP4": IPv4Address, "TCP6": IPv6Address}
FAMILIES: dict[int, tuple[Kind, int]] = {TCP4: (IPv4Address, 4), TCP6: (IPv6Address, 16)}
QUIET = 60.0  # seconds between two log lines about one address
MOST_ADDRESSES = 1000  # whose log times are remembered; beyond that, nothing is logged


class BadHeader(Exception):
    """Not a PROXY header, or one of a kind that cannot be used."""


def missing(head: bytes) -> int:
    """The number of bytes that are certainly still to come, 0 when the header is complete.

    A caller that reads no more than this never reads beyond the header, where a TLS handshake may follow.
    """
    if not (SIGNATURE.startswith(head[: len(SIGNATURE)]) or LINE.startswith(head[: len(LINE)])):
        raise BadHeader(f"no PROXY header, but {head[:16]!r}")
    if len(head) < SHORTEST:
        return SHORTEST - len(head)
    if head.startswith(LINE):
        return _missing_of_line(head)
    if len(head) < FIXED:
        return FIXED - len(head)
    rest = int.from_bytes(head[14:16])
    if rest > LONGEST_REST:
        raise BadHeader(f"{rest} bytes of addresses and TLVs, at most {LONGEST_REST} are accepted")
    return FIXED + rest - len(head)


def _missing_of_line(head: bytes) -> int:
    if head.endswith(b"\r\n"):
        return 0
    if len(head) >= LONGEST_LINE or b"\n" in head:
        raise BadHeader(f"no end of line within {LONGEST_LINE} bytes")
    return 1 if head.endswith(b"\r") or len(head) == LONGEST_LINE - 1 else 2


def client_of(head: bytes) -> Address | None:
    """The client's address in a complete header. None without an address: the connection is the proxy's own, such as a
    health check, or the proxy does not have the client's address."""
    return _client_of_line(head) if head.startswith(LINE) else _client_of_binary(head)


def _client_of_line(head: bytes) -> Address | None:
    try:
        fields = head[:-2].decode("ascii").split(" ")
        if fields[1] == "UNKNOWN":
            return None
        _, family, source, destination, source_port, destination_port = fields
        kind = NAMED[family]
        if "%" in head.decode() or not PORT.fullmatch(source_port) or not PORT.fullmatch(destination_port):
            raise ValueError
        kind(destination)
        return _address(kind(source), source_port, destination_port)
    except (ValueError, KeyError):
        raise BadHeader(f"malformed line {head!r}") from None


def _client_of_binary(head: bytes) -> Address | None:
    command, family = head[12], head[13]
    if command not in (LOCAL, PROXY):
        raise BadHeader(f"version and command {command:#04x}")
    if command == LOCAL or family == UNSPEC:
        return None
    if family not in FAMILIES:
        raise BadHeader(f"address family {family:#04x}, only TCP over IPv4 and IPv6 is accepted")
    kind, size = FAMILIES[family]
    source, ports = head[FIXED : FIXED + size], head[FIXED + 2 * size : FIXED + 2 * size + 4]
    if len(ports) < 4:
        raise BadHeader(f"{len(head) - FIXED} bytes are too few for two addresses")
    return _address(kind(source), int.from_bytes(ports[:2]))


def _address(address: IPv4Address | IPv6Address, *ports: int | str) -> Address:
    if any(int(port) > 0xFFFF for port in ports):
        raise ValueError
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address), int(ports[0])


class TrustedProxies:
    """The proxies whose PROXY headers are trusted: addresses and networks of the settings."""

    def __init__(self, networks: Iterable[str], now: Callable[[], float]) -> None:
        self._networks: list[IPv4Network | IPv6Network] = [ip_network(each) for each in networks]
        self._now = now
        self._logged: dict[str, float] = {}  # time of the last log line by address, the oldest first
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
