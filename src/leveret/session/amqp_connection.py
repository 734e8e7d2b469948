"""One AMQP connection without its socket, from the protocol header to the close.

Bytes come in through ``intake`` and go out through ``outbox``. This module handles the methods of channel 0, opens and
closes channels, and closes channels or the connection on errors.
"""

from __future__ import annotations

from leveret.auth.mechanisms import offered
from leveret.broker.alarms import blocked_reason
from leveret.broker.broker import Broker
from leveret.errors import AmqpError, ChannelFault, NotAllowed
from leveret.session import handshake
from leveret.session.amqp_channel import AmqpChannel
from leveret.session.connection import FULL_CHUNK, NO_REASONS, Connection, Login, Peer
from leveret.session.connection_moves import MOST_REST, restore, state_of
from leveret.session.handover import Handover
from leveret.session.intake import Intake
from leveret.session.limits import Limits
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
    ConnectionStart,
    ConnectionTune,
    ConnectionUnblocked,
    Method,
)

LATE = frozenset((ChannelCloseOk.id, BasicAck.id, BasicNack.id, BasicReject.id))
CLOSE_PATIENCE = 5.0  # seconds to wait for the client's close-ok


class AmqpConnection(Connection):
    __slots__ = ("_closed_channels", "capabilities", "intake")

    protocol = "AMQP 0-9-1"
    channel_class: type[AmqpChannel] = AmqpChannel
    channels: dict[int, AmqpChannel]

    def __init__(self, broker: Broker, peer: Peer, login: Login, limits: Limits, name: str) -> None:
        super().__init__(broker, peer, login, limits, name)
        self.capabilities: Table = {}
        self._closed_channels: set[int] | None = None  # numbers; most connections never close a channel
        self.intake = Intake(self)

    def receive(self, data: bytes) -> None:
        self.intake.receive(data)
        self.input_handled()

    def go_on(self) -> None:
        self.intake.go_on()

    def best_read(self) -> int:
        return self.intake.best_read(FULL_CHUNK)

    def held_input(self) -> int:
        return self.intake.held

    def handover(self) -> Handover:
        return handshake.handover(self, self.wanted_vhost)

    def open_handed_over(self, handover: Handover) -> None:
        handshake.open_handed_over(self, handover)

    def unhandled_input(self) -> bytes:
        return self.intake.rest()

    def send_method(self, method: Method) -> None:
        self.send(method_frame(0, method))

    def supports(self, capability: str) -> bool:
        return self.capabilities.get(capability) is True

    # ---- handshake

    def greet(self) -> None:
        self.step = Step.AWAIT_START_OK
        properties = handshake.server_properties(self.broker.node_name) | self.broker.announced
        self.send_method(ConnectionStart(0, 9, properties, offered(bool(self.peer.certificate)), b"en_US"))

    def refuse_protocol(self) -> None:
        self.log.info("connection refused: not AMQP 0-9-1")
        self.step = Step.CLOSED
        self.peer.write(PROTOCOL_HEADER)
        self.peer.close()

    def logged_in(self) -> None:
        limits = self.limits
        self.send_method(ConnectionTune(limits.channel_max, limits.frame_max, limits.heartbeat))

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
            self.release()
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
        if channel is None and method.id in LATE and number in (self._closed_channels or ()):
            return  # a close-ok that crossed with the client's close, or an ack for a channel that was just closed
        step = ChannelStep.CLOSED if channel is None else channel.step
        after = channel_step(step, method.id)
        if channel is None:
            self._open_channel(number)
        elif isinstance(method, ChannelClose):
            channel.close()
            self._remove_channel(number)
            self.send(method_frame(number, ChannelCloseOk()))
        elif isinstance(method, ChannelCloseOk):
            self._remove_channel(number)
        elif after is ChannelStep.OPEN:
            if channel.pending is not None:
                check_frame(Next.BODY if channel.pending.has_header else Next.HEADER, 1, number)
            channel.handle(method)

    def _open_channel(self, number: int) -> None:
        if len(self.channels) >= self.channel_max:  # whatever their numbers, as in RabbitMQ
            opened = f"number of channels opened ({len(self.channels)})"
            raise NotAllowed(f"{opened} has reached the negotiated channel_max ({self.channel_max})")
        self.channels[number] = self.channel_class(self, number)
        self.send(method_frame(number, ChannelOpenOk()))

    def _remove_channel(self, number: int) -> None:
        self.channels.pop(number)
        self._closed_channels = self._closed_channels or set()
        self._closed_channels.add(number)

    # ---- moving

    def move(self, cell: str, rest: bytes) -> bool:
        mover = self.broker.cells.mover
        self.outbox.flush()
        if mover is None or len(rest) > MOST_REST or not mover.move(cell, self.peer, state_of(self), rest):
            return False
        self.log.info("connection moved to the cell of its queue", cell=cell)
        self.step = Step.CLOSED
        return True

    def continue_from(self, state: bytes, rest: bytes) -> None:
        """This is the connection that another cell had until now."""
        try:
            restore(self, state)
        except AmqpError as error:
            self.fail(error)
        if not self.is_over:
            self.receive(rest)

    # ---- errors and closing

    def fail(self, error: AmqpError) -> None:
        """Close the channel or the connection, as the error demands."""
        channel = self.channels.get(self.intake.at_channel)
        if error.closes == "channel" and channel is not None:
            self.log.info("channel closed with an error", channel=channel.number, error=error.reply_text)
            channel.release()
            channel.send(channel_close(error, self.intake.at_method))
        elif not self.is_over:
            self.log.warning("connection closed with an error", error=error.reply_text)
            self._close(error)

    def end_with(self, error: AmqpError) -> None:
        if self.step is Step.OPEN:  # else the login was refused: start-ok caused the error
            self.intake.at_method = NO_METHOD
        self._close(error)

    def _close(self, error: AmqpError) -> None:
        self.release()
        self.step = Step.CLOSING
        self.send_method(connection_close(error, self.intake.at_method))
        self._halts = NO_REASONS
        self.halted = False
        self.peer.resume_reading()  # to receive the close-ok
        self.peer.close_after(CLOSE_PATIENCE)
        self.broker.wake()

    def notify_blocked(self) -> None:
        if self.supports("connection.blocked"):
            reason = blocked_reason(self.broker.alarms)
            self.send_method(ConnectionBlocked(reason) if self.blocked else ConnectionUnblocked())
