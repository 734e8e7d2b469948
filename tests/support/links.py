"""Asynchronous raw connections, for tests that have many of them under way at once. Every wait is bounded.

A ``Link`` has one channel and receives methods one after the other, each with its content; heartbeats and blocking are
only noted. When the broker is gone every call raises ``Gone``; what the broker had sent before is received first.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple, Self, TypeVar
from urllib.parse import unquote, urlsplit

from leveret.wire.constants import FRAME_BODY, FRAME_HEADER, FRAME_HEARTBEAT, PROTOCOL_HEADER
from leveret.wire.frames import CONTENT_HEADER, decode_method, frame, method_frame
from leveret.wire.methods import (
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUnblocked,
    Method,
)
from leveret.wire.properties import Properties, decode_properties
from tests.support.frame_reader import FrameReader
from tests.support.raw_client import CAPABILITIES, plain, publish_bytes

M = TypeVar("M", bound=Method)
SECONDS = 60.0  # the longest wait for a reply
NO_PROPERTIES = Properties()


class Gone(Exception):
    """The broker closed the connection, or its process ended."""


class Silent(AssertionError):
    """Nothing came from the broker for so long."""


class Refused(Exception):
    """The broker closed the channel. ``Link.expect`` has opened it again."""

    def __init__(self, close: ChannelClose) -> None:
        super().__init__(f"{close.reply_code} {close.reply_text}")
        self.code = close.reply_code


class Heard(NamedTuple):
    method: Method
    properties: Properties = NO_PROPERTIES
    body: bytes = b""


class Link:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._frames = FrameReader(limit=0)
        self._heard: deque[Heard] = deque()
        self._pending: Heard | None = None  # content whose body is not whole yet
        self._parts: list[bytes] = []
        self._left = 0
        self._ended = ""
        self.frame_max = 131072
        self.heartbeats = 0
        self.is_blocked = False
        self._beating: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, url: str, *, heartbeat: int = 0, confirms: bool = False) -> Self:
        parts = urlsplit(url)
        try:
            async with asyncio.timeout(SECONDS):
                link = cls(*await asyncio.open_connection(parts.hostname, parts.port))
        except OSError as problem:
            raise Gone(str(problem)) from None
        try:
            login = plain(unquote(parts.username or "guest"), unquote(parts.password or "guest"))
            await link._shake_hands(login, unquote(parts.path[1:]) or "/", heartbeat)
            if confirms:
                await link.call(ConfirmSelect(), ConfirmSelectOk)
        except BaseException:
            link.cut()
            raise
        return link

    async def _shake_hands(self, login: bytes, vhost: str, heartbeat: int) -> None:
        self._writer.write(PROTOCOL_HEADER)
        await self.expect(ConnectionStart)
        self.send(ConnectionStartOk({"capabilities": CAPABILITIES}, "PLAIN", login, "en_US"), 0)
        tune = await self.expect(ConnectionTune)
        self.frame_max = tune.frame_max or self.frame_max
        self.send(ConnectionTuneOk(tune.channel_max, tune.frame_max, heartbeat), 0)
        self.send(ConnectionOpen(vhost), 0)
        await self.expect(ConnectionOpenOk)
        await self.call(ChannelOpen(), ChannelOpenOk)
        if heartbeat:
            self._beating = asyncio.create_task(self._beat(heartbeat / 2))

    async def _beat(self, every: float) -> None:
        while True:
            await asyncio.sleep(every)
            self.must_be_open()
            self._writer.write(frame(FRAME_HEARTBEAT, 0, b""))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *about: object) -> None:
        self.cut()

    # ---- saying

    def must_be_open(self) -> None:
        if self._writer.transport.is_closing():
            raise Gone("the connection is closed")

    def send(self, method: Method, channel: int = 1) -> None:
        self.must_be_open()
        self._writer.write(method_frame(channel, method))

    def publish(
        self, exchange: str, key: str, body: bytes, properties: Properties | None = None, *, mandatory: bool = False
    ) -> None:
        self.must_be_open()
        self._writer.write(publish_bytes(BasicPublish(exchange, key, mandatory), body, properties, 1, self.frame_max))

    async def flush(self, seconds: float = SECONDS) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._writer.drain()
        except OSError as problem:
            raise Gone(str(problem)) from None

    # ---- hearing

    async def next(self, seconds: float = SECONDS) -> Heard:
        while not self._heard:
            if self._ended:
                raise Gone(self._ended)
            try:
                async with asyncio.timeout(seconds):
                    data = await self._reader.read(1 << 16)
            except TimeoutError:
                raise Silent(f"nothing heard for {seconds} s") from None
            except OSError as problem:
                raise Gone(str(problem)) from None
            if not data:
                raise Gone("end of the connection")
            for kind, channel, payload in self._frames.feed(data):
                self._take(kind, channel, payload)
        heard = self._heard.popleft()
        if isinstance(heard.method, ChannelClose):
            self.send(ChannelCloseOk())
            raise Refused(heard.method)
        return heard

    def waiting(self) -> int:
        """How much was received and not taken yet."""
        return len(self._heard)

    def _take(self, kind: int, channel: int, payload: bytes) -> None:
        if kind == FRAME_HEARTBEAT:
            self.heartbeats += 1
        elif kind == FRAME_HEADER:
            assert self._pending is not None
            _, _, self._left = CONTENT_HEADER.unpack_from(payload)
            properties = decode_properties(payload, CONTENT_HEADER.size, len(payload))
            self._pending = self._pending._replace(properties=properties)
            self._finish_content()
        elif kind == FRAME_BODY:
            self._parts.append(payload)
            self._left -= len(payload)
            self._finish_content()
        else:
            method = decode_method(payload)
            if isinstance(method, ConnectionClose):
                self.send(ConnectionCloseOk(), 0)
                self._ended = f"{method.reply_code} {method.reply_text}"
            elif isinstance(method, ConnectionBlocked | ConnectionUnblocked):
                self.is_blocked = isinstance(method, ConnectionBlocked)
            elif method.HAS_CONTENT:
                self._pending = Heard(method)
            else:
                self._heard.append(Heard(method))

    def _finish_content(self) -> None:
        if self._left == 0 and self._pending is not None:
            self._heard.append(self._pending._replace(body=b"".join(self._parts)))
            self._pending = None
            self._parts = []

    async def expect(self, wanted: type[M], seconds: float = SECONDS) -> M:
        """The next method, which must be of this kind. A closed channel is opened again and raises ``Refused``."""
        try:
            method = (await self.next(seconds)).method
        except Refused:
            await self.call(ChannelOpen(), ChannelOpenOk)
            raise
        assert isinstance(method, wanted), f"wanted {wanted.__name__}, got {method}"
        return method

    async def call(self, method: Method, answer: type[M], seconds: float = SECONDS) -> M:
        self.send(method)
        return await self.expect(answer, seconds)

    # ---- the end

    async def close(self) -> None:
        """Politely: everything that was sent has been handled. Deliveries that come meanwhile are not looked at."""
        self.send(ConnectionClose(200, "bye"), 0)
        try:
            while not isinstance((await self.next()).method, ConnectionCloseOk):
                pass
        finally:
            self.cut()

    def cut(self) -> None:
        """Gone without a word."""
        if self._beating is not None:
            self._beating.cancel()
        self._writer.transport.abort()
