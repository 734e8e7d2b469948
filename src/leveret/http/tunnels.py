"""Byte streams over HTTP requests, for networks that only allow HTTP.

    POST /api/tunnel              opens a tunnel and returns its id, a secret that identifies it in later requests
    POST /api/tunnel/{id}?at=N    sends bytes to the broker
    GET  /api/tunnel/{id}?at=N    receives bytes from the broker: long polling, empty after POLL seconds
    DELETE /api/tunnel/{id}       closes the tunnel

Bytes are numbered from 0 in each direction, and N is the number of the first byte of the request. So a client can
repeat a request whose response was lost: bytes received twice are ignored, and bytes sent to the client are kept until
its next GET acknowledges them with a higher N. A tunnel is an ``asyncio.Transport`` to the protocol inside: a full send
buffer pauses the protocol, as a full socket does. While the protocol does not read, a POST waits and then fails with
503.

A client always has a GET pending. A tunnel without requests for IDLE seconds is closed.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from leveret.broker.timers import Timer, Timers
from leveret.http.errors import Conflict, Gone, HttpError, ObjectNotFound
from leveret.http.stream_listeners import StreamListener
from leveret.server.admission import ADMITTED, Admission

MOST_TUNNELS = 200
IDLE = 30.0  # seconds
POLL = 25.0  # seconds that a GET waits at most: shorter than the timeouts of proxies
PATIENCE = 15.0  # seconds that a POST waits while the protocol does not read
LARGEST_ANSWER = 1 << 20


class NotReading(HttpError):
    """The bytes were not accepted; the client may repeat the request."""

    status, error = 503, "not_now"
    headers = {"Retry-After": "0"}


class TooManyConnections(HttpError):
    status, error = 429, "too_many"
    headers = {"Retry-After": "10"}


class Tunnel(asyncio.Transport):
    def __init__(self, inside: asyncio.Protocol, extra: Mapping[str, Any], ended: Callable[[], None]) -> None:
        super().__init__(dict(extra))
        self.id = secrets.token_urlsafe(24)
        self.inside = inside
        self.used_at = 0.0
        self.waiting = 0  # requests in progress
        self._ended = ended
        self._received = 0  # bytes received from the client
        self._acknowledged = 0  # bytes that the client has acknowledged
        self._unsent = bytearray()  # the bytes after those
        self._high, self._low = 1 << 16, 1 << 14
        self._is_full = False
        self._is_paused = False
        self._is_closing = False
        self._has_ended = False
        self._change: asyncio.Future[None] | None = None

    # ---- requests

    async def take(self, at: int, data: bytes, patience: float = PATIENCE) -> None:
        """Bytes from the client; ``at`` is the number of the first one."""
        if not await self._until(lambda: not self._is_paused or self._is_closing, patience):
            raise NotReading("the broker does not read from this connection at the moment: send the same bytes again")
        if self._is_closing:
            self.refuse_over()
            return  # the next GET reports the end
        if at > self._received:
            raise Conflict(
                f"received bytes from {at} on, but only {self._received} before them: send the missing bytes"
            )
        fresh = data[self._received - at :]
        if fresh:
            self._received += len(fresh)
            self.inside.data_received(fresh)

    async def give(self, at: int, is_gone: Callable[[], bool], seconds: float = POLL) -> bytes:
        """Bytes for the client from number ``at`` on; none after ``seconds``, or if the client disconnected."""
        self._acknowledge(at)
        await self._until(
            lambda: bool(self._unsent) or self._is_closing or is_gone() or at != self._acknowledged, seconds
        )
        if at != self._acknowledged:
            raise Conflict(f"a later request asked for bytes after {at}: this request is obsolete")
        if self._is_closing and not self._unsent:
            self.end(None)
            self.refuse_over()
        return bytes(memoryview(self._unsent)[:LARGEST_ANSWER])

    def refuse_over(self) -> None:
        if self._has_ended:
            raise Gone("the broker closed the connection in this tunnel: open a new tunnel")

    def wake(self) -> None:
        """Wake the requests that wait for a change."""
        if self._change is not None:
            self._change.set_result(None)
            self._change = None

    def end(self, problem: Exception | None) -> None:
        """Close the tunnel in both directions."""
        if self._has_ended:
            return
        self._has_ended = self._is_closing = True
        self._unsent.clear()
        self._ended()
        self.wake()
        asyncio.get_running_loop().call_soon(self.inside.connection_lost, problem)

    def _acknowledge(self, at: int) -> None:
        if not self._acknowledged <= at <= self._acknowledged + len(self._unsent):
            raise Conflict(
                f"'at' is {at}: bytes {self._acknowledged} to {self._acknowledged + len(self._unsent)} can be requested"
            )
        del self._unsent[: at - self._acknowledged]
        if at != self._acknowledged:
            self._acknowledged = at
            self.wake()
        if self._is_full and len(self._unsent) <= self._low:
            self._is_full = False
            self.inside.resume_writing()

    async def _until(self, is_so: Callable[[], bool], seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                while not is_so():
                    self._change = self._change or asyncio.get_running_loop().create_future()
                    await asyncio.shield(self._change)
        except TimeoutError:
            return is_so()
        return True

    # ---- the protocol inside calls

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writelines((data,))

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        if self._is_closing:
            return
        for data in list_of_data:
            self._unsent += data
        if not self._is_full and len(self._unsent) > self._high:
            self._is_full = True
            self.inside.pause_writing()
        self.wake()

    def get_write_buffer_size(self) -> int:
        return len(self._unsent)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = (1 << 16) if high is None else high
        self._low = self._high // 4 if low is None else low

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        self.wake()

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        """Close once the client has received everything."""
        if not self._is_closing:
            self._is_closing = True
            self.wake()
            if not self._unsent:
                self.end(None)

    def abort(self) -> None:
        self.end(None)


class Tunnels:
    def __init__(self, listener: StreamListener | None, timers: Timers, admission: Admission) -> None:
        self._listener = listener  # None: tunnels are disabled
        self._admission = admission
        self._timers = timers
        self._tunnels: dict[str, Tunnel] = {}
        self._timer: Timer | None = None
        self._none_left = asyncio.Event()

    def __len__(self) -> int:
        return len(self._tunnels)

    def open(self, source: str, extra: Mapping[str, Any]) -> Tunnel:
        """A tunnel with a new connection inside; ``extra``: information on the socket of the HTTP request."""
        if self._listener is None:
            raise ObjectNotFound("tunnels are disabled: enable them with --http-streams on")
        unauthenticated = self._admission.tunnels
        if len(self._tunnels) >= MOST_TUNNELS and not unauthenticated.close_one(source):
            raise TooManyConnections(
                f"the limit of {MOST_TUNNELS} tunnels is reached: close some, or connect over WebSocket or AMQP"
            )
        admitted = self._admission.enter_tunnel(source, lambda: tunnel.abort())
        tunnel = Tunnel(self._listener.admit(), {**extra, ADMITTED: admitted}, lambda: self._forget(tunnel))
        self._tunnels[tunnel.id] = tunnel
        self.mark_used(tunnel)
        if self._timer is None:
            self._arm()
        tunnel.inside.connection_made(tunnel)
        if tunnel.is_closing():
            raise TooManyConnections("the connection limit is reached: close connections, or raise connection_max")
        return tunnel

    def is_known(self, tunnel: Tunnel) -> bool:
        """Whether the client inside has authenticated."""
        assert self._listener is not None
        return self._listener.is_known(tunnel.inside)

    def most_bytes(self, tunnel: Tunnel) -> int:
        """The maximum size of one POST."""
        assert self._listener is not None
        return self._listener.most_bytes(tunnel.inside)

    def found(self, id: str) -> Tunnel:
        tunnel = self._tunnels.get(id)
        if tunnel is None:
            raise ObjectNotFound(f"no such tunnel: its connection was closed, or it had no requests for {IDLE:g} s")
        return tunnel

    def mark_used(self, tunnel: Tunnel) -> None:
        tunnel.used_at = self._timers.clock.now()

    async def drained(self, seconds: float) -> None:
        """Wait until all tunnels are closed, or for ``seconds``."""
        self._none_left.clear()
        if self._tunnels:
            try:
                await asyncio.wait_for(self._none_left.wait(), seconds)
            except TimeoutError:
                pass

    def _forget(self, tunnel: Tunnel) -> None:
        self._tunnels.pop(tunnel.id, None)
        if not self._tunnels:
            self._none_left.set()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _arm(self) -> None:
        self._timer = self._timers.at(self._timers.clock.now() + IDLE / 2, self._close_idle)

    def _close_idle(self) -> None:
        self._timer = None
        idle_since = self._timers.clock.now() - IDLE
        for tunnel in list(self._tunnels.values()):
            if not tunnel.waiting and tunnel.used_at <= idle_since:
                tunnel.end(TimeoutError(f"the tunnel had no requests for {IDLE:g} s"))
        if self._tunnels:
            self._arm()
