"""One HTTP/1.1 connection that is kept, and does one request after the other.

Just enough for a tunnel: h11 reads and writes the messages, asyncio's streams carry them. A connection that broke is
made anew with the next request; whether a request is sent again is for the caller to say.
"""

from __future__ import annotations

import asyncio
from typing import Self

import h11

from leveret.client.address import Address
from leveret.client.transports import security_of
from leveret.version import VERSION

CHUNK = 256 << 10


class HttpLine:
    def __init__(self, address: Address) -> None:
        self._address = address
        host = f"[{address.host}]" if ":" in address.host else address.host
        self._headers = [("Host", f"{host}:{address.port}"), ("User-Agent", f"leveret/{VERSION}")]
        self._speech = h11.Connection(h11.CLIENT)
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, method: str, target: str, body: bytes = b"") -> tuple[int, bytes]:
        """Status and body of the answer. OSError: the connection broke; the request may or may not have arrived."""
        try:
            if self._writer is None:
                await self._connect()
            return await self._exchange(method, target, body)
        except h11.RemoteProtocolError as problem:
            self.hang_up()
            raise ConnectionError(f"no answer in HTTP: {problem}") from problem
        except BaseException:
            self.hang_up()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.hang_up()

    def hang_up(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
        self._reader = self._writer = None

    async def _connect(self) -> None:
        where = self._address
        self._reader, self._writer = await asyncio.open_connection(where.host, where.port, **security_of(where))
        self._speech = h11.Connection(h11.CLIENT)

    async def _exchange(self, method: str, target: str, body: bytes) -> tuple[int, bytes]:
        reader, writer, speech = self._reader, self._writer, self._speech
        assert reader is not None
        assert writer is not None
        length = [("Content-Length", str(len(body)))] if method == "POST" else []
        head = speech.send(h11.Request(method=method, target=target, headers=[*self._headers, *length])) or b""
        writer.write(head + (speech.send(h11.Data(body)) or b"" if body else b""))
        speech.send(h11.EndOfMessage())
        await writer.drain()
        status, parts = 0, []
        while True:
            event = speech.next_event()
            if event is h11.NEED_DATA:
                speech.receive_data(await reader.read(CHUNK))
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                parts.append(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                break
        if speech.our_state is h11.DONE and speech.their_state is h11.DONE:
            speech.start_next_cycle()
        else:
            self.hang_up()
        return status, b"".join(parts)
