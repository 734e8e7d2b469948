"""One AMQP connection without its socket, from the protocol header to the close.

Bytes come in through ``intake`` and go out through ``outbox``. This module handles the methods of channel 0, opens and
closes channels, and closes channels or the connection on errors. Reading can be paused for several reasons at once and
resumes when the last one is gone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from leveret.auth.mechanisms import Credentials
from leveret.auth.users import User
from leveret.broker.alarms import blocked_reason
from leveret.broker.broker import Broker
from leveret.broker.memory_users import LEAST
from leveret.errors import AmqpError, ChannelFault, ConnectionForced, LoginRefused, NotAllowed
from leveret.logs import get_log
from leveret.session import handshake
from leveret.session.channel import Channel
from leveret.session.intake import MOST_UNREAD, Intake
from leveret.session.limits import Limits
from leveret.session.outbox import FEW_UNREAD, Outbox
from leveret.session.replies import NO_METHOD, channel_close, connection_close
from leveret.wire.constants import PROTOCOL_HEADER
from leveret.wire.fields import Table
from leveret.wire.frames import decode_method, method_frame
from leveret.wire.grammar import ChannelStep, Next, Step, channel_step, check_frame, connection_step
from leveret.wire.methods import (
    BasicAck,
    BasicNack,
    BasicReject,
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
    from leveret.broker.caller import Caller
    from leveret.broker.vhost import Vhost

LATE = frozenset((ChannelCloseOk.id, BasicAck.id, BasicNack.id, BasicReject.id))
UNREAD, ALARM, NEXT_TICK = "unread answers", "alarm", "the next tick"  # reasons to halt
CLOSE_PATIENCE = 5.0  # seconds to wait for the client's close-ok


class Peer(Protocol):
    """The socket of a connection."""

    host: str  # IP address of the client
    received: int  # bytes, in so many reads
    reads: int
    sent: int  # bytes, in so many writes
    writes: int
    certificate: dict[str, object] | None  # verified by TLS, as the ssl module gives it

    def write(self, data: bytes) -> None: ...
    def write_pieces(self, pieces: list[bytes]) -> None: ...

    def unsent(self) -> int:
        """Bytes in the write buffer."""

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close_after(self, seconds: float) -> None:
        """Close once everything is written, at the latest after this many seconds."""

    def close(self) -> None:
        """Write what is left and close."""

    def tls(self) -> tuple[str, str] | None:
        """TLS version and cipher; None without TLS."""


Login = Callable[[Credentials, Callable[[User | None], None]], None]


class Connection:
    def __init__(self, broker: Broker, peer: Peer, login: Login, limits: Limits, name: str) -> None:
        self.broker = broker
        self.peer = peer
        self.login = login
        self.limits = limits
        self.name = name
        self.log = get_log("session").bind(connection=name)
        self.connected_at = broker.clock.wall()
        self.protocol = "AMQP 0-9-1"  # of the client: AMQP or STOMP
        self.mechanism = ""  # SASL mechanism of the login
        self.client_name: str | None = None
        self.client_properties: Table = {}
        self.capabilities: Table = {}
        self.user = User("")
        self.vhost: Vhost = None  # type: ignore[assignment]  # given by connection.open, before any channel
        self.caller: Caller = None  # type: ignore[assignment]  # with it
        self.step = Step.AWAIT_HEADER
        self.frame_max = limits.frame_max
        self.channel_max = limits.channel_max
        self.heartbeat = 0
        self.channels: dict[int, Channel] = {}
        self._once_open: set[int] = set()  # numbers
        self.channel_errors_close_connection = False  # for protocols without channels, such as STOMP
        self.blocked = False
        self.partial = 0  # bytes of unfinished messages
        self._holder = ""  # the user whose memory share they count against
        self.least_held = max(LEAST, 2 * limits.max_message_size)  # bytes that its user may always hold
        self.intake = Intake(self)
        self.outbox = Outbox(broker, peer, limits.write_high_watermark, self._resume_delivery)
        self.send = self.outbox.send
        self._paused: set[str] = set()
        self._halts: set[str] = set()
        # Far above what deliveries alone can leave unsent: they stop at the high watermark, which one message may
        # exceed, and STOMP encodes them longer. Otherwise a client that publishes before it reads again would deadlock.
        self._most_unread = MOST_UNREAD + limits.max_message_size + 8 * limits.write_high_watermark

    def receive(self, data: bytes) -> None:
        """Bytes from the client, in chunks of any size."""
        self.intake.receive(data)
        self.check_unread()
        broker = self.broker
        if broker.dirty or broker.outgoing or broker.log.issued != broker.flushed or broker.awaiting_tick:
            broker.wake()

    def send_method(self, method: Method) -> None:
        self.send(method_frame(0, method))

    def wants(self, capability: str) -> bool:
        return self.capabilities.get(capability) is True

    @property
    def supports_authentication_failure_close(self) -> bool:
        """Whether the client expects connection.close after a failed login."""
        return self.wants("authentication_failure_close")

    # ---- handshake

    def greet(self) -> None:
        self.step = Step.AWAIT_START_OK
        handshake.start(self)

    def refuse_protocol(self) -> None:
        self.log.info("connection refused: not AMQP 0-9-1")
        self.step = Step.CLOSED
        self.peer.write(PROTOCOL_HEADER)
        self.peer.close()

    def refuse_login(self, refusal: LoginRefused) -> None:
        """Send connection.close only if the client supports it. The login delay is over (server/logins.py)."""
        if self.supports_authentication_failure_close:
            self._close(refusal)
        else:
            self.over()

    def opened(self) -> None:
        self.log.info("connection opened", user=self.user.name, vhost=self.vhost.name, client=self.client_name)

    # ---- methods

    def take_method(self, number: int, payload: bytes) -> None:
        if number == 0:
            self._take_connection_method(decode_method(payload))
        elif self.step is Step.OPEN:
            self._take_channel_method(number, decode_method(payload))
        elif self.step is not Step.CLOSING:
            raise ChannelFault(f"method on channel {number} before the connection is open")

    def _take_connection_method(self, method: Method) -> None:
        before = self.step
        self.step = connection_step(before, method.id)
        if isinstance(method, ConnectionClose):
            self._release()
            self.send_method(ConnectionCloseOk())
            self.over()
        elif isinstance(method, ConnectionCloseOk):
            self.over()
        elif before is not Step.CLOSING:
            try:
                handshake.HANDLERS[method.id](self, method)
            except AmqpError:
                self.step = before
                raise

    def _take_channel_method(self, number: int, method: Method) -> None:
        channel = self.channels.get(number)
        if channel is None and number in self._once_open and method.id in LATE:
            return  # a close-ok that crossed with the client's close, or an ack for a channel that was just closed
        step = ChannelStep.CLOSED if channel is None else channel.step
        after = channel_step(step, method.id)
        if channel is None:
            self._open_channel(number)
        elif isinstance(method, ChannelClose):
            channel.leave()
            self.channels.pop(number)
            self.send(method_frame(number, ChannelCloseOk()))
        elif isinstance(method, ChannelCloseOk):
            self.channels.pop(number)
        elif after is ChannelStep.OPEN:
            if channel.pending is not None:
                check_frame(Next.BODY if channel.pending.has_header else Next.HEADER, 1, number)
            channel.handle(method)

    def _open_channel(self, number: int) -> None:
        if len(self.channels) >= self.channel_max:  # whatever their numbers, as in RabbitMQ
            opened = f"number of channels opened ({len(self.channels)})"
            raise NotAllowed(f"{opened} has reached the negotiated channel_max ({self.channel_max})")
        self.broker.registry.open_channel(self.user.name, self.user.max_channels)
        self.channels[number] = Channel(self, number)
        self._once_open.add(number)
        self.send(method_frame(number, ChannelOpenOk()))

    # ---- errors and closing

    def fail(self, error: AmqpError) -> None:
        """Close the channel or the connection, as the error demands."""
        channel = self.channels.get(self.intake.at_channel)
        if error.closes == "channel" and channel is not None and not self.channel_errors_close_connection:
            self.log.info("channel closed with an error", channel=channel.number, error=error.reply_text)
            channel.release()
            channel.send(channel_close(error, self.intake.at_method))
        elif not self.is_over:
            self.log.warning("connection closed with an error", error=error.reply_text)
            self._close(error)

    def force_close(self, reason: str) -> None:
        if self.step is Step.OPEN:
            self.intake.at_method = NO_METHOD
            self._close(ConnectionForced(reason))
        elif not self.is_over:
            self.over()

    def close_with(self, error: AmqpError) -> None:
        """Close the connection with an error that none of its frames caused."""
        if self.step is Step.OPEN:
            self.log.warning("connection closed with an error", error=error.reply_text)
            self.intake.at_method = NO_METHOD
            self._close(error)

    def _close(self, error: AmqpError) -> None:
        self._release()
        self.step = Step.CLOSING
        self.send_method(connection_close(error, self.intake.at_method))
        self._halts.clear()
        self.intake.halted = False
        self.peer.resume_reading()  # to receive the close-ok
        self.peer.close_after(CLOSE_PATIENCE)
        self.broker.wake()

    def over(self) -> None:
        """Write what is left and close the socket."""
        self.step = Step.CLOSED
        self.outbox.flush()
        self.peer.close()

    @property
    def is_over(self) -> bool:
        return self.step in (Step.CLOSING, Step.CLOSED)

    def lost(self) -> None:
        """The socket was closed."""
        self._release()
        self.step = Step.CLOSED
        self.outbox.close()
        self.intake.forget()
        self.broker.registry.remove(self)
        if self.broker.has_work:
            self.broker.wake()

    def _release(self) -> None:
        """Release everything that this connection holds."""
        channels, self.channels = self.channels, {}
        for channel in channels.values():
            channel.leave()
        vhost: Vhost | None = self.vhost
        if vhost is not None:
            self.vhost = self.caller = None  # type: ignore[assignment]
            vhost.drop_exclusive(self)
            self.broker.registry.leave(self.user.name, vhost.name)

    # ---- pausing

    def halt(self, reason: str) -> None:
        """Stop handling input, received data included, until ``unhalt`` is called with the same reason."""
        self.intake.halted = True
        self._halts.add(reason)
        self.pause(reason)

    def unhalt(self, reason: str) -> None:
        if reason in self._halts:
            self._halts.remove(reason)
            self.resume(reason)
            if not self._halts:
                self.intake.go_on()
            self.broker.wake()

    def flush_and_check_unread(self) -> None:
        """Halt a client that sends requests faster than it reads the replies, until it has read."""
        self.outbox.flush()
        if self.peer.unsent() > (FEW_UNREAD if self.outbox.unread_output.is_high else MOST_UNREAD) // 2:
            self._halt_unread()

    def check_unread(self) -> None:
        """The same for many small replies; called once per chunk."""
        most = FEW_UNREAD if self.outbox.unread_output.is_high else self._most_unread
        if self.outbox.size + self.peer.unsent() > most and not self.is_over:
            self._halt_unread()

    def wait_for_tick(self) -> None:
        """The routing steps of this tick are used up (routing/bounds.py): continue in the next tick."""
        if NEXT_TICK not in self._halts:
            self.halt(NEXT_TICK)
            self.broker.awaiting_tick.append(self)  # ``receive`` requests the tick

    def resume_in_tick(self) -> None:
        self.unhalt(NEXT_TICK)
        self.check_unread()

    def _halt_unread(self) -> None:
        self.outbox.is_flow_controlled = True  # so that the next flush resumes, if the socket accepts everything
        self.halt(UNREAD)

    def pause(self, reason: str) -> None:
        if not self._paused:
            self.peer.pause_reading()
        self._paused.add(reason)

    def resume(self, reason: str) -> None:
        if reason in self._paused:
            self._paused.remove(reason)
            if not self._paused:
                self.intake.has_received = True  # missing heartbeats while reading was paused do not count
                self.peer.resume_reading()

    @property
    def is_paused(self) -> bool:
        return bool(self._paused)

    def block(self) -> None:
        """A publish has arrived during an alarm: nothing from that publish on is handled until the alarm ends."""
        if self.blocked or self.step is not Step.OPEN:
            return
        self.blocked = True
        if self.wants("connection.blocked"):
            self.send_method(ConnectionBlocked(blocked_reason(self.broker.alarms)))
        self.halt(ALARM)

    def unblock(self) -> None:
        if not self.blocked:
            return
        self.blocked = False
        if self.wants("connection.blocked"):
            self.send_method(ConnectionUnblocked())
        self.unhalt(ALARM)

    def hold_partial(self, size: int) -> bool:
        """Count bytes of unfinished messages (negative: released); False if the user holds too many."""
        if not self.partial:
            self._holder = self.user.name  # a STOMP client may log in while it holds some
        self.partial += size
        return self.broker.memory_users.unfinished.hold(self._holder, size, self.least_held)

    def held_input(self) -> int:
        return self.intake.held

    def forget_routes(self) -> None:
        for channel in self.channels.values():
            channel.routes.forget()

    def _resume_delivery(self) -> None:
        """The socket is writable again: handle requests and deliver to consumers."""
        if self.outbox.writable:
            self.unhalt(UNREAD)
        for channel in self.channels.values():
            for consumer in channel.consumers.values():
                consumer.queue.touch()
            if channel.reply is not None:
                channel.reply.queue.touch()
