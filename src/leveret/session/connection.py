"""One connection of a peer, without its socket.  Hot path.

Theory of operation. ``receive`` is fed whatever bytes came; it handles every whole frame in one loop and keeps at most
one partial frame. Publishes and acks leave the loop in runs (session/publishing.py, session/settling.py); all else is
decoded and handled one by one. Replies and deliveries gather in ``out`` and are written once per turn.

An AmqpError ends the channel or the connection it says, and the loop goes on behind the frame that caused it: what
follows for a closing channel is read and ignored until close-ok. Reading can be paused for several reasons at once and
goes on when the last one is gone.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Protocol

from leveret.auth.mechanisms import Credentials
from leveret.auth.users import User
from leveret.broker.broker import Broker
from leveret.errors import AmqpError, ChannelFault, ConnectionForced, FrameError, LoginRefused, NotAllowed
from leveret.logs import get_log
from leveret.session import handshake
from leveret.session.channel import Channel
from leveret.session.content import take_body, take_header
from leveret.session.limits import Limits
from leveret.session.publishing import publish_run
from leveret.session.replies import bug, channel_close, connection_close
from leveret.session.settling import ack_run
from leveret.wire.constants import FRAME_END, FRAME_MAX_BEFORE_TUNE, PROTOCOL_HEADER
from leveret.wire.fields import Table
from leveret.wire.frames import decode_method, method_frame
from leveret.wire.grammar import (
    ChannelStep,
    Next,
    Step,
    channel_step,
    check_frame,
    check_heartbeat,
    connection_step,
)
from leveret.wire.methods import (
    ChannelClose,
    ChannelCloseOk,
    ChannelOpenOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionUnblocked,
    Method,
)

if TYPE_CHECKING:
    from leveret.broker.vhost import Vhost

unpack_frame = Struct(">BHI").unpack_from
PUBLISH = b"\x00\x3c\x00\x28"
ACK = b"\x00\x3c\x00\x50"
CLOSE_OK_FRAME = method_frame(0, ConnectionCloseOk())
NO_METHOD = (0, 0)


class Peer(Protocol):
    """The socket, as a connection sees it."""

    host: str  # address of the other end
    certificate: dict[str, object] | None  # verified by TLS, as the ssl module gives it

    def write(self, data: bytes) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close_after(self, seconds: float) -> None:
        """Close once everything is written, at the latest after so many seconds of waiting for the peer."""

    def close(self) -> None:
        """Write what is left and close."""


Login = Callable[[Credentials, Callable[[User | None], None]], None]


class Connection:
    def __init__(self, broker: Broker, peer: Peer, login: Login, limits: Limits, name: str) -> None:
        self.broker = broker
        self.peer = peer
        self.login = login
        self.limits = limits
        self.name = name
        self.client_name: str | None = None
        self.client_properties: Table = {}
        self.capabilities: Table = {}
        self.user = User("")
        self.vhost: Vhost = None  # type: ignore[assignment]  # given by connection.open, before any channel
        self.step = Step.AWAIT_HEADER
        self.frame_max = limits.frame_max
        self.frame_limit = FRAME_MAX_BEFORE_TUNE
        self.channel_max = limits.channel_max
        self.heartbeat = 0
        self.channels: dict[int, Channel] = {}
        self.publishes = False
        self.blocked = False
        self.partial = 0  # bytes of unfinished messages
        self.heard = True  # since the pulse last looked
        self.spoke = True
        # output
        self.out: list[bytes] = []
        self.out_size = 0
        self.flushing = False
        self.writable = True
        self.starved = False  # a consumer was passed over because we cannot write
        # input
        self._parts: list[bytes] = []
        self._have = self._need = 0
        self._halted = False
        self._deaf = False  # framing is lost: only a close-ok is listened for
        self._paused: set[str] = set()
        self._resume_at = 0
        self._at_channel = 0
        self._at_method = NO_METHOD
        self._log = get_log("session").bind(connection=name)

    # ---- bytes in

    def receive(self, data: bytes) -> None:
        self.heard = True
        if self._parts:
            self._parts.append(data)
            self._have += len(data)
            if self._have < self._need or self._halted:
                return
            data = b"".join(self._parts)
            self._parts.clear()
        start = 0
        if self.step is Step.AWAIT_HEADER:
            start = self._take_protocol_header(data)
        start = self._take_frames(data, start)
        if start < len(data):
            self._keep_rest(data[start:])
        if self.broker.dirty or self.broker.outgoing:
            self.broker.wake()

    def _keep_rest(self, rest: bytes) -> None:
        self._parts.append(rest)
        self._have = len(rest)
        self._need = 8
        if len(rest) >= 7 and self.step is not Step.AWAIT_HEADER:
            self._need = unpack_frame(rest)[2] + 8

    def _take_protocol_header(self, data: bytes) -> int:
        if not PROTOCOL_HEADER.startswith(data[:8]):
            self.peer.write(PROTOCOL_HEADER)
            self._log.info("refused: not AMQP 0-9-1")
            self.step = Step.CLOSED
            self.peer.close()
            return len(data)
        if len(data) < 8:
            return 0
        self.step = Step.AWAIT_START_OK
        handshake.start(self)
        return 8

    def _take_frames(self, data: bytes, pos: int) -> int:
        """Handle all whole frames; where the partial one begins."""
        while self.step is not Step.CLOSED and self.step is not Step.AWAIT_HEADER:
            if self._deaf:
                if CLOSE_OK_FRAME in data:
                    self._over()
                return len(data)
            try:
                return self._parse(data, pos)
            except AmqpError as error:
                self.fail(error)
            except Exception as error:
                self._log.exception("bug while handling a frame", channel=self._at_channel, method=self._at_method)
                self.fail(bug(error))
            pos = self._resume_at
        return pos if self.step is Step.AWAIT_HEADER else len(data)

    def _parse(self, data: bytes, pos: int) -> int:
        end = len(data)
        startswith = data.startswith
        channels = self.channels
        limit = self.frame_limit
        while end - pos >= 8:
            kind, number, size = unpack_frame(data, pos)
            if size > limit:
                self._lose_framing(end)
                raise FrameError(f"frame of {size} bytes is larger than {limit}")
            stop = pos + size + 8
            if stop > end:
                break
            if data[stop - 1] != FRAME_END:
                self._lose_framing(end)
                raise FrameError(f"frame on channel {number} does not end with 0xCE")
            self._resume_at = stop
            self._at_channel = number
            if kind == 1:
                channel = channels.get(number)
                if channel is not None and channel.idle:
                    if startswith(PUBLISH, pos + 7):
                        self._at_method = (60, 40)
                        frame = data[pos:stop]
                        vhost = channel.vhost
                        route = channel.routes.known.get(frame)
                        if route is None or route.epoch != vhost.epoch or route.deaths != vhost.deaths:
                            route = channel.routes.resolve(frame, route)
                        pos = publish_run(channel, route, frame, data, pos)
                        continue
                    if startswith(ACK, pos + 7):
                        self._at_method = (60, 80)
                        pos = ack_run(channel, data, pos)
                        continue
            self._at_method = NO_METHOD
            self._take_frame(kind, number, data[pos:stop])
            pos = stop
            limit = self.frame_limit
            if self._halted or self.step is Step.CLOSED:
                break
        else:  # only a few bytes are left: even so, refuse what can be seen to be wrong
            return pos
        return pos

    def _lose_framing(self, end: int) -> None:
        self._deaf = True
        self._resume_at = end

    def _take_frame(self, kind: int, number: int, frame: bytes) -> None:
        if kind == 1:
            self._take_method(number, frame)
        elif kind == 8:
            check_heartbeat(number, len(frame) - 8)
        elif kind in (2, 3):
            channel = self.channels.get(number)
            if self.step is Step.CLOSING or (channel is not None and channel.step is ChannelStep.CLOSING):
                return
            if channel is None:
                check_frame(Next.METHOD, kind, number)
            elif kind == 2:
                take_header(channel, frame)
            else:
                take_body(channel, frame)
        else:
            self._lose_framing(self._resume_at)
            raise FrameError(f"unknown frame type {kind}")

    # ---- methods

    def _take_method(self, number: int, frame: bytes) -> None:
        if len(frame) >= 12:
            self._at_method = (int.from_bytes(frame[7:9], "big"), int.from_bytes(frame[9:11], "big"))
        if number == 0:
            self._take_connection_method(decode_method(frame[7:-1]))
        elif self.step is Step.OPEN:
            self._take_channel_method(number, decode_method(frame[7:-1]))
        elif self.step is not Step.CLOSING:
            raise ChannelFault(f"method on channel {number} before the connection is open")

    def _take_connection_method(self, method: Method) -> None:
        before = self.step
        self.step = connection_step(before, method.id)
        if isinstance(method, ConnectionClose):
            self._release()
            self.send_method(ConnectionCloseOk())
            self._over()
        elif isinstance(method, ConnectionCloseOk):
            self._over()
        elif before is not Step.CLOSING:
            try:
                handshake.HANDLERS[method.id](self, method)
            except AmqpError:
                self.step = before
                raise

    def _take_channel_method(self, number: int, method: Method) -> None:
        channel = self.channels.get(number)
        step = ChannelStep.CLOSED if channel is None else channel.step
        if channel is None and method.id == ChannelCloseOk.id:
            return  # the answer to a close of ours that crossed with the peer's own
        after = channel_step(step, method.id)
        if channel is None:
            self._open_channel(number)
        elif isinstance(method, ChannelClose):
            self._forget_channel(channel)
            self.send(method_frame(number, ChannelCloseOk()))
        elif isinstance(method, ChannelCloseOk):
            self.channels.pop(number, None)
        elif after is ChannelStep.OPEN:
            if channel.pending is not None:
                check_frame(Next.BODY if channel.pending.has_header else Next.HEADER, 1, number)
            channel.handle(method)

    def _open_channel(self, number: int) -> None:
        if number > self.channel_max:
            raise NotAllowed(f"channel number {number} is larger than the negotiated channel_max ({self.channel_max})")
        self.broker.registry.open_channel(self.user.name, self.user.max_channels)
        self.channels[number] = Channel(self, number)
        self.send(method_frame(number, ChannelOpenOk()))

    def _forget_channel(self, channel: Channel) -> None:
        if channel.step is ChannelStep.OPEN:
            channel.release()
        self.channels.pop(channel.number, None)

    # ---- errors and the end

    def fail(self, error: AmqpError) -> None:
        """Close what the error says: a channel, or all."""
        channel = self.channels.get(self._at_channel)
        if error.closes == "channel" and channel is not None:
            self._log.info("channel closed by an error", channel=channel.number, error=error.reply_text)
            channel.release()
            channel.send(channel_close(error, self._at_method))
            return
        if self.step in (Step.CLOSING, Step.CLOSED):
            return
        self._log.warning("connection closed by an error", error=error.reply_text)
        self._close(error)

    def force_close(self, reason: str) -> None:
        if self.step is Step.OPEN:
            self._at_method = NO_METHOD
            self._close(ConnectionForced(reason))
        elif not self.is_over:
            self._over()

    def _close(self, error: AmqpError) -> None:
        self._release()
        self.step = Step.CLOSING
        self.send_method(connection_close(error, self._at_method))
        self._halted = False
        self.peer.resume_reading()
        self.peer.close_after(5.0)
        self.broker.wake()

    def refuse_login(self, refusal: LoginRefused) -> None:
        """Tell the peer only if it asked to be told; the server has waited before it let us know."""
        self._log.warning("login refused")
        if self.wants("authentication_failure_close"):
            self._close(refusal)
        else:
            self._over()

    def _over(self) -> None:
        self.step = Step.CLOSED
        self.flush()
        self.peer.close()

    @property
    def is_over(self) -> bool:
        return self.step in (Step.CLOSING, Step.CLOSED)

    def lost(self) -> None:
        """The socket is gone."""
        self._release()
        self.step = Step.CLOSED
        self.writable = False
        self.out.clear()
        self._parts.clear()
        self.broker.registry.remove(self)
        if self.broker.dirty or self.broker.outgoing:
            self.broker.wake()

    def _release(self) -> None:
        """Give back everything that this connection held."""
        channels, self.channels = self.channels, {}
        for channel in channels.values():
            if channel.step is ChannelStep.OPEN:
                channel.release()
        if self.step is Step.OPEN or self.vhost is not None:
            vhost, self.vhost = self.vhost, None  # type: ignore[assignment]
            if vhost is not None:
                vhost.drop_exclusive(self)
                self.broker.registry.leave(self.user.name, vhost.name)

    def opened(self) -> None:
        self._log.info("connection open", user=self.user.name, vhost=self.vhost.name, client=self.client_name)

    def wants(self, capability: str) -> bool:
        return self.capabilities.get(capability) is True

    # ---- pausing

    def halt(self) -> None:
        """Stop in the middle of the input until unhalt(): something outside decides first."""
        self._halted = True
        self.pause("login")

    def unhalt(self) -> None:
        self._halted = False
        self.resume("login")
        if self._parts:
            self._need = 0
            self.receive(b"")
        self.broker.wake()

    def pause(self, reason: str) -> None:
        if not self._paused:
            self.peer.pause_reading()
        self._paused.add(reason)

    def resume(self, reason: str) -> None:
        if reason in self._paused:
            self._paused.remove(reason)
            if not self._paused:
                self.heard = True  # while we did not listen, silence was no fault of the peer
                self.peer.resume_reading()

    @property
    def is_paused(self) -> bool:
        return bool(self._paused)

    def note_publisher(self) -> None:
        self.publishes = True
        if self.broker.memory.raised and not self.blocked:
            self.block("memory mark passed")

    def block(self, reason: str) -> None:
        if self.blocked or self.step is not Step.OPEN:
            return
        self.blocked = True
        if self.wants("connection.blocked"):
            self.send_method(ConnectionBlocked(reason))
        self.pause("alarm")

    def unblock(self) -> None:
        if not self.blocked:
            return
        self.blocked = False
        if self.wants("connection.blocked"):
            self.send_method(ConnectionUnblocked())
        self.resume("alarm")

    def hold_partial(self, size: int) -> None:
        self.partial += size
        self.broker.gauge.used += size

    def login_again(self, name: str, secret: str, done: Callable[[User | None], None]) -> None:
        self.login(Credentials(name, secret), done)

    # ---- bytes out

    def send_method(self, method: Method) -> None:
        self.send(method_frame(0, method))

    def send(self, data: bytes) -> None:
        self.out.append(data)
        self.wrote(len(data))

    def wrote(self, size: int) -> None:
        """Something was put into ``out``: have it flushed in this turn."""
        self.out_size += size
        if not self.flushing:
            self.flushing = True
            self.broker.outgoing.append(self)

    def flush(self) -> None:
        self.flushing = False
        self.out_size = 0
        if self.out:
            data = b"".join(self.out)
            self.out.clear()
            self.spoke = True
            self.peer.write(data)
        if self.starved and self.writable:
            self.feed_consumers()

    def feed_consumers(self) -> None:
        """We can write again: consumers that were passed over get their turn."""
        self.starved = False
        for channel in self.channels.values():
            for consumer in channel.consumers.values():
                consumer.queue.touch()
            if channel.reply is not None:
                channel.reply.queue.touch()

    def can_write(self, can: bool) -> None:
        self.writable = can
        if can:
            self.feed_consumers()
            self.broker.wake()
