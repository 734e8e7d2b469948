"""AMQP over a WebSocket: the bytes go in binary messages, and where one ends means nothing.

What waits to be sent is counted by the socket below, so back-pressure is the same as without the WebSocket.
"""

from __future__ import annotations

import asyncio
import logging
from typing import cast

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import OPEN
from websockets.typing import Subprotocol
from websockets.uri import WebSocketURI

from leveret.client.address import Address
from leveret.client.errors import ConnectionLost
from leveret.client.transports import Listener, security_of

PATH = "/ws"
SUBPROTOCOL = Subprotocol("amqp")
PIECE = 64 << 10  # bytes in one frame of ours
LARGEST_PIECE = 16 << 20  # in one frame of the broker's
GOODBYE = 5.0  # seconds for the broker to close, after we have

_frame_log = logging.getLogger("leveret.client.websocket")
_frame_log.setLevel(logging.ERROR)  # the library tells of every connection


class WsTransport(asyncio.Protocol):
    def __init__(self, address: Address, listener: Listener) -> None:
        self._address = address
        self._listener = listener
        uri = WebSocketURI(address.is_tls, address.host, address.port, PATH, "")
        self._speech = ClientProtocol(
            uri, subprotocols=[SUBPROTOCOL], max_size=(None, LARGEST_PIECE), logger=_frame_log
        )
        self._loop = asyncio.get_running_loop()
        self._socket: asyncio.Transport = None  # type: ignore[assignment]  # given by connection_made, first of all
        self._reaper: asyncio.TimerHandle | None = None
        self.shaken: asyncio.Future[None] = self._loop.create_future()  # hands

    # ---- the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = cast(asyncio.Transport, transport)  # uvloop's is one, but not by inheritance
        self._speech.send_request(self._speech.connect())
        self._flush()

    def data_received(self, data: bytes) -> None:
        self._speech.receive_data(data)
        heard: list[bytes] = []
        for event in self._speech.events_received():
            if isinstance(event, Response):
                self._welcomed()
            elif isinstance(event, Frame) and event.opcode in (Opcode.BINARY, Opcode.TEXT, Opcode.CONT):
                heard.append(bytes(event.data))
        self._flush()
        if heard:
            self._listener.received(heard[0] if len(heard) == 1 else b"".join(heard))
        if self._speech.close_expected():
            self._end_soon()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._reaper is not None:
            self._reaper.cancel()
        if not self._speech.reader.eof:
            self._speech.receive_eof()
        self._welcomed()
        if not self.shaken.cancelled() and self.shaken.exception() is None:
            self._listener.lost(exc or self._cause())

    def pause_writing(self) -> None:
        self._listener.congested(True)

    def resume_writing(self) -> None:
        self._listener.congested(False)

    # ---- the connection calls

    def write(self, data: bytes) -> None:
        if self._speech.state is OPEN:
            view = memoryview(data)
            for start in range(0, len(view), PIECE):
                self._speech.send_binary(view[start : start + PIECE])
            self._flush()

    def close(self) -> None:
        if self._speech.state is OPEN:
            self._speech.send_close(CloseCode.NORMAL_CLOSURE)
            self._flush()
        self._end_soon()

    def abort(self) -> None:
        self._socket.abort()

    # ----

    def _welcomed(self) -> None:
        """Resolve the future of the handshake."""
        if self.shaken.done():
            return
        problem = self._speech.handshake_exc
        if problem is None and self._speech.state is OPEN:
            self.shaken.set_result(None)
        else:
            self.shaken.set_exception(ConnectionLost(f"no WebSocket at {self._address.shown}{PATH}: {_told(problem)}"))

    def _flush(self) -> None:
        parts = [part for part in self._speech.data_to_send() if part]  # an empty one stands for the end
        if parts and not self._socket.is_closing():
            self._socket.write(b"".join(parts))

    def _end_soon(self) -> None:
        """The broker closes the socket; if it does not, we do."""
        if self._reaper is None:
            self._reaper = self._loop.call_later(GOODBYE, self._socket.abort)

    def _cause(self) -> Exception | None:
        """Why the broker, or the library, ended it; None for an orderly end."""
        said = self._speech.close_rcvd
        if said is not None and said.code not in (CloseCode.NORMAL_CLOSURE, CloseCode.NO_STATUS_RCVD):
            return ConnectionLost(f"the WebSocket was closed with {said.code} {said.reason}".rstrip())
        return self._speech.parser_exc if not isinstance(self._speech.parser_exc, EOFError) else None


def _told(problem: Exception | None) -> str:
    if isinstance(problem, InvalidStatus):
        answer = problem.response
        text = bytes(answer.body or b"").decode(errors="replace")
        return f"{answer.status_code} {answer.reason_phrase} {text}".strip()
    return str(problem or "the connection ended in the handshake")


async def open_ws(address: Address, listener: Listener) -> WsTransport:
    _, transport = await asyncio.get_running_loop().create_connection(
        lambda: WsTransport(address, listener), address.host, address.port, **security_of(address)
    )
    try:
        await transport.shaken
    except BaseException:
        transport.abort()
        raise
    return transport
