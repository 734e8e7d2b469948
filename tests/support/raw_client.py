"""A blocking AMQP client that sends exactly what a test passes, valid or not. Every wait is bounded."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import NamedTuple, Self, TypeVar
from urllib.parse import unquote, urlsplit

from leveret.wire.constants import FRAME_BODY, FRAME_HEADER, FRAME_HEARTBEAT, FRAME_METHOD, PROTOCOL_HEADER
from leveret.wire.fields import Table
from leveret.wire.frames import CONTENT_HEADER, content_frames, decode_method, frame, method_frame
from leveret.wire.methods import (
    BasicDeliver,
    BasicGetOk,
    BasicPublish,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
)
from leveret.wire.properties import Properties, decode_properties, encode_properties
from tests.support.frame_reader import FrameReader

M = TypeVar("M", bound=Method)

CAPABILITIES: Table = {
    "authentication_failure_close": True,
    "basic.nack": True,
    "connection.blocked": True,
    "consumer_cancel_notify": True,
    "publisher_confirms": True,
}


class Frame(NamedTuple):
    kind: int
    channel: int
    payload: bytes


class Content(NamedTuple):
    """A message as it came: its method, properties and body, and how many body frames it took."""

    method: BasicDeliver | BasicGetOk | BasicReturn
    properties: Properties
    body: bytes
    frames: int


def plain(user: str, password: str) -> bytes:
    return b"\0" + user.encode() + b"\0" + password.encode()


def eventually(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Ask, within bounds, until it holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.005)  # a condition that only reads a log would keep the core from the process that writes it


class RawClient:
    """Connects on construction and sends nothing by itself; ``RawClient.open(url)`` also does the handshake."""

    def __init__(
        self, url: str, *, timeout: float = 60.0, tls: ssl.SSLContext | None = None, source: str | None = None
    ) -> None:
        parts = urlsplit(url)
        self.user, self.password = unquote(parts.username or "guest"), unquote(parts.password or "guest")
        self.virtual_host = unquote(parts.path[1:]) or "/"
        self.timeout = timeout
        self.frame_max = 131072
        self.start: ConnectionStart | None = None
        self._frames: deque[Frame] = deque()
        self._reader = FrameReader(limit=0)
        here = (source, 0) if source else None
        self.socket = socket.create_connection((parts.hostname or "", parts.port or 5672), timeout, here)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname=parts.hostname)

    @classmethod
    def open(cls, url: str, *, channels: int = 1, **tuning: object) -> Self:
        """A connection with open channels 1 to ``channels``."""
        connecting = {name: tuning.pop(name) for name in ("timeout", "tls", "source") if name in tuning}
        client = cls(url, **connecting)  # type: ignore[arg-type]
        try:
            client.handshake(**tuning)  # type: ignore[arg-type]
            for number in range(1, channels + 1):
                client.open_channel(number)
        except BaseException:
            client.cut()
            raise
        return client

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()

    # ---- the handshake

    def handshake(
        self,
        *,
        mechanism: str = "PLAIN",
        response: bytes | None = None,
        capabilities: Table | None = None,
        properties: Table | None = None,
        channel_max: int | None = None,
        frame_max: int | None = None,
        heartbeat: int = 0,
        virtual_host: str | None = None,
    ) -> None:
        self.login(mechanism=mechanism, response=response, capabilities=capabilities, properties=properties)
        self.tune(channel_max=channel_max, frame_max=frame_max, heartbeat=heartbeat)
        self.send(ConnectionOpen(self.virtual_host if virtual_host is None else virtual_host), 0)
        self.expect(ConnectionOpenOk, 0)

    def login(
        self,
        *,
        mechanism: str = "PLAIN",
        response: bytes | None = None,
        capabilities: Table | None = None,
        properties: Table | None = None,
    ) -> None:
        """Header and start-ok; the answer to it is not awaited."""
        self.send_bytes(PROTOCOL_HEADER)
        self.start = self.expect(ConnectionStart, 0)
        said: Table = {"capabilities": CAPABILITIES if capabilities is None else capabilities, **(properties or {})}
        proof = plain(self.user, self.password) if response is None else response
        self.send(ConnectionStartOk(said, mechanism, proof, "en_US"), 0)

    def tune(self, *, channel_max: int | None = None, frame_max: int | None = None, heartbeat: int = 0) -> None:
        offer = self.expect(ConnectionTune, 0)
        answer = ConnectionTuneOk(
            offer.channel_max if channel_max is None else channel_max,
            offer.frame_max if frame_max is None else frame_max,
            heartbeat,
        )
        self.frame_max = answer.frame_max or offer.frame_max
        self.send(answer, 0)

    def open_channel(self, number: int) -> None:
        self.call(ChannelOpen(), ChannelOpenOk, number)

    # ---- saying

    def send_bytes(self, data: bytes) -> None:
        self.socket.settimeout(self.timeout)
        self.socket.sendall(data)

    def send_slowly(self, data: bytes) -> None:
        """One byte at a time."""
        for at in range(len(data)):
            self.send_bytes(data[at : at + 1])

    def send(self, method: Method, channel: int = 1) -> None:
        self.send_bytes(method_frame(channel, method))

    def send_frame(self, kind: int, channel: int, payload: bytes) -> None:
        self.send_bytes(frame(kind, channel, payload))

    def publish(
        self,
        exchange: str,
        key: str,
        body: bytes = b"",
        properties: Properties | None = None,
        *,
        channel: int = 1,
        mandatory: bool = False,
        piece: int = 0,
    ) -> None:
        method = BasicPublish(exchange, key, mandatory)
        self.send_bytes(publish_bytes(method, body, properties, channel, (piece + 8) if piece else self.frame_max))

    # ---- hearing

    def frames(self) -> Iterator[Frame]:
        """Frames as they come; ends with the connection, fails when nothing comes in time."""
        deadline = time.monotonic() + self.timeout
        while True:
            while self._frames:
                yield self._frames.popleft()
                deadline = time.monotonic() + self.timeout
            self.socket.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                data = self.socket.recv(1 << 16)
            except TimeoutError:
                raise AssertionError(f"nothing heard for {self.timeout} s") from None
            except ConnectionResetError:
                return
            if not data:
                return
            self._frames.extend(Frame(*each) for each in self._reader.feed(data))

    def next_frame(self) -> Frame:
        """The next frame that is no heartbeat."""
        found = next((each for each in self.frames() if each.kind != FRAME_HEARTBEAT), None)
        assert found is not None, "the connection was closed"
        return found

    def unread(self, frame: Frame) -> None:
        """Put a frame back: it was only looked at."""
        self._frames.appendleft(frame)

    def expect(self, wanted: type[M], channel: int = 1) -> M:
        found = self.next_frame()
        assert found.kind == FRAME_METHOD, found
        method = decode_method(found.payload)
        assert isinstance(method, wanted), f"wanted {wanted.__name__}, got {method}"
        assert found.channel == channel, found
        return method

    def call(self, method: Method, answer: type[M], channel: int = 1) -> M:
        self.send(method, channel)
        return self.expect(answer, channel)

    def expect_content(
        self, wanted: type[BasicDeliver] | type[BasicGetOk] | type[BasicReturn] = BasicDeliver, channel: int = 1
    ) -> Content:
        """A message: its method, header and all of its body frames, none of them larger than was tuned."""
        method = self.expect(wanted, channel)
        header = self.next_frame()
        assert (header.kind, header.channel) == (FRAME_HEADER, channel)
        _, _, size = CONTENT_HEADER.unpack_from(header.payload)
        properties = decode_properties(header.payload, CONTENT_HEADER.size, len(header.payload))
        parts: list[bytes] = []
        left = size
        while left > 0:
            part = self.next_frame()
            assert (part.kind, part.channel) == (FRAME_BODY, channel), part
            assert len(part.payload) + 8 <= self.frame_max
            parts.append(part.payload)
            left -= len(part.payload)
        assert left == 0
        return Content(method, properties, b"".join(parts), len(parts))

    def expect_channel_close(self, code: int, channel: int = 1) -> ChannelClose:
        closed = self.expect(ChannelClose, channel)
        assert closed.reply_code == code, closed
        self.send(ChannelCloseOk(), channel)
        return closed

    def expect_close(self, code: int) -> ConnectionClose:
        """A close of the connection, and after our close-ok its end."""
        closed = self.expect(ConnectionClose, 0)
        assert closed.reply_code == code, closed
        with contextlib.suppress(OSError):
            self.send(ConnectionCloseOk(), 0)
        self.expect_eof()
        return closed

    def expect_eof(self) -> None:
        left = [each for each in self.frames() if each.kind != FRAME_HEARTBEAT]
        assert not left, left

    def expect_raw(self, data: bytes) -> None:
        """Expect exactly these bytes and then the end: for peers that get no AMQP error."""
        heard = b""
        self.socket.settimeout(self.timeout)
        with contextlib.suppress(ConnectionResetError):
            while part := self.socket.recv(1024):
                heard += part
        assert heard == data

    def is_alive(self, channel: int = 1) -> None:
        """A round trip on a channel: nothing unexpected is under way on it, and it works."""
        self.call(QueueDeclare(exclusive=True), QueueDeclareOk, channel)

    # ---- the end

    def close(self) -> None:
        self.send(ConnectionClose(200, "bye"), 0)
        self.expect(ConnectionCloseOk, 0)
        self.expect_eof()

    def cut(self) -> None:
        """Gone without a word."""
        self.socket.close()


def publish_bytes(
    method: BasicPublish, body: bytes, properties: Properties | None = None, channel: int = 1, frame_max: int = 131072
) -> bytes:
    header = encode_properties(properties or Properties())
    return method_frame(channel, method) + content_frames(channel, header, body, frame_max)
