"""A WebSocket at /ws of the HTTP port that carries a stream of bytes: AMQP, or what its subprotocol names.

One object stands between two: it is the protocol of the socket, and the transport of the protocol inside (see
stream_doors.py). Frames are not gathered to messages: their bytes go on as they come, since where a message ends means
nothing to a stream. Compression is not offered. Pings are answered; the heartbeats of AMQP do the rest.

Nobody logs in by a cookie or a header here: the protocol inside asks for a password. All the same a page of another
site is refused by its ``Origin``, or it could try ``guest`` from within the machine of whoever looks at it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterable
from typing import Any

from starlette.requests import Request as PlainRequest
from starlette.responses import JSONResponse
from websockets.exceptions import InvalidHeader
from websockets.frames import CloseCode, Frame, Opcode
from websockets.headers import parse_subprotocol
from websockets.http11 import Request, Response
from websockets.protocol import OPEN
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from leveret.http.errors import NOT_FOUND
from leveret.http.origins import is_same_origin
from leveret.http.stream_listeners import StreamListener, StreamListeners, peer_name
from leveret.logs import get_log
from leveret.server.admission import ADMITTED, Admitted
from leveret.session.limits import UNAUTHENTICATED_BYTES

PATH = "/ws"
PIECE = 256 << 10  # bytes in one frame of ours
DATA = (Opcode.BINARY, Opcode.TEXT, Opcode.CONT)

log = get_log("websocket")
_frame_log = logging.getLogger("leveret.websocket.frames")
_frame_log.setLevel(logging.ERROR)  # the library tells of every connection; so do we


class WebSocketPeer(asyncio.Protocol, asyncio.Transport):
    def __init__(self, listeners: StreamListeners, admitted: Admitted) -> None:
        asyncio.Transport.__init__(self)
        self._listeners = listeners
        self._admitted = admitted  # counted since its socket was accepted
        self._door: StreamListener | None = None  # once hands are shaken
        self._host = ""  # that the peer takes us for
        self._header_names: tuple[str, ...] = ()
        self._inside: asyncio.Protocol | None = None
        self._is_known = False
        self._is_closing = False
        self._is_paused = False  # by the protocol inside
        self._is_full = False  # the peer does not read
        self._is_flooded = False  # it pings all the same, so we do not listen
        self._listens = True
        self._speech = ServerProtocol(max_size=(None, UNAUTHENTICATED_BYTES), logger=_frame_log)
        self._socket: asyncio.Transport = None  # type: ignore[assignment]  # given by connection_made, first of all

    # ---- the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = transport  # type: ignore[assignment]  # uvloop's is one, but not by inheritance

    def data_received(self, data: bytes) -> None:
        self._know()  # first: a login is decided between two reads
        self._speech.receive_data(data)
        heard: list[bytes] = []
        for event in self._speech.events_received():
            if isinstance(event, Request):
                self._shake_hands(event)
            elif isinstance(event, Frame) and event.opcode in DATA and not self._is_unwanted(event):
                heard.append(bytes(event.data))
        if self._flush() and self._is_full:
            self._is_flooded = True
            self._listen_or_not()
        if heard and self._inside is not None and not self._is_closing:
            self._inside.data_received(heard[0] if len(heard) == 1 else b"".join(heard))
        if self._door is not None and self._inside is not None:
            self._door.gather(self._inside, len(self._speech.reader.buffer))
        if self._speech.eof_sent:  # its goodbye is there, or it does not speak WebSocket
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
        self._listen_or_not()
        if self._inside is not None:
            self._inside.resume_writing()

    # ---- hands are shaken

    def _shake_hands(self, request: Request) -> None:
        refusal = self._refusal(request)
        answer = refusal or self._speech.accept(request)
        self._speech.send_response(answer)
        self._flush()
        if answer.status_code != 101:
            log.info(
                "websocket handshake refused", status=answer.status_code, peer=self._socket.get_extra_info("peername")
            )
            self._socket.close()
            return
        assert self._door is not None
        self._inside = self._door.admit()
        self._inside.connection_made(self)

    def _refusal(self, request: Request) -> Response | None:
        if not self._listeners.names:
            return self._refused(404, NOT_FOUND, "no WebSocket is served here: --http-streams on lets them in")
        if request.path.partition("?")[0] != PATH:
            return self._refused(404, NOT_FOUND, f"no WebSocket is at {request.path}: connect to {PATH}")
        self._host = host = ", ".join(request.headers.get_all("Host"))
        self._header_names = tuple(request.headers)
        for origin in request.headers.get_all("Origin"):
            if not is_same_origin(origin, host):
                reason = f"pages of {origin} may not connect: only those that this port serves, and programs"
                return self._refused(403, "access_refused", reason)
        try:
            offered = [name for value in request.headers.get_all("Sec-WebSocket-Protocol") for name in _names(value)]
        except InvalidHeader as problem:
            return self._refused(400, "bad_request", str(problem))
        self._door = self._listeners.chosen(offered)
        if self._door is None:
            known = ", ".join(self._listeners.names)
            return self._refused(
                400, "bad_request", f"no subprotocol of {', '.join(offered)} is spoken: name one of {known}, or none"
            )
        if offered:
            self._speech.available_subprotocols = [Subprotocol(self._door.subprotocol)]
        return None

    def _refused(self, status: int, word: str, reason: str) -> Response:
        answer = self._speech.reject(status, json.dumps({"error": word, "reason": reason}))
        del answer.headers["Content-Type"]
        answer.headers["Content-Type"] = "application/json"
        return answer

    def _know(self) -> None:
        """Who has logged in may send larger frames."""
        if not self._is_known and self._door is not None and self._inside is not None:
            self._is_known = self._door.is_known(self._inside)
            self._speech.max_fragment_size = self._door.most_bytes(self._inside)

    def _is_unwanted(self, frame: Frame) -> bool:
        if frame.opcode is not Opcode.TEXT or self._door is None or self._door.is_text:
            return False
        if self._speech.state is OPEN:
            self._speech.fail(CloseCode.UNSUPPORTED_DATA, f"{self._door.subprotocol} comes in binary messages")
        return True

    # ---- the protocol inside calls

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_closing or self._speech.state is not OPEN:
            return
        view = memoryview(data)
        for start in range(0, len(view), PIECE):
            self._say(view[start : start + PIECE])
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
        self._listen_or_not()

    def resume_reading(self) -> None:
        self._is_paused = False
        self._listen_or_not()

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        """Say goodbye; the socket closes when the peer has said it too. Whoever calls this gives it a time."""
        if self._is_closing:
            return
        self._is_closing = True
        if self._speech.state is OPEN:
            self._speech.send_close(CloseCode.NORMAL_CLOSURE)
            self._flush()
            self._is_paused = False  # or its goodbye would not be heard
            self._listen_or_not()
        else:
            self._socket.close()

    def abort(self) -> None:
        self._is_closing = True
        self._socket.abort()

    # ---- the socket

    def _say(self, piece: memoryview) -> None:
        if self._door is not None and self._door.is_text and _is_text(piece):
            self._speech.send_text(piece)
        else:
            self._speech.send_binary(piece)

    def _flush(self) -> bool:
        """Whether there was something to say."""
        parts = [part for part in self._speech.data_to_send() if part]  # an empty one stands for the end
        if parts and not self._socket.is_closing():
            self._socket.write(b"".join(parts))
        return bool(parts)

    def _listen_or_not(self) -> None:
        listens = not (self._is_paused or self._is_flooded)
        if listens == self._listens or self._socket.is_closing():
            return
        self._listens = listens
        if listens:
            self._socket.resume_reading()
        else:
            self._socket.pause_reading()


async def ask_for_upgrade(request: PlainRequest) -> JSONResponse:
    """For a request that is none for a WebSocket."""
    told = {"error": "upgrade_required", "reason": f"{PATH} is for WebSockets: connect with a client of AMQP over them"}
    return JSONResponse(told, 426, headers={"Upgrade": "websocket", "Connection": "Upgrade"})


def _names(header: str) -> list[str]:
    return list(parse_subprotocol(header))


def _is_text(piece: memoryview) -> bool:
    try:
        str(piece, "utf-8")
    except UnicodeDecodeError:
        return False
    return True
