"""WebSocket connections at /ws of the HTTP port, which carry AMQP or the protocol named by the subprotocol.

One object is the asyncio protocol of the socket and the transport of the protocol inside (stream_listeners.py). Frames
are not collected into messages: the stream inside has no use for message boundaries. Compression is not offered. Pings
are answered; dead connections are detected by AMQP heartbeats.

Cookies and headers do not authenticate here: the protocol inside does. Still, pages of other websites are refused by
their ``Origin``: otherwise they could try ``guest`` from the browser of a user on this machine.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any

from starlette.requests import Request as PlainRequest
from starlette.responses import JSONResponse
from websockets.exceptions import InvalidHeader
from websockets.frames import CloseCode, Frame, Opcode
from websockets.headers import parse_subprotocol
from websockets.http11 import Request, Response
from websockets.protocol import OPEN
from websockets.typing import Subprotocol

from leveret.http.errors import NOT_FOUND
from leveret.http.origins import is_same_origin
from leveret.http.stream_listeners import StreamListener, StreamListeners, peer_name
from leveret.http.websocket_frames import WebSocketFrames
from leveret.logs import get_log
from leveret.server.admission import ADMITTED, Admitted
from leveret.session.limits import UNAUTHENTICATED_BYTES

PATH = "/ws"
PIECE = 256 << 10  # bytes in one frame to the client
DATA = (Opcode.BINARY, Opcode.TEXT, Opcode.CONT)

log = get_log("websocket")


class WebSocketBridge(asyncio.Protocol, asyncio.Transport):
    def __init__(self, listeners: StreamListeners, admitted: Admitted) -> None:
        asyncio.Transport.__init__(self)
        self._listeners = listeners
        self._admitted = admitted  # counted since the socket was accepted
        self._listener: StreamListener | None = None  # known after the handshake
        self._host = ""  # the Host header
        self._header_names: tuple[str, ...] = ()
        self._inside: asyncio.Protocol | None = None
        self._is_authenticated = False
        self._is_closing = False
        self._is_paused = False  # reading is paused by the protocol inside
        self._is_full = False  # the client does not read
        self._is_flooded = False  # the client does not read but sends pings, so reading is paused
        self._is_reading = True
        self._websocket = WebSocketFrames(UNAUTHENTICATED_BYTES)
        self._socket: asyncio.Transport = None  # type: ignore[assignment]  # set by connection_made

    # ---- called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = transport  # type: ignore[assignment]  # a uvloop transport does not inherit from it

    def data_received(self, data: bytes) -> None:
        self._update_limit()  # first: the client may have authenticated since the last read
        self._websocket.receive_data(data)
        received: list[bytes] = []
        for event in self._websocket.events_received():
            if isinstance(event, Request):
                self._handshake(event)
            elif isinstance(event, Frame) and event.opcode in DATA and not self._is_unwanted(event):
                received.append(bytes(event.data))
        if self._flush() and self._is_full:
            self._is_flooded = True
            self._update_reading()
        if received and self._inside is not None and not self._is_closing:
            self._inside.data_received(received[0] if len(received) == 1 else b"".join(received))
        if self._listener is not None and self._inside is not None:
            self._listener.gather(self._inside, len(self._websocket.reader.buffer))
        if self._websocket.eof_sent:  # the client sent a close frame, or violated the protocol
            self._is_closing = True
            self._socket.close()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closing = True
        self._admitted.leave()
        if self._inside is not None:
            self._inside.connection_lost(exc)

    def pause_writing(self) -> None:
        self._is_full = True
        if self._inside is not None:
            self._inside.pause_writing()

    def resume_writing(self) -> None:
        self._is_full = self._is_flooded = False
        self._update_reading()
        if self._inside is not None:
            self._inside.resume_writing()

    # ---- handshake

    def _handshake(self, request: Request) -> None:
        refusal = self._refusal(request)
        answer = refusal or self._websocket.accept(request)
        self._websocket.send_response(answer)
        self._flush()
        if answer.status_code != 101:
            log.info(
                "websocket handshake refused", status=answer.status_code, peer=self._socket.get_extra_info("peername")
            )
            self._socket.close()
            return
        assert self._listener is not None
        self._inside = self._listener.admit()
        self._inside.connection_made(self)

    def _refusal(self, request: Request) -> Response | None:
        if not self._listeners.names:
            return self._refused(
                404, NOT_FOUND, "WebSocket connections are disabled: enable them with --http-streams on"
            )
        if request.path.partition("?")[0] != PATH:
            return self._refused(404, NOT_FOUND, f"no WebSocket endpoint at {request.path}: connect to {PATH}")
        self._host = host = ", ".join(request.headers.get_all("Host"))
        self._header_names = tuple(request.headers)
        for origin in request.headers.get_all("Origin"):
            if not is_same_origin(origin, host):
                reason = f"pages of {origin} may not connect: only pages of this broker, and programs"
                return self._refused(403, "access_refused", reason)
        try:
            offered = [
                name for value in request.headers.get_all("Sec-WebSocket-Protocol") for name in _subprotocols(value)
            ]
        except InvalidHeader as problem:
            return self._refused(400, "bad_request", str(problem))
        self._listener = self._listeners.chosen(offered)
        if self._listener is None:
            known = ", ".join(self._listeners.names)
            return self._refused(
                400, "bad_request", f"unsupported subprotocol {', '.join(offered)}: use one of {known}, or none"
            )
        if offered:
            self._websocket.available_subprotocols = [Subprotocol(self._listener.subprotocol)]
        return None

    def _refused(self, status: int, word: str, reason: str) -> Response:
        answer = self._websocket.reject(status, json.dumps({"error": word, "reason": reason}))
        del answer.headers["Content-Type"]
        answer.headers["Content-Type"] = "application/json"
        return answer

    def _update_limit(self) -> None:
        """An authenticated client may send larger frames."""
        if not self._is_authenticated and self._listener is not None and self._inside is not None:
            self._is_authenticated = self._listener.is_known(self._inside)
            self._websocket.limit(self._listener.most_bytes(self._inside))

    def _is_unwanted(self, frame: Frame) -> bool:
        if frame.opcode is not Opcode.TEXT or self._listener is None or self._listener.is_text:
            return False
        if self._websocket.state is OPEN:
            self._websocket.fail(CloseCode.UNSUPPORTED_DATA, f"{self._listener.subprotocol} needs binary messages")
        return True

    # ---- called by the protocol inside

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_closing or self._websocket.state is not OPEN:
            return
        view = memoryview(data)
        for start in range(0, len(view), PIECE):
            self._send(view[start : start + PIECE])
        self._flush()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def get_write_buffer_size(self) -> int:
        return self._socket.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._socket.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == ADMITTED:
            return self._admitted
        found = self._socket.get_extra_info(name, default)
        return peer_name(found, self._host, self._header_names) if name == "peername" else found

    def pause_reading(self) -> None:
        self._is_paused = True
        self._update_reading()

    def resume_reading(self) -> None:
        self._is_paused = False
        self._update_reading()

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        """Send a close frame; the socket closes when the client has sent one too. The caller sets a time limit."""
        if self._is_closing:
            return
        self._is_closing = True
        if self._websocket.state is OPEN:
            self._websocket.send_close(CloseCode.NORMAL_CLOSURE)
            self._flush()
            self._is_paused = False  # to receive the client's close frame
            self._update_reading()
        else:
            self._socket.close()

    def abort(self) -> None:
        self._is_closing = True
        self._socket.abort()

    # ---- the socket

    def _send(self, piece: memoryview) -> None:
        if self._listener is not None and self._listener.is_text and _is_text(piece):
            self._websocket.send_text(piece)
        else:
            self._websocket.send_binary(piece)

    def _flush(self) -> bool:
        """Send pending bytes; True if there were any."""
        parts = [part for part in self._websocket.data_to_send() if part]  # an empty one marks the end
        if parts and not self._socket.is_closing():
            self._socket.write(b"".join(parts))
        return bool(parts)

    def _update_reading(self) -> None:
        is_reading = not (self._is_paused or self._is_flooded)
        if is_reading == self._is_reading or self._socket.is_closing():
            return
        self._is_reading = is_reading
        if is_reading:
            self._socket.resume_reading()
        else:
            self._socket.pause_reading()


async def require_upgrade(request: PlainRequest) -> JSONResponse:
    """The response to a plain HTTP request at the WebSocket path."""
    body = {
        "error": "upgrade_required",
        "reason": f"{PATH} needs a WebSocket: connect with an AMQP client over WebSocket",
    }
    return JSONResponse(body, 426, headers={"Upgrade": "websocket", "Connection": "Upgrade"})


def _subprotocols(header: str) -> list[str]:
    return list(parse_subprotocol(header))


def _is_text(piece: memoryview) -> bool:
    try:
        str(piece, "utf-8")
    except UnicodeDecodeError:
        return False
    return True
