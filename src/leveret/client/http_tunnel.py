"""AMQP in HTTP requests, for networks that allow nothing else.

Two HTTP connections to the broker: on one, data is sent by POST, one request at a time; on the other, a GET waits for
received data. Each request names its byte position, so that a failed request can be repeated without losing or
duplicating a byte. If it keeps failing for PATIENCE seconds, the connection is lost. The broker's side, with the
meaning of each request, is in http/tunnels.py.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Self

import h11

from leveret.client.address import Address
from leveret.client.callbacks import BackgroundTasks
from leveret.client.errors import ConnectionLost
from leveret.client.transports import Listener, security_of
from leveret.version import VERSION

PATH = "/api/tunnel"
CHUNK = 256 << 10  # bytes that are read at once
PIECE = 256 << 10  # bytes of one POST: a slow network must transfer them within the time limit of the broker
HIGH, LOW = 1 << 20, 1 << 18  # watermarks of the bytes that wait to be sent
PATIENCE = 10.0  # seconds during which a failed request is repeated
PAUSE = 0.25  # seconds between two attempts
RESPONSE_SECONDS = 60.0  # after which a request without a response has failed
DELETE_SECONDS = 3.0

_background = BackgroundTasks()


class HttpTunnel:
    def __init__(self, address: Address, listener: Listener, line: HttpLine, id: str, largest: int) -> None:
        """``line``: the connection that opened the tunnel; the broker uses its address as that of the client."""
        self._address = address
        self._listener = listener
        self._path = f"{PATH}/{id}"
        self._largest = min(largest, PIECE)
        self._loop = asyncio.get_running_loop()
        self._up = bytearray()
        self._sent = 0  # bytes that have arrived
        self._work = asyncio.Event()
        self._is_congested = False
        self._is_closing = False
        self._is_over = False
        self._tasks = [self._loop.create_task(each) for each in (self._send(line), self._receive())]
        for task in self._tasks:
            task.add_done_callback(self._failed)

    # ---- called by the connection

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

    # ---- the two HTTP connections

    async def _send(self, line: HttpLine) -> None:
        with line:
            while self._up or not self._is_closing:
                if self._up:
                    piece = bytes(memoryview(self._up)[: self._largest])
                    if await self._response(line, "POST", self._sent, piece) is None:
                        return
                    self._arrived(len(piece))
                else:
                    self._work.clear()
                    await self._work.wait()
            await self._delete(line)
        self._end(None, is_told=True)

    def _arrived(self, size: int) -> None:
        self._sent += size
        del self._up[:size]
        if self._is_congested and len(self._up) <= LOW:
            self._is_congested = False
            self._listener.congested(False)

    async def _receive(self) -> None:
        got = 0
        with HttpLine(self._address) as line:
            while not self._is_over:
                data = await self._response(line, "GET", got)
                if data is None:
                    return
                if data:
                    got += len(data)
                    self._listener.received(data)

    async def _response(self, line: HttpLine, method: str, at: int, body: bytes = b"") -> bytes | None:
        """The body of the response; None if the tunnel has ended."""
        give_up = 0.0
        while not self._is_over:
            try:
                async with asyncio.timeout(RESPONSE_SECONDS):
                    status, answer = await line.request(method, f"{self._path}?at={at}", body)
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
                if _is_not_now(answer):  # the broker waited before it sent this: repeat at once
                    give_up = 0.0
                    continue
            if not give_up:  # the server may have closed an unused connection: repeat at once
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
        """``is_told``: the broker has ended it already."""
        if self._is_over:
            return
        self._is_over = self._is_closing = True
        for task in self._tasks:
            task.cancel()
        if not is_told:
            _background.run(self._leave())
        self._loop.call_soon(self._listener.lost, problem)

    async def _leave(self) -> None:
        with HttpLine(self._address) as line:
            await self._delete(line)

    async def _delete(self, line: HttpLine) -> None:
        """So that the broker does not have to wait for a timeout."""
        with suppress(OSError):
            async with asyncio.timeout(DELETE_SECONDS):
                await line.request("DELETE", self._path)


def _is_not_now(answer: bytes) -> bool:
    """Whether the broker is not reading at the moment. A proxy that cannot reach the broker returns 503 too."""
    try:
        return bool(json.loads(answer)["error"] == "not_now")
    except (ValueError, KeyError, TypeError):
        return False


def _reason(answer: bytes) -> str:
    """The reason in the response of a broker, or the response itself."""
    try:
        return str(json.loads(answer)["reason"])
    except (ValueError, KeyError, TypeError):
        return answer[:200].decode(errors="replace")


async def open_tunnel(address: Address, listener: Listener) -> HttpTunnel:
    line = HttpLine(address)
    try:
        status, answer = await line.request("POST", PATH)
        if status != 201:
            raise ConnectionLost(f"no tunnel at {address.shown}: {status} {_reason(answer)}")
        tunnel = json.loads(answer)
        return HttpTunnel(address, listener, line, str(tunnel["id"]), int(tunnel["largest"]))
    except BaseException as problem:
        line.close()
        if isinstance(problem, ValueError | KeyError | TypeError):
            text = f"no tunnel at {address.shown}: the response does not come from a broker ({problem!r})"
            raise ConnectionLost(text) from problem
        raise


class HttpLine:
    """One persistent HTTP/1.1 connection, for one request after the other. h11 encodes and parses.

    A broken connection is opened again by the next request; the caller decides whether to repeat a failed one.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        host = f"[{address.host}]" if ":" in address.host else address.host
        self._headers = [("Host", f"{host}:{address.port}"), ("User-Agent", f"leveret/{VERSION}")]
        self._protocol = h11.Connection(h11.CLIENT)
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def request(self, method: str, target: str, body: bytes = b"") -> tuple[int, bytes]:
        """Status and body of the response. OSError: the connection broke; the request may or may not have arrived."""
        try:
            if self._writer is None:
                await self._connect()
            return await self._exchange(method, target, body)
        except h11.RemoteProtocolError as problem:
            self.close()
            raise ConnectionError(f"the response is not valid HTTP: {problem}") from problem
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
        self._reader = self._writer = None

    async def _connect(self) -> None:
        where = self._address
        self._reader, self._writer = await asyncio.open_connection(where.host, where.port, **security_of(where))
        self._protocol = h11.Connection(h11.CLIENT)

    async def _exchange(self, method: str, target: str, body: bytes) -> tuple[int, bytes]:
        reader, writer, protocol = self._reader, self._writer, self._protocol
        assert reader is not None
        assert writer is not None
        length = [("Content-Length", str(len(body)))] if method == "POST" else []
        head = protocol.send(h11.Request(method=method, target=target, headers=[*self._headers, *length])) or b""
        writer.write(head + (protocol.send(h11.Data(body)) or b"" if body else b""))
        protocol.send(h11.EndOfMessage())
        await writer.drain()
        status, parts = 0, []
        while True:
            event = protocol.next_event()
            if event is h11.NEED_DATA:
                protocol.receive_data(await reader.read(CHUNK))
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                parts.append(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                break
        if protocol.our_state is h11.DONE and protocol.their_state is h11.DONE:
            protocol.start_next_cycle()
        else:
            self.close()
        return status, b"".join(parts)
