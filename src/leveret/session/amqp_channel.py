"""One AMQP channel: content that has not arrived in full; replies, confirms and returns as frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.broker.routes import PublishRoute
from leveret.delivery.confirms import Confirm
from leveret.errors import AmqpError, Unsupported
from leveret.message import Message
from leveret.session import amqp_consumer
from leveret.session.channel import Channel
from leveret.session.content import PendingContent, publish_content
from leveret.wire.constants import END_BYTE, FRAME_OVERHEAD, NO_ROUTE
from leveret.wire.frames import ENVELOPE, method_frame
from leveret.wire.grammar import ChannelStep
from leveret.wire.methods import BasicCancel, BasicNack, BasicReturn, ChannelFlow, ChannelFlowOk, Method

if TYPE_CHECKING:
    from leveret.session.amqp_connection import AmqpConnection


def _flow(channel: AmqpChannel, method: ChannelFlow) -> None:
    if not method.active:
        raise Unsupported("active=false", method=ChannelFlow.id)
    channel.send(ChannelFlowOk(active=True))


class AmqpChannel(Channel):
    __slots__ = ("ack_start", "frame_start", "header_start", "idle", "largest_whole", "pending")

    connection: AmqpConnection
    handlers = {**Channel.handlers, **amqp_consumer.HANDLERS, ChannelFlow.id: _flow}
    consumer_class = amqp_consumer.AmqpConsumer
    member_class = amqp_consumer.AmqpMember

    def __init__(self, connection: AmqpConnection, number: int) -> None:
        super().__init__(connection, number)
        self.idle = True  # open and not waiting for content frames; read by the hot loop
        self.frame_start = ENVELOPE.pack(1, number, 0)[:3]
        self.header_start = ENVELOPE.pack(2, number, 0)[:3]
        self.ack_start = ENVELOPE.pack(1, number, 13) + b"\x00\x3c\x00\x50"
        # The largest body that fits one frame and all limits; larger ones are handled frame by frame.
        self.largest_whole = min(connection.limits.max_message_size, connection.frame_max - FRAME_OVERHEAD)
        self.pending: PendingContent | None = None

    def frames_of(self, reply: Method) -> bytes:
        return method_frame(self.number, reply)

    def send_confirms(self, confirms: list[Confirm]) -> None:
        for tag, multiple, ack in confirms:
            if ack:
                flag = b"\x01" if multiple else b"\x00"
                self.connection.send(self.ack_start + tag.to_bytes(8, "big") + flag + END_BYTE)
            else:
                self.connection.send(method_frame(self.number, BasicNack(tag, multiple, requeue=False)))

    def cancelled(self, tag: str) -> None:
        if self.connection.supports("consumer_cancel_notify"):
            self.send(BasicCancel(tag, nowait=True))

    def fail(self, error: AmqpError, method: tuple[int, int]) -> None:
        intake = self.connection.intake
        intake.at_channel, intake.at_method = self.number, method
        self.connection.fail(error)

    def return_messages(self, messages: list[Message]) -> None:
        for content, address, _ in messages:
            method = BasicReturn(NO_ROUTE, "NO_ROUTE", address.exchange, address.key)
            self.connection.send(method_frame(self.number, method) + content)
        super().return_messages(messages)

    # ---- content

    def await_content(self, route: PublishRoute) -> None:
        self.pending = PendingContent(route)
        self.idle = False

    def publish_whole(self, route: PublishRoute, content: bytes) -> None:
        """Publish a message that has arrived in full, but whose properties have to be decoded."""
        publish_content(self, self.routes.current(route), content)

    def forget_content(self) -> None:
        if self.pending is not None:
            self.connection.hold_partial(-self.pending.size)
            self.pending = None
        self.idle = self.step is ChannelStep.OPEN

    def release(self) -> None:
        super().release()
        self.forget_content()
