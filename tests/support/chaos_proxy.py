"""A proxy between a client and a broker that does to connections what networks do: cut, delay, half-close, stall.

Commands act at once on every connection that is open. ``cut_plan`` acts by itself: each number is how many bytes may
pass in both directions until the connections are cut the next time, so the same plan cuts in about the same places.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Self
from urllib.parse import urlsplit

from tests.support.cell_ports import free_ports


class ChaosProxy:
    def __init__(self, url: str, *, cut_plan: Iterable[int] = ()) -> None:
        self._target = urlsplit(url)
        self._plan = iter(cut_plan)
        self._left = next(self._plan, None)
        self._pairs: set[_Pair] = set()
        self._abandoned: list[_Pair] = []
        self._server: asyncio.Server | None = None
        (self._port,) = free_ports(1)
        self._arrival = asyncio.Event()
        self.cuts = 0
        self.accepted = 0
        self.delay = 0.0  # seconds that bytes are under way
        self.is_stalled = False
        self.upstream = bytearray()  # what clients sent, for tests that inspect it
        self.is_recording = False

    async def __aenter__(self) -> Self:
        await self.listen()
        return self

    async def __aexit__(self, *about: object) -> None:
        await self.refuse()
        self.cut()
        self.release()

    @property
    def url(self) -> str:
        """The broker's, with our port."""
        login = self._target.netloc.rpartition("@")[0]
        return f"amqp://{login}@127.0.0.1:{self._port}{self._target.path}"

    # ---- commands

    async def listen(self) -> None:
        """On the same port each time."""
        self._server = await asyncio.get_running_loop().create_server(lambda: _Near(self), "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    def lead_to(self, url: str) -> None:
        """New connections go to another broker."""
        self._target = urlsplit(url)

    async def refuse(self) -> None:
        """New connections are refused; those that are open stay."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def cut(self) -> int:
        """All connections end at once, whatever is under way. How many there were."""
        pairs, self._pairs = self._pairs, set()
        for pair in pairs:
            pair.abort()
        self.cuts += bool(pairs)
        return len(pairs)

    def abandon(self) -> None:
        """All connections end for the client; the broker does not notice until ``release``, and keeps them open."""
        pairs, self._pairs = self._pairs, set()
        for pair in pairs:
            pair.is_abandoned = True
            self._abandoned.append(pair)
            if pair.near is not None:
                pair.near.abort()

    def release(self) -> None:
        """The broker learns of what was abandoned."""
        pairs, self._abandoned = self._abandoned, []
        for pair in pairs:
            pair.abort()

    def half_close(self) -> None:
        """The client receives nothing more and can still send; the broker does not notice."""
        for pair in self._pairs:
            pair.is_deaf = True

    def stall(self) -> None:
        """Nothing passes either way, and nothing ends."""
        self.is_stalled = True

    def resume(self) -> None:
        """What was held back passes."""
        self.is_stalled = False
        for pair in list(self._pairs):
            pair.pass_on()

    async def next_arrival(self) -> None:
        """Until one more client has come."""
        self._arrival.clear()
        await self._arrival.wait()

    # ---- connections

    def began(self, pair: _Pair) -> None:
        self._pairs.add(pair)
        self.accepted += 1
        self._arrival.set()

    def ended(self, pair: _Pair) -> None:
        self._pairs.discard(pair)

    def passed(self, size: int) -> None:
        """By the plan it may be time for a cut."""
        if self._left is None:
            return
        self._left -= size
        if self._left <= 0:
            self._left = next(self._plan, None)
            self.cut()

    @property
    def target(self) -> tuple[str, int]:
        return self._target.hostname or "127.0.0.1", self._target.port or 5672


class _Pair:
    """The two halves of one connection, and what waits between them."""

    def __init__(self, proxy: ChaosProxy) -> None:
        self.proxy = proxy
        self.near: asyncio.Transport | None = None
        self.far: asyncio.Transport | None = None
        self.is_deaf = False
        self.is_abandoned = False
        self._held: list[tuple[bool, bytes]] = []  # whether to the broker, and what

    def take(self, is_upwards: bool, data: bytes) -> None:
        if self.proxy.is_recording and is_upwards:
            self.proxy.upstream += data
        if self.proxy.delay:
            asyncio.get_running_loop().call_later(self.proxy.delay, self._put, is_upwards, data)
        else:
            self._put(is_upwards, data)

    def _put(self, is_upwards: bool, data: bytes) -> None:
        self._held.append((is_upwards, data))
        self.pass_on()

    def pass_on(self) -> None:
        if self.proxy.is_stalled:
            return
        held, self._held = self._held, []
        for is_upwards, data in held:
            other = self.far if is_upwards else self.near
            if other is None:
                self._held.append((is_upwards, data))  # the broker is not reached yet
            elif is_upwards or not self.is_deaf:
                other.write(data)
                self.proxy.passed(len(data))

    def end(self) -> None:
        """One side went: so does the other, after what is under way."""
        self.proxy.ended(self)
        if self.is_abandoned:
            return
        for side in (self.near, self.far):
            if side is not None:
                side.close()

    def abort(self) -> None:
        for side in (self.near, self.far):
            if side is not None:
                side.abort()


class _Near(asyncio.Protocol):
    """The client's side."""

    def __init__(self, proxy: ChaosProxy) -> None:
        self._pair = _Pair(proxy)
        self._reaching: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._pair.near = transport
        self._pair.proxy.began(self._pair)
        self._reaching = asyncio.ensure_future(self._reach(transport))

    async def _reach(self, near: asyncio.Transport) -> None:
        try:
            loop = asyncio.get_running_loop()
            await loop.create_connection(lambda: _Far(self._pair), *self._pair.proxy.target)
        except OSError:
            near.abort()
        if near.is_closing():
            self._pair.end()

    def data_received(self, data: bytes) -> None:
        self._pair.take(True, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._pair.end()


class _Far(asyncio.Protocol):
    """The broker's side."""

    def __init__(self, pair: _Pair) -> None:
        self._pair = pair

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._pair.far = transport
        self._pair.pass_on()

    def data_received(self, data: bytes) -> None:
        self._pair.take(False, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._pair.end()
