"""One AMQP connection with one channel, for commands that consume and publish over the wire.

Small on purpose: it logs in, calls, and reads what comes. What the broker refuses is a Refusal with its own words, and
a broker that goes away is NotReachable. A link is closed in order, so that what was not acknowledged goes back at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple, NoReturn, TypeVar

from leveret.cli.amqp_address import AmqpAddress
from leveret.cli.api_client import Api, NotReachable, Refusal, trusting
from leveret.errors import LeveretError
from leveret.version import VERSION
from leveret.wire.constants import (
    DEFAULT_FRAME_MAX,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    HEARTBEAT_FRAME,
    PROTOCOL_HEADER,
)
from leveret.wire.fields import Table
from leveret.wire.frames import decode_method, method_frame
from leveret.wire.methods import (
    BasicCancel,
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
)
from leveret.wire.reader import FrameReader

CHANNEL = 1
CONNECT_SECONDS = 10.0
CLOSE_SECONDS = 2.0
READ_BYTES = 1 << 18
CAPABILITIES: Table = {
    "authentication_failure_close": True,
    "basic.nack": True,
    "connection.blocked": True,
    "consumer_cancel_notify": True,
    "publisher_confirms": True,
}
M = TypeVar("M", bound=Method)


class Frame(NamedTuple):
    kind: int
    channel: int
    payload: bytes


class AmqpLink:
    def __init__(self, address: AmqpAddress, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.address = address
        self.reader = reader
        self.writer = writer
        self.frame_max = DEFAULT_FRAME_MAX
        self._frames = FrameReader(limit=0)
        self._waiting: deque[Frame] = deque()
        self._beats: asyncio.Task[None] | None = None
        self._is_heard = True

    # ---- the beginning and the end

    async def log_in(self, username: str, password: str, vhost: str, what: str) -> None:
        """``what`` this connection is for is shown to those who list connections."""
        self.writer.write(PROTOCOL_HEADER)
        await self._answer(ConnectionStart, 0)
        properties: Table = {
            "product": "Leveret",
            "version": VERSION,
            "connection_name": f"leveret {what}",
            "capabilities": CAPABILITIES,
        }
        proof = b"\0" + username.encode(errors="surrogateescape") + b"\0" + password.encode(errors="surrogateescape")
        self.send(ConnectionStartOk(properties, "PLAIN", proof), 0)
        tune = await self._answer(ConnectionTune, 0)
        self.frame_max = min(tune.frame_max, DEFAULT_FRAME_MAX) or DEFAULT_FRAME_MAX
        self.send(ConnectionTuneOk(tune.channel_max, self.frame_max, tune.heartbeat), 0)
        self.send(ConnectionOpen(vhost), 0)
        await self._answer(ConnectionOpenOk, 0)
        if tune.heartbeat:
            self._beats = asyncio.create_task(self._beat(tune.heartbeat))
        await self.call(ChannelOpen(), ChannelOpenOk)

    async def close(self) -> None:
        """In order, if the broker plays along; what was not acknowledged is back in its queue then."""
        with suppress(LeveretError, OSError, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                self.send(ConnectionClose(200, "goodbye"), 0)
                while True:
                    frame = await self.next_frame()
                    if frame.kind == FRAME_METHOD and isinstance(decode_method(frame.payload), ConnectionCloseOk):
                        return

    def leave(self) -> None:
        if self._beats is not None:
            self._beats.cancel()
        self.writer.transport.abort()

    async def _beat(self, seconds: int) -> None:
        """Says that we are there, and gives up a broker that has said nothing for a whole interval."""
        while self._is_heard:
            self._is_heard = False
            for _ in range(2):
                await asyncio.sleep(seconds / 2)
                self.writer.write(HEARTBEAT_FRAME)
        self.writer.transport.abort()

    # ---- saying

    def send(self, method: Method, channel: int = CHANNEL) -> None:
        self.writer.write(method_frame(channel, method))

    async def call(self, method: Method, answer: type[M]) -> M:
        """What comes before the answer waits for ``next_frame``."""
        self.send(method)
        return await self._answer(answer, CHANNEL)

    async def _answer(self, wanted: type[M], channel: int) -> M:
        passed: list[Frame] = []
        while True:
            frame = await self.next_frame()
            if frame.kind == FRAME_METHOD and frame.channel == channel:
                method = decode_method(frame.payload)
                if isinstance(method, wanted):
                    self._waiting.extendleft(reversed(passed))
                    return method
            passed.append(frame)

    # ---- hearing

    @property
    def has_frames(self) -> bool:
        """Whether something has come that nobody has taken."""
        return bool(self._waiting)

    async def next_frame(self) -> Frame:
        """The next one that is no heartbeat. A close of the broker's is raised."""
        while not self._waiting:
            whole = self._frames.feed(await self.read())
            self._waiting.extend(Frame(*each) for each in whole if each[0] != FRAME_HEARTBEAT)
        frame = self._waiting.popleft()
        if frame.kind == FRAME_METHOD:
            self.refuse_close(decode_method(frame.payload))
        return frame

    async def hears_within(self, seconds: float) -> bool:
        """Whether anything comes in that time; it stays for ``next_frame``."""
        try:
            async with asyncio.timeout(seconds):
                self._waiting.appendleft(await self.next_frame())
        except TimeoutError:
            return False
        return True

    async def read(self) -> bytes:
        """Whatever has come, at least one byte."""
        try:
            data = await self.reader.read(READ_BYTES)
        except OSError as problem:
            raise self.gone(problem.strerror or str(problem)) from None
        if not data:
            raise self.gone("the connection was closed")
        self._is_heard = True
        return data

    def refuse_close(self, method: Method) -> None:
        """Raise what the broker says, if it says that it is over."""
        if isinstance(method, ChannelClose):
            self.send(ChannelCloseOk())
            self._refused(method.reply_text)
        if isinstance(method, ConnectionClose):
            self.send(ConnectionCloseOk(), 0)
            self._refused(method.reply_text)
        if isinstance(method, BasicCancel):
            raise Refusal("the queue was deleted, or its consumers were cancelled: nothing more will come")

    def _refused(self, text: str) -> NoReturn:
        raise Refusal(f"{self.address.url}: {text}")

    def gone(self, cause: str) -> NotReachable:
        return NotReachable(f"the broker at {self.address.url} is gone: {cause}; look at its log")


@asynccontextmanager
async def linked(api: Api, address: AmqpAddress, vhost: str, what: str) -> AsyncIterator[AmqpLink]:
    """A link that is logged in; however the block ends, it is closed in order."""
    password = api.password  # may be asked for at the terminal, which takes its time
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            tls = trusting(api.ca_file) if address.scheme == "amqps" else None
            streams = await asyncio.open_connection(address.host, address.port, ssl=tls, limit=4 * READ_BYTES)
    except (OSError, TimeoutError) as problem:
        cause = getattr(problem, "strerror", None) or str(problem) or "no answer"
        raise NotReachable(f"nobody speaks AMQP at {address.url}: {cause}; name the right port by --amqp") from None
    link = AmqpLink(address, *streams)
    try:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await link.log_in(api.username, password, vhost, what)
        except TimeoutError:
            raise link.gone("it did not answer the login") from None
        yield link
    finally:
        await link.close()
        link.leave()
