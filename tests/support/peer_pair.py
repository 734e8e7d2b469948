"""Two ends joined in memory: a client that speaks frames, and a real connection of a real broker behind it.

No sockets, no loop, no time that passes: a Harness is a broker on a frozen clock that takes its turns as soon as it is
woken, a Client is a peer in it. What a client sends is handled before the call returns, and so is the answer.

    harness = Harness()
    client = harness.client()
    client.ask(QueueDeclare("q"))
    client.publish("q", b"hello")
    assert client.get("q").body == b"hello"
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from leveret.auth.mechanisms import Credentials
from leveret.auth.users import User
from leveret.broker.broker import Broker
from leveret.broker.vhost import Vhost
from leveret.clock import FrozenClock
from leveret.queues.classic import ClassicQueue
from leveret.session.amqp_connection import AmqpConnection
from leveret.session.limits import Limits
from leveret.store.log import Log
from leveret.store.memory_log import MemoryLog
from leveret.wire.constants import PROTOCOL_HEADER
from leveret.wire.fields import Table
from leveret.wire.frames import CONTENT_HEADER, content_frames, decode_method, method_frame
from leveret.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicReturn,
    ChannelClose,
    ChannelOpen,
    ConnectionClose,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
)
from leveret.wire.properties import Properties, decode_properties, encode_properties
from tests.support.frame_reader import FrameReader

MOST_TURNS = 10_000  # a broker that is still busy after so many ticks would never become idle
EVERY_CAPABILITY: Table = {
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "authentication_failure_close": True,
}


def split_frames(data: bytes) -> list[bytes]:
    """The whole frames of which these bytes are made."""
    frames, start = [], 0
    while start < len(data):
        end = start + 8 + int.from_bytes(data[start + 3 : start + 7], "big")
        frames.append(data[start:end])
        start = end
    return frames


class Content(NamedTuple):
    """A method that came with content: deliver, get-ok or return."""

    method: BasicDeliver | BasicGetOk | BasicReturn
    properties: Properties
    body: bytes

    @property
    def tag(self) -> int:
        assert not isinstance(self.method, BasicReturn)
        return self.method.delivery_tag

    @property
    def redelivered(self) -> bool:
        assert not isinstance(self.method, BasicReturn)
        return self.method.redelivered


class Heard(NamedTuple):
    channel: int
    what: Method | Content


class Socket:
    """The broker's end of the wire (session.connection.Peer). Bytes that arrive while not reading wait in ``held``."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.host = host
        self.received = self.reads = self.sent = self.writes = 0
        self.certificate: dict[str, object] | None = None
        self.written = bytearray()
        self.held: list[bytes] = []
        self.reading = True
        self.closed = False
        self.patience: float | None = None
        self.unread = 0  # bytes that the other end is said to have left lying

    def unsent(self) -> int:
        return self.unread

    def write(self, data: bytes) -> None:
        if not self.closed:
            self.written += data

    def write_pieces(self, pieces: list[bytes]) -> None:
        self.write(b"".join(pieces))

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def close_after(self, seconds: float) -> None:
        self.patience = seconds

    def close(self) -> None:
        self.closed = True


class Harness:
    """A broker without a server."""

    def __init__(
        self,
        *,
        memory_high_watermark: int = 1 << 30,
        limits: Limits | None = None,
        log: Log | None = None,
        node_name: str = "harness",
    ) -> None:
        self.clock = FrozenClock()
        self.broker = Broker(
            node_name=node_name,
            clock=self.clock,
            log=log or MemoryLog(),
            memory_high_watermark=memory_high_watermark,
            resident=lambda: None,
        )
        self.broker.attach(self)
        self.limits = limits or Limits()
        self.clients: list[Client] = []
        self._woken = False
        self._resting = True
        self.vhost: Vhost = self.broker.add_vhost("/")
        self.user("guest")

    def user(self, name: str, vhost: str = "/", allowed: str = ".*", **more: object) -> None:
        self.broker.users.add(name, password="secret", **more)  # type: ignore[arg-type]
        self.broker.permissions.set(name, vhost, allowed, allowed, allowed)

    def queue(self, name: str) -> ClassicQueue:
        return self.vhost.queues[name]

    def client(self, name: str = "guest", **more: object) -> Client:
        """A client that is logged in and has opened channel 1."""
        client = self.stranger(name)
        client.log_in(name, **more)  # type: ignore[arg-type]
        client.open_channel(1)
        return client

    def stranger(self, name: str = "stranger") -> Client:
        """A client that has not said a word."""
        return Client(self, name)

    # ---- turns and time

    def wake(self) -> None:
        self._woken = True

    def rearm(self) -> None:
        """Time moves by ``advance`` only."""

    def rest(self) -> None:
        """Run the broker until it is idle, and pass clients their bytes as far as they read."""
        if not self._resting:
            return  # a caller on the stack does it already
        self._resting = False
        try:
            for _ in range(MOST_TURNS):
                if self._woken:
                    self._woken = False
                    self.broker.tick()
                elif not any(client.pass_held() for client in self.clients):
                    return
            raise AssertionError("the broker does not come to rest")
        finally:
            self._resting = True

    def turn(self) -> None:
        """One turn, wanted or not."""
        self._woken = True
        self.rest()

    def advance(self, seconds: float) -> None:
        self.broker.timers.advance(seconds, self.turn)

    def login(self, credentials: Credentials, done: Callable[[User | None], None]) -> None:
        """Accepts users of the broker at once."""
        user = self.broker.users.get(credentials.name)
        done(user if credentials.password in (None, "secret") else None)


class Client:
    """One connection, with short methods for the usual operations. Received frames are kept until a test reads them."""

    def __init__(self, harness: Harness, name: str) -> None:
        self.harness = harness
        self.socket = Socket()
        self.session = AmqpConnection(harness.broker, self.socket, harness.login, harness.limits, name)
        harness.broker.registry.add(self.session)
        harness.clients.append(self)
        self._reader = FrameReader(0)
        self._parts: dict[int, tuple[Method, bytes | None, bytes]] = {}

    # ---- bytes

    def feed(self, data: bytes) -> None:
        self.socket.held.append(data)
        self.harness.rest()

    def pass_held(self) -> bool:
        """Let the broker read what it is willing to read; whether there was something."""
        socket = self.socket
        if not socket.held or not socket.reading or socket.closed:
            return False
        self.session.receive(socket.held.pop(0))
        return True

    def hear(self) -> list[Heard]:
        """Everything the broker has said since the last time."""
        data = bytes(self.socket.written)
        self.socket.written.clear()
        heard: list[Heard] = []
        for kind, channel, payload in self._reader.feed(data):
            if kind == 1:
                self._take_method(channel, decode_method(payload), heard)
            elif kind == 2:
                method = self._parts[channel][0]
                self._parts[channel] = (method, payload, b"")
                self._finish(channel, heard)
            elif kind == 3:
                method, header, body = self._parts[channel]
                self._parts[channel] = (method, header, body + payload)
                self._finish(channel, heard)
        return heard

    def _take_method(self, channel: int, method: Method, heard: list[Heard]) -> None:
        assert channel not in self._parts, "a method in the middle of a content"
        if method.HAS_CONTENT:
            self._parts[channel] = (method, None, b"")
        else:
            heard.append(Heard(channel, method))

    def _finish(self, channel: int, heard: list[Heard]) -> None:
        method, header, body = self._parts[channel]
        assert header is not None
        if len(body) == CONTENT_HEADER.unpack_from(header)[2]:
            del self._parts[channel]
            properties = decode_properties(header, CONTENT_HEADER.size, len(header))
            heard.append(Heard(channel, Content(method, properties, body)))  # type: ignore[arg-type]

    def heard(self, channel: int | None = None) -> list[Method | Content]:
        """As hear(), without the numbers; what other channels received is dropped when one is named."""
        return [what for number, what in self.hear() if channel in (None, number)]

    def bodies(self, channel: int | None = None) -> list[bytes]:
        """The bodies of what was delivered, returned or got since the last time."""
        return [what.body for what in self.heard(channel) if isinstance(what, Content)]

    # ---- the conversation

    def send(self, *methods: Method, channel: int = 1) -> None:
        self.feed(b"".join(method_frame(channel, method) for method in methods))

    def ask(self, method: Method, channel: int = 1) -> Method:
        """Send one method and return its reply. Read deliveries and confirms before."""
        self.send(method, channel=channel)
        (answer,) = self.heard()
        assert isinstance(answer, Method), answer
        return answer

    def log_in(
        self,
        name: str = "guest",
        *,
        vhost: str = "/",
        frame_max: int = 0,
        channel_max: int = 0,
        capabilities: Table | None = None,
    ) -> None:
        self.feed(PROTOCOL_HEADER)
        told: Table = {"capabilities": EVERY_CAPABILITY if capabilities is None else capabilities}
        self.send(ConnectionStartOk(told, "PLAIN", b"\0" + name.encode() + b"\0secret"), channel=0)
        self.send(ConnectionTuneOk(channel_max, frame_max, 0), ConnectionOpen(vhost), channel=0)
        names = [what.NAME for what in self.heard() if isinstance(what, Method)]
        assert names == ["connection.start", "connection.tune", "connection.open-ok"], names

    def open_channel(self, channel: int) -> None:
        assert self.ask(ChannelOpen(), channel).NAME == "channel.open-ok"

    def declare(self, queue: str, channel: int = 1, **more: object) -> QueueDeclareOk:
        answer = self.ask(QueueDeclare(queue, **more), channel)  # type: ignore[arg-type]
        assert isinstance(answer, QueueDeclareOk), answer
        return answer

    def count(self, queue: str, channel: int = 1) -> int:
        """How many are ready, from queue.declare-ok."""
        return self.declare(queue, channel, passive=True).message_count

    def publish(self, queue: str, *bodies: bytes, channel: int = 1, **properties: object) -> None:
        """To a queue, through the default exchange, all in one write."""
        self.feed(b"".join(self.published("", queue, body, channel, **properties) for body in bodies))

    def published(
        self, exchange: str, key: str, body: bytes, channel: int = 1, *, mandatory: bool = False, **properties: object
    ) -> bytes:
        """The frames of one publish."""
        packed = encode_properties(Properties(**properties))  # type: ignore[arg-type]
        frame_max = self.session.frame_max
        method = method_frame(channel, BasicPublish(exchange, key, mandatory))
        return method + content_frames(channel, packed, body, frame_max)

    def consume(self, queue: str, tag: str = "tag", channel: int = 1, **more: object) -> None:
        """Consume; deliveries of the backlog stay unread."""
        self.send(BasicConsume(queue, tag, nowait=True, **more), channel=channel)  # type: ignore[arg-type]

    def qos(self, count: int, channel: int = 1, *, shared: bool = False) -> None:
        assert self.ask(BasicQos(0, count, shared), channel).NAME == "basic.qos-ok"

    def get(self, queue: str, channel: int = 1, *, no_ack: bool = False) -> Content | None:
        self.send(BasicGet(queue, no_ack), channel=channel)
        (answer,) = self.heard()
        return answer if isinstance(answer, Content) else None

    def ack(self, tag: int, channel: int = 1, *, multiple: bool = False) -> None:
        self.send(BasicAck(tag, multiple), channel=channel)

    def nack(self, tag: int, channel: int = 1, *, multiple: bool = False, requeue: bool = True) -> None:
        self.send(BasicNack(tag, multiple, requeue), channel=channel)

    def error(self) -> tuple[int, str]:
        """Code and text of the one close that was received."""
        (close,) = [what for what in self.heard() if isinstance(what, ChannelClose | ConnectionClose)]
        return close.reply_code, close.reply_text

    def vanish(self) -> None:
        """The socket breaks."""
        self.socket.closed = True
        self.session.lost()
        self.harness.clients.remove(self)
        self.harness.rest()
