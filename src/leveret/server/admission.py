"""Limits for connections that have not logged in: how many there may be, per source address and in total.

Theory of operation. Every accepted socket, whatever its protocol, holds an ``Admitted`` until it is closed. Until its
peer has logged in, the ``Admitted`` is also in a ``Pool`` with a limited number of places. When the pool is full, a new
connection takes the place of the oldest one of the source that holds the most, which is closed. So one source may use
all places while no other needs them, and sources that hold many cannot keep out one that holds few. Connections inside
tunnels of HTTP requests, which have no socket, have a smaller pool of their own.

Descriptors are limited, too, for connections of all kinds together. When they run out, the HTTP connection that has
been idle longest is closed, or else an unauthenticated one, by the rule above. If there is neither, the new connection
is refused: one that has logged in is never closed for a new one. Loopback has a reserve beyond the limit, so that an
operator on the machine, or a health check, can always connect.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address

from leveret.auth.loopback import is_loopback
from leveret.session.limits import UNAUTHENTICATED_BYTES

ADMITTED = "leveret.admitted"  # key of a transport's extra information: its socket has been counted already
SPARE_FILES = 64  # descriptors that connections may not use: files, the loop, the loopback reserve
RESERVE = 16  # descriptors beyond the limit for loopback
MOST_UNAUTHENTICATED = 4_096


def source_of(address: str) -> str:
    """The unit that limits apply to: an IPv4 address, or the /64 of an IPv6 address, which is usually one host."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return "::1" if parsed.is_loopback else f"{IPv6Address(int(parsed) >> 64 << 64)}/64"


class Pool:
    """Connections by source. Every operation takes the same time, however many there are."""

    __slots__ = ("_by_count", "_by_source", "_largest", "taken")

    def __init__(self) -> None:
        self.taken = 0
        self._by_source: dict[str, dict[Admitted, None]] = {}  # the oldest first
        self._by_count: dict[int, dict[str, None]] = {}  # sources by the number of places they hold
        self._largest = 0

    def add(self, admitted: Admitted) -> None:
        held = self._by_source.setdefault(admitted.source, {})
        held[admitted] = None
        self._recount(admitted.source, len(held) - 1, len(held))
        self.taken += 1
        self._largest = max(self._largest, len(held))

    def remove(self, admitted: Admitted) -> None:
        held = self._by_source[admitted.source]
        del held[admitted]
        self._recount(admitted.source, len(held) + 1, len(held))
        self.taken -= 1
        if not held:
            del self._by_source[admitted.source]
        while self._largest and self._largest not in self._by_count:
            self._largest -= 1

    def close_one(self, source: str) -> bool:
        """Close the oldest connection of the source that holds the most, or of ``source`` if it holds as many; False if
        the pool is empty."""
        if not self._largest:
            return False
        held = self._by_source.get(source, {})
        if len(held) < self._largest:
            held = self._by_source[next(iter(self._by_count[self._largest]))]
        next(iter(held)).evict()
        return True

    def _recount(self, source: str, before: int, after: int) -> None:
        if before:
            sources = self._by_count[before]
            del sources[source]
            if not sources:
                del self._by_count[before]
        if after:
            self._by_count.setdefault(after, {})[source] = None


class Admitted:
    """One connection, from the accept to the close."""

    __slots__ = ("_admission", "_pool", "close", "has_socket", "is_open", "source")

    def __init__(
        self, admission: Admission, source: str, close: Callable[[], None], pool: Pool, has_socket: bool
    ) -> None:
        self._admission = admission
        self.close = close  # called when the place is needed for another connection
        self._pool: Pool | None = pool
        self.source = source
        self.has_socket = has_socket
        self.is_open = True
        pool.add(self)

    def move_to(self, address: str) -> None:
        """Count the connection under the client address that a proxy sent."""
        if self._pool is not None:
            self._pool.remove(self)
            self.source = source_of(address)
            self._pool.add(self)

    def authenticated(self) -> None:
        """The peer has logged in: its place is free for another unauthenticated connection."""
        if self._pool is not None:
            self._pool.remove(self)
            self._pool = None

    def set_idle(self, is_idle: bool) -> None:
        """Whether the connection can now be closed without harm, like an HTTP connection between two requests."""
        self._admission.idle.pop(self, None)
        if is_idle and self.is_open:
            self._admission.idle[self] = None

    def evict(self) -> None:
        self.leave()
        self._admission.evicted += 1
        self.close()

    def leave(self) -> None:
        """The connection is closed. Can be called twice."""
        if self.is_open:
            self.is_open = False
            self._admission.sockets -= self.has_socket
            self.authenticated()
            self.set_idle(False)


class Admission:
    """Decides whether a new connection is accepted."""

    def __init__(self, memory_high_watermark: int, most_sockets: int | None = None) -> None:
        self.most_sockets = most_connections() if most_sockets is None else most_sockets
        places = min(MOST_UNAUTHENTICATED, self.most_sockets // 2, memory_high_watermark // 4 // UNAUTHENTICATED_BYTES)
        self.places = max(places, 2)  # for unauthenticated connections
        self.unauthenticated = Pool()
        self.tunnels = Pool()  # unauthenticated ones; their number is limited in tunnels.py
        self.sockets = 0
        self.idle: dict[Admitted, None] = {}  # HTTP connections between requests, the longest idle first
        self.evicted = self.refused = 0  # since the start: closed for a new one, refused without a descriptor

    def enter(self, address: str, close: Callable[[], None]) -> Admitted | None:
        """Count an accepted socket; None if there is no descriptor to spare: the caller must close it."""
        source = source_of(address)
        if not self._has_descriptor(source) and not self._free_descriptor(source):
            self.refused += 1
            return None
        if self.unauthenticated.taken >= self.places:
            self.unauthenticated.close_one(source)
        self.sockets += 1
        return Admitted(self, source, close, self.unauthenticated, has_socket=True)

    def enter_tunnel(self, source: str, close: Callable[[], None]) -> Admitted:
        """Count a connection inside a tunnel of HTTP requests, which has no socket of its own."""
        return Admitted(self, source, close, self.tunnels, has_socket=False)

    def _has_descriptor(self, source: str) -> bool:
        return self.sockets < self.most_sockets + (RESERVE if is_loopback(source) else 0)

    def _free_descriptor(self, source: str) -> bool:
        longest_idle = next(iter(self.idle), None)
        if longest_idle is None:
            return self.unauthenticated.close_one(source)
        longest_idle.evict()
        return True


def most_connections() -> int:
    """The limit of file descriptors, minus those that the process itself uses and a reserve."""
    try:
        import resource
    except ImportError:
        return 1 << 20
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files == resource.RLIM_INFINITY:
        return 1 << 20
    return max(4, files - open_files() - SPARE_FILES)


def open_files() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return 16
