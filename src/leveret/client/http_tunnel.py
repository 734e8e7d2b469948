"""AMQP in requests of HTTP, for networks that let nothing else through.

Two lines to the broker: on one, what was written goes up by POST, one request at a time; on the other, a GET waits for
what comes down. Each request says at which byte it stands, so a request that broke is sent again without a byte lost
or doubled. When that does not help for PATIENCE seconds, the connection is lost. The broker's side, with the meaning of
each request, is in http/tunnels.py.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

from leveret.client.address import Address
from leveret.client.errors import ConnectionLost
from leveret.client.http_line import HttpLine
from leveret.client.transports import Listener

PATH = "/api/tunnel"
PIECE = 256 << 10  # bytes that go up at once: a slow line has to carry them in the time that the broker gives
HIGH, LOW = 1 << 20, 1 << 18  # bytes that wait to go up: when it is too much, and when there is room again
PATIENCE = 10.0  # seconds in which a request that breaks is sent again
PAUSE = 0.25  # seconds before it is
ANSWERED_LATE = 60.0  # seconds without an answer, after which a request is taken for lost
GOODBYE = 3.0

_farewells: set[asyncio.Task[None]] = set()  # the loop itself keeps no task alive


class HttpTunnel:
    def __init__(self, address: Address, listener: Listener, line: HttpLine, id: str, largest: int) -> None:
        """``line``: by which it was opened; the broker has named the connection for it."""
        self._address = address
        self._listener = listener
        self._path = f"{PATH}/{id}"
        self._largest = min(largest, PIECE)
        self._loop = asyncio.get_running_loop()
        self._up = bytearray()
        self._sent = 0  # bytes that arrived for sure
        self._work = asyncio.Event()
        self._is_congested = False
        self._is_closing = False
        self._is_over = False
        self._tasks = [self._loop.create_task(each) for each in (self._send(line), self._receive())]
        for task in self._tasks:
            task.add_done_callback(self._failed)

    # ---- the connection calls

    def write(self, data: bytes) -> None:
        if self._is_closing:
            return
        self._up += data
        self._work.set()
        if not self._is_congested and len(self._up) > HIGH:
            self._is_congested = True
            self._listener.congested(True)

    def close(self) -> None:
        self._is_closing = True
        self._work.set()

    def abort(self) -> None:
        self._end(None)

    # ---- the two ways

    async def _send(self, line: HttpLine) -> None:
        with line:
            while self._up or not self._is_closing:
                if self._up:
                    piece = bytes(memoryview(self._up)[: self._largest])
                    if await self._asked(line, "POST", self._sent, piece) is None:
                        return
                    self._went_up(len(piece))
                else:
                    self._work.clear()
                    await self._work.wait()
            await self._say_goodbye(line)
        self._end(None, is_told=True)

    def _went_up(self, size: int) -> None:
        self._sent += size
        del self._up[:size]
        if self._is_congested and len(self._up) <= LOW:
            self._is_congested = False
            self._listener.congested(False)

    async def _receive(self) -> None:
        got = 0
        with HttpLine(self._address) as line:
            while not self._is_over:
                data = await self._asked(line, "GET", got)
                if data is None:
                    return
                if data:
                    got += len(data)
                    self._listener.received(data)

    async def _asked(self, line: HttpLine, method: str, at: int, body: bytes = b"") -> bytes | None:
        """The answer; None when there is none, and the tunnel has ended."""
        give_up = 0.0
        while not self._is_over:
            try:
                async with asyncio.timeout(ANSWERED_LATE):
                    status, answer = await line.ask(method, f"{self._path}?at={at}", body)
            except OSError as problem:  # TimeoutError is one
                trouble = f"fails: {problem!r}"
            else:
                if status in (200, 204):
                    return answer
                trouble = f"was answered with {status}: {_reason(answer)}"
                if status == 410:
                    self._end(None, is_told=True)
                    return None
                if status != 503:
                    self._end(ConnectionLost(f"{method} {trouble}"))
                    return None
                if _is_not_now(answer):  # the broker has waited before it said so: the same again
                    give_up = 0.0
                    continue
            if not give_up:  # what was kept open and not used may be closed: that alone is no reason to wait
                give_up = self._loop.time() + PATIENCE
            elif self._loop.time() < give_up:
                await asyncio.sleep(PAUSE)
            else:
                self._end(ConnectionLost(f"{method} {trouble}"))
        return None

    def _failed(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            problem = task.exception()
            self._end(problem if isinstance(problem, Exception) else None)

    def _end(self, problem: Exception | None, *, is_told: bool = False) -> None:
        """``is_told``: the broker knows that it is over."""
        if self._is_over:
            return
        self._is_over = self._is_closing = True
        for task in self._tasks:
            task.cancel()
        if not is_told:
            farewell = self._loop.create_task(self._leave())
            _farewells.add(farewell)
            farewell.add_done_callback(_farewells.discard)
        self._loop.call_soon(self._listener.lost, problem)

    async def _leave(self) -> None:
        with HttpLine(self._address) as line:
            await self._say_goodbye(line)

    async def _say_goodbye(self, line: HttpLine) -> None:
        """So that the broker need not wait until the tunnel has been silent for long."""
        with suppress(OSError):
            async with asyncio.timeout(GOODBYE):
                await line.ask("DELETE", self._path)


def _is_not_now(answer: bytes) -> bool:
    """Whether the broker does not listen for now. A proxy says 503, too, when it does not reach the broker."""
    try:
        return bool(json.loads(answer)["error"] == "not_now")
    except (ValueError, KeyError, TypeError):
        return False


def _reason(answer: bytes) -> str:
    """In the words of the broker, if it is one."""
    try:
        return str(json.loads(answer)["reason"])
    except (ValueError, KeyError, TypeError):
        return answer[:200].decode(errors="replace")


async def open_tunnel(address: Address, listener: Listener) -> HttpTunnel:
    line = HttpLine(address)
    try:
        status, answer = await line.ask("POST", PATH)
        if status != 201:
            raise ConnectionLost(f"no tunnel at {address.shown}: {status} {_reason(answer)}")
        told = json.loads(answer)
        return HttpTunnel(address, listener, line, str(told["id"]), int(told["largest"]))
    except BaseException as problem:
        line.hang_up()
        if isinstance(problem, ValueError | KeyError | TypeError):
            raise ConnectionLost(f"no tunnel at {address.shown}: a broker answers otherwise ({problem!r})") from problem
        raise
