"""A WebSocket as a plain blocking socket, with everything that can be done wrong on it."""

from __future__ import annotations

import socket
from collections import deque
from urllib.parse import urlsplit

from websockets.client import ClientProtocol
from websockets.frames import Close, Frame, Opcode
from websockets.http11 import Response
from websockets.typing import Origin, Subprotocol
from websockets.uri import WebSocketURI

from tests.support.raw_client import RawClient

SECONDS = 60.0


class WsSocket:
    """``answer`` is what the handshake ended with. Has of a socket what RawClient uses."""

    def __init__(
        self,
        url: str,
        path: str = "/ws",
        *,
        subprotocols: tuple[str, ...] = ("amqp",),
        origin: str | None = None,
        named: str | None = None,  # the host that we take it for
    ) -> None:
        where = urlsplit(url)
        assert where.hostname is not None
        self.socket = socket.create_connection((where.hostname, where.port), SECONDS)
        self.speech = ClientProtocol(
            WebSocketURI(False, named or where.hostname, where.port or 80, path, ""),
            subprotocols=[Subprotocol(each) for each in subprotocols] or None,
            origin=None if origin is None else Origin(origin),
            max_size=None,
        )
        self.frames: deque[Frame] = deque()  # that came and were not looked at
        self.speech.send_request(self.speech.connect())
        self._flush()
        self._answers: list[Response] = []
        self.answer = self._shake_hands()

    # ---- of a socket

    def settimeout(self, seconds: float) -> None:
        self.socket.settimeout(seconds)

    def sendall(self, data: bytes) -> None:
        self.speech.send_binary(data)
        self._flush()

    def recv(self, most: int) -> bytes:
        """The next data, whole; none when the WebSocket is closed."""
        frame = self.next_frame()
        return b"" if frame is None or frame.opcode is Opcode.CLOSE else bytes(frame.data)

    def close(self) -> None:
        self.socket.close()

    # ---- of a WebSocket

    def next_frame(self) -> Frame | None:
        while not self.frames:
            if not self._hear():
                return None
        return self.frames.popleft()

    def expect_close(self) -> Close:
        frame = self.next_frame()
        assert frame is not None, "closed without a word"
        assert frame.opcode is Opcode.CLOSE, frame
        return Close.parse(frame.data)

    def send_raw(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send_frame(self, opcode: Opcode, data: bytes, fin: bool = True) -> None:
        self.speech.send_frame(Frame(opcode, data, fin))
        self._flush()

    def _shake_hands(self) -> Response | None:
        while not self._answers:
            if not self._hear():
                return None
        return self._answers[0]

    def _flush(self) -> None:
        for part in self.speech.data_to_send():
            if part:
                self.socket.sendall(part)

    def _hear(self) -> bool:
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionResetError:
            return False
        if not data:
            return False
        self.speech.receive_data(data)
        for event in self.speech.events_received():
            if isinstance(event, Response):
                self._answers.append(event)
            elif isinstance(event, Frame):
                self.frames.append(event)
        self._flush()
        return True


class WsRawClient(RawClient):
    """Raw frames of AMQP over a WebSocket; ``url`` is that of the HTTP port."""

    def __init__(self, url: str, *, timeout: float = SECONDS, ws: WsSocket | None = None) -> None:
        super().__init__(url, timeout=timeout)
        self.socket.close()
        self.ws = ws or WsSocket(url)
        self.socket = self.ws  # type: ignore[assignment]  # as much of one as is used
