"""Streams of bytes in requests, for networks that let only HTTP through.

    POST /api/tunnel              a new tunnel: its id, which cannot be guessed and is all that is asked for later
    POST /api/tunnel/{id}?at=N    bytes for the broker
    GET  /api/tunnel/{id}?at=N    bytes from the broker: answered as soon as there are some, or empty after a while
    DELETE /api/tunnel/{id}       the peer is gone

Both ways bytes are counted from 0, and N says where a request stands. So a request whose answer was lost can be sent
again: bytes that came twice are taken once, and bytes that were given are kept until the next GET shows, by asking for
what is behind them, that they arrived. A tunnel is an ``asyncio.Transport`` to the protocol inside: a full way down
pauses it as a full socket does, and while it does not read, a POST is kept waiting and then told to come again.

A peer always waits in a GET. One that has not asked for anything for IDLE seconds is gone.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from leveret.broker.timers import Timer, Timers
from leveret.http.errors import Conflict, Gone, NotThere, Problem
from leveret.http.stream_listeners import StreamListener
from leveret.server.admission import ADMITTED, Admission

MOST_TUNNELS = 200
IDLE = 30.0  # seconds
POLL = 25.0  # seconds that a GET waits at most: proxies are less patient than we
PATIENCE = 15.0  # seconds that a POST waits for a broker that does not listen
LARGEST_ANSWER = 1 << 20


class NotNow(Problem):
    """The bytes were not taken; they may come again."""

    status, word = 503, "not_now"
    headers = {"Retry-After": "0"}


class TooMany(Problem):
    status, word = 429, "too_many"
    headers = {"Retry-After": "10"}


class Tunnel(asyncio.Transport):
    def __init__(self, inside: asyncio.Protocol, extra: Mapping[str, Any], ended: Callable[[], None]) -> None:
        super().__init__(dict(extra))
        self.id = secrets.token_urlsafe(24)
        self.inside = inside
        self.heard_at = 0.0
        self.waiting = 0  # requests that are being answered
        self._ended = ended
        self._taken = 0  # bytes from the peer
        self._given = 0  # bytes that arrived at the peer for sure
        self._down = bytearray()  # what follows them
        self._high, self._low = 1 << 16, 1 << 14
        self._is_full = False
        self._is_paused = False
        self._is_closing = False
        self._is_over = False
        self._change: asyncio.Future[None] | None = None

    # ---- requests

    async def take(self, at: int, data: bytes, patience: float = PATIENCE) -> None:
        """Bytes from the peer, the first of which is number ``at``."""
        if not await self._until(lambda: not self._is_paused or self._is_closing, patience):
            raise NotNow("the broker does not listen to this connection for now: send the same bytes again")
        if self._is_closing:
            self.refuse_over()
            return  # nobody listens any more; the next GET says so
        if at > self._taken:
            raise Conflict(f"bytes from {at} on came, but {self._taken} were taken so far: send what is between")
        fresh = data[self._taken - at :]
        if fresh:
            self._taken += len(fresh)
            self.inside.data_received(fresh)

    async def give(self, at: int, is_gone: Callable[[], bool], seconds: float = POLL) -> bytes:
        """Bytes for the peer from number ``at`` on; none after so many seconds, or for one who hung up."""
        self._arrived(at)
        await self._until(lambda: bool(self._down) or self._is_closing or is_gone() or at != self._given, seconds)
        if at != self._given:
            raise Conflict(f"a later request has asked for what is behind byte {at}: this one is void")
        if self._is_closing and not self._down:
            self.end(None)
            self.refuse_over()
        return bytes(memoryview(self._down)[:LARGEST_ANSWER])

    def refuse_over(self) -> None:
        if self._is_over:
            raise Gone("the broker closed the connection in this tunnel: open a new one")

    def stir(self) -> None:
        """Something changed: those who wait look again."""
        if self._change is not None:
            self._change.set_result(None)
            self._change = None

    def end(self, problem: Exception | None) -> None:
        """Nothing more passes, either way."""
        if self._is_over:
            return
        self._is_over = self._is_closing = True
        self._down.clear()
        self._ended()
        self.stir()
        asyncio.get_running_loop().call_soon(self.inside.connection_lost, problem)

    def _arrived(self, at: int) -> None:
        if not self._given <= at <= self._given + len(self._down):
            raise Conflict(
                f"byte {at} cannot be asked for: those before {self._given} have arrived, and those before "
                f"{self._given + len(self._down)} exist"
            )
        del self._down[: at - self._given]
        if at != self._given:
            self._given = at
            self.stir()
        if self._is_full and len(self._down) <= self._low:
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
            self._down += data
        if not self._is_full and len(self._down) > self._high:
            self._is_full = True
            self.inside.pause_writing()
        self.stir()

    def get_write_buffer_size(self) -> int:
        return len(self._down)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = (1 << 16) if high is None else high
        self._low = self._high // 4 if low is None else low

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False
        self.stir()

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        """When the peer has got everything."""
        if not self._is_closing:
            self._is_closing = True
            self.stir()
            if not self._down:
                self.end(None)

    def abort(self) -> None:
        self.end(None)


class Tunnels:
    def __init__(self, listener: StreamListener | None, timers: Timers, admission: Admission) -> None:
        self._listener = listener  # None: closed
        self._admission = admission
        self._timers = timers
        self._tunnels: dict[str, Tunnel] = {}
        self._timer: Timer | None = None
        self._none_left = asyncio.Event()

    def __len__(self) -> int:
        return len(self._tunnels)

    def dig(self, source: str, extra: Mapping[str, Any]) -> Tunnel:
        """A tunnel with a new peer inside; ``extra`` is what is known of the socket that the request came by."""
        if self._listener is None:
            raise NotThere("no tunnels lead here: --http-streams on lets them")
        unauthenticated = self._admission.tunnels
        if len(self._tunnels) >= MOST_TUNNELS and not unauthenticated.close_one(source):
            raise TooMany(f"there are {MOST_TUNNELS} tunnels already: close some, or connect by WebSocket or AMQP")
        admitted = self._admission.enter_tunnel(source, lambda: tunnel.abort())
        tunnel = Tunnel(self._listener.admit(), {**extra, ADMITTED: admitted}, lambda: self._forget(tunnel))
        self._tunnels[tunnel.id] = tunnel
        self.note(tunnel)
        if self._timer is None:
            self._look_later()
        tunnel.inside.connection_made(tunnel)
        if tunnel.is_closing():
            raise TooMany("the broker takes no more connections: close some, or raise connection_max")
        return tunnel

    def is_known(self, tunnel: Tunnel) -> bool:
        """Whether the peer inside has logged in."""
        assert self._listener is not None
        return self._listener.is_known(tunnel.inside)

    def most_bytes(self, tunnel: Tunnel) -> int:
        """In one POST."""
        assert self._listener is not None
        return self._listener.most_bytes(tunnel.inside)

    def found(self, id: str) -> Tunnel:
        tunnel = self._tunnels.get(id)
        if tunnel is None:
            raise NotThere("no such tunnel: its connection is closed, or nobody asked for its bytes for too long")
        return tunnel

    def note(self, tunnel: Tunnel) -> None:
        """Its peer has just been heard of."""
        tunnel.heard_at = self._timers.clock.now()

    async def drained(self, seconds: float) -> None:
        """Until all are closed, or the time is up."""
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

    def _look_later(self) -> None:
        self._timer = self._timers.at(self._timers.clock.now() + IDLE / 2, self._look)

    def _look(self) -> None:
        self._timer = None
        long_ago = self._timers.clock.now() - IDLE
        for tunnel in list(self._tunnels.values()):
            if not tunnel.waiting and tunnel.heard_at <= long_ago:
                tunnel.end(TimeoutError(f"nobody asked for its bytes for {IDLE:g} s"))
        if self._tunnels:
            self._look_later()
