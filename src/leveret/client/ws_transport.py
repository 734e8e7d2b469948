"""AMQP over a WebSocket: the bytes are sent in binary messages, whose boundaries have no meaning.

The socket below counts the bytes that wait to be sent, so back-pressure is the same as without the WebSocket.
"""

from __future__ import annotations

import asyncio
import logging

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import OPEN
from websockets.typing import Subprotocol
from websockets.uri import WebSocketURI

from leveret.client.address import Address
from leveret.client.errors import ConnectionLost
from leveret.client.transports import Listener, TcpTransport, security_of

PATH = "/ws"
SUBPROTOCOL = Subprotocol("amqp")
PIECE = 64 << 10  # bytes in one frame that is sent
LARGEST_MESSAGE = 16 << 20  # bytes in one message that is received; the broker sends 256 KiB
CLOSE_SECONDS = 5.0  # for the broker to close the socket

_frame_log = logging.getLogger("leveret.client.websocket")
_frame_log.setLevel(logging.ERROR)  # the library logs every connection


class WsTransport(TcpTransport):
    def __init__(self, address: Address, listener: Listener) -> None:
        super().__init__(listener)
        self._address = address
        uri = WebSocketURI(address.is_tls, address.host, address.port, PATH, "")
        self._protocol = ClientProtocol(uri, subprotocols=[SUBPROTOCOL], max_size=LARGEST_MESSAGE, logger=_frame_log)
        self._loop = asyncio.get_running_loop()
        self._reaper: asyncio.TimerHandle | None = None
        self.handshake: asyncio.Future[None] = self._loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._protocol.send_request(self._protocol.connect())
        self._flush()

    def data_received(self, data: bytes) -> None:
        self._protocol.receive_data(data)
        received: list[bytes] = []
        for event in self._protocol.events_received():
            if isinstance(event, Response):
                self._end_handshake()
            elif isinstance(event, Frame) and event.opcode in (Opcode.BINARY, Opcode.TEXT, Opcode.CONT):
                received.append(bytes(event.data))
        self._flush()
        if received:
            self._listener.received(received[0] if len(received) == 1 else b"".join(received))
        if self._protocol.close_expected():
            self._end_soon()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._reaper is not None:
            self._reaper.cancel()
        if not self._protocol.reader.eof:
            self._protocol.receive_eof()
        self._end_handshake()
        if not self.handshake.cancelled() and self.handshake.exception() is None:
            self._listener.lost(exc or self._cause())

    def write(self, data: bytes) -> None:
        if self._protocol.state is OPEN:
            view = memoryview(data)
            for start in range(0, len(view), PIECE):
                self._protocol.send_binary(view[start : start + PIECE])
            self._flush()

    def close(self) -> None:
        if self._protocol.state is OPEN:
            self._protocol.send_close(CloseCode.NORMAL_CLOSURE)
            self._flush()
        self._end_soon()

    def _end_handshake(self) -> None:
        """Resolve the future of the handshake."""
        if self.handshake.done():
            return
        problem = self._protocol.handshake_exc
        if problem is None and self._protocol.state is OPEN:
            self.handshake.set_result(None)
        else:
            self.handshake.set_exception(
                ConnectionLost(f"no WebSocket at {self._address.shown}{PATH}: {_reason(problem)}")
            )

    def _flush(self) -> None:
        parts = [part for part in self._protocol.data_to_send() if part]  # an empty part marks the end
        if parts and not self._socket.is_closing():
            self._socket.write(b"".join(parts))

    def _end_soon(self) -> None:
        """The broker closes the socket; abort it if the broker does not."""
        if self._reaper is None:
            self._reaper = self._loop.call_later(CLOSE_SECONDS, self._socket.abort)

    def _cause(self) -> Exception | None:
        """Why the broker or the library closed it; None after a normal close."""
        close = self._protocol.close_rcvd
        if close is not None and close.code not in (CloseCode.NORMAL_CLOSURE, CloseCode.NO_STATUS_RCVD):
            return ConnectionLost(f"the WebSocket was closed with {close.code} {close.reason}".rstrip())
        return self._protocol.parser_exc if not isinstance(self._protocol.parser_exc, EOFError) else None


def _reason(problem: Exception | None) -> str:
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
        await transport.handshake
    except BaseException:
        transport.abort()
        raise
    return transport
