"""The HTTP port while the broker recovers: it is alive and not ready.

Recovery may take minutes, and the HTTP port opens after it. Without a response, a supervisor could not tell a broker
that recovers from one that hangs, and would restart it again and again. Each connection gets one response, to the
request line alone, and is closed. Connections count as unauthenticated ones of a running broker (admission.py).
"""

from __future__ import annotations

import asyncio
import json
from typing import cast

from leveret.errors import ConfigError
from leveret.logs import get_log
from leveret.server.admission import Admission, Admitted
from leveret.server.ports import Ports

LIVE, READY = b"/health/live", b"/health/ready"
LONGEST_HEAD = 64 << 10
END = b"\r\n\r\n"


class StartupProbes:
    def __init__(self, admission: Admission, head_timeout: float) -> None:
        self._admission = admission
        self._head_timeout = head_timeout
        self._open: set[StartupProtocol] = set()
        self._ports = Ports(self._protocol, lambda: head_timeout, admission)

    def _protocol(self) -> StartupProtocol:
        return StartupProtocol(self._admission, self._head_timeout, self._open)

    async def start(self, hosts: tuple[str, ...], port: int) -> None:
        """A port that cannot be used is reported when the broker itself opens it."""
        try:
            await self._ports.listen(hosts, port, "http_port", None)
        except ConfigError as problem:
            get_log("http").debug("no probes during the recovery", reason=str(problem))

    async def stop(self) -> None:
        """The port is free afterwards."""
        self._ports.close()
        await self._ports.wait_closed()
        for protocol in list(self._open):
            protocol.abort()


class StartupProtocol(asyncio.Protocol):
    def __init__(self, admission: Admission, head_timeout: float, connections: set[StartupProtocol]) -> None:
        self._admission = admission
        self._head_timeout = head_timeout
        self._connections = connections
        self._transport: asyncio.Transport | None = None
        self._timeout: asyncio.TimerHandle | None = None
        self._head = b""
        self.admitted: Admitted | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)  # uvloop's transport does not inherit from it
        peer = transport.get_extra_info("peername")
        self.admitted = self._admission.enter(peer[0], transport.abort) if peer else None
        if self.admitted is None:
            transport.abort()
            return
        self._connections.add(self)
        self._timeout = asyncio.get_running_loop().call_later(self._head_timeout, transport.abort)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        self._head += data
        if END in self._head:
            self._transport.write(response_to(self._head))
            self._transport.close()
        elif len(self._head) > LONGEST_HEAD:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
        self._connections.discard(self)
        if self.admitted is not None:
            self.admitted.leave()

    def abort(self) -> None:
        assert self._transport is not None
        self._transport.abort()


def response_to(head: bytes) -> bytes:
    """To the request with this head."""
    method, _, rest = head.partition(b"\r\n")[0].partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    is_live = path == LIVE and method in (b"GET", b"HEAD")
    answer: dict[str, str] = {"status": "ok" if is_live else "failed"}
    if path not in (LIVE, READY):
        answer = {"error": "not_ready", "reason": "the broker is starting: try again"}
    body = json.dumps(answer, separators=(",", ":")).encode()
    lines = [
        "HTTP/1.1 200 OK" if is_live else "HTTP/1.1 503 Service Unavailable",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "Connection: close",
        *([] if is_live else ["Retry-After: 1"]),
    ]
    return "\r\n".join(lines).encode() + END + (b"" if method == b"HEAD" else body)
