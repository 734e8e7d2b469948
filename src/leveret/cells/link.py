"""The client side of a link to another cell, without its socket.

A link is an AMQP connection whose other end is session/link_connection.py. Each channel belongs to one remote queue and
one purpose (publishing, one consumer, requests); its owner is a LinkChannel. Output is gathered during a tick and
written once, as for the connections of clients; publishes to one queue are gathered too, and become one frame.

Deliveries are the bulk of the input. They come in runs (session/run_frames.py), large messages in ordinary frames. A
channel has one consumer, whose deliveries are numbered 1, 2, 3, ...
"""

from __future__ import annotations

from struct import Struct

from leveret.broker.broker import Broker
from leveret.errors import AmqpError, FrameError
from leveret.message import TRANSIENT, Address, Message
from leveret.session.connection import Peer
from leveret.session.consumer_reports import REPORT, decode_report
from leveret.session.outbox import Outbox
from leveret.session.run_frames import REDELIVERED, RUN, decode_run
from leveret.wire.constants import BASIC_CLASS, DEFAULT_FRAME_MAX, FRAME_END, FRAME_HEARTBEAT
from leveret.wire.fields import decode_short
from leveret.wire.frames import decode_method, method_frame
from leveret.wire.methods import (
    BasicGetOk,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConnectionClose,
    Method,
)

FRAME_MAX = DEFAULT_FRAME_MAX
MOST_CHANNELS = 65_535
MANY_CHANNELS = 32_768  # above which those that are idle are closed, before more are opened
HIGH_WATERMARK = 1 << 20  # bytes of output that the socket has not accepted
TAG = "c"  # of the one consumer of a channel
DELIVER = b"\x00\x3c\x00\x3c\x01" + TAG.encode()
TAG_AT = 7 + len(DELIVER)
CONTENT_AT = TAG_AT + 8  # where the flag redelivered, the exchange and the routing key begin
ACK, NACK = b"\x00\x3c\x00\x50", b"\x00\x3c\x00\x78"

unpack_frame = Struct(">BHI").unpack_from
unpack_settle = Struct(">QB").unpack_from
unpack_tag = Struct(">Q").unpack_from
unpack_content = Struct(">BHIHHQ").unpack_from


class LinkChannel:
    """One channel of a link. Subclasses are its owners."""

    def __init__(self) -> None:
        self.number = 0  # 0: not open
        self.addresses: dict[bytes, Address] = {}

    def send_gathered(self) -> None:
        """The tick ends."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing depends on the channel: another one can be opened when it is needed again."""
        return False

    def confirmed(self, tag: int, multiple: bool, ack: bool) -> None:
        """The home cell has accepted a publish, or refused it."""

    def returned(self) -> None:
        """The queue of the publish that is confirmed next does not exist."""

    def delivered(self, tag: int, run: list[Message], redelivered: bool) -> None:
        """Messages for the consumer of this channel; ``tag`` is that of the first one."""

    def reported(self, subject: int, value: int) -> None:
        """By the home cell, about the consumer of this channel (session/consumer_reports.py)."""

    def answered(self, method: Method, message: Message | None = None) -> None:
        """The reply to a request; basic.get-ok has a message."""

    def closed(self, reason: ChannelClose | None) -> None:
        """By the home cell, or with the link (None). The channel has no number any more."""


class LinkOutbox(Outbox):
    __slots__ = ("gathering",)

    def __init__(self, broker: Broker, peer: Peer) -> None:
        super().__init__(broker, peer, HIGH_WATERMARK, lambda: None)
        self.gathering: list[LinkChannel] = []

    def flush(self) -> None:
        for channel in self.gathering:
            channel.send_gathered()
        self.gathering.clear()
        super().flush()


class Link:
    """``connected`` and ``lost`` follow each other any number of times."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._outbox: LinkOutbox | None = None
        self._channels: dict[int, LinkChannel | None] = {}  # None: closed here, and not yet there
        self._last = 0  # number of the channel that was opened last
        self._look_at = MANY_CHANNELS  # the number of channels at which idle ones are looked for
        self._parts: list[bytes] = []
        self._held = self._need = 0

    # ---- the socket

    @property
    def is_up(self) -> bool:
        return self._outbox is not None

    def connected(self, peer: Peer) -> Outbox:
        self._outbox = LinkOutbox(self._broker, peer)
        return self._outbox

    def lost(self) -> None:
        outbox, self._outbox = self._outbox, None
        if outbox is None:
            return
        outbox.close()
        channels, self._channels = self._channels, {}
        self._parts.clear()
        self._last = self._held = self._need = 0
        self._look_at = MANY_CHANNELS
        for channel in channels.values():
            if channel is not None:
                self._forget(channel, None)
        self._broker.wake()

    # ---- channels

    @property
    def is_full(self) -> bool:
        """Whether all channels are in use."""
        return self.is_up and len(self._channels) >= MOST_CHANNELS

    def open(self, channel: LinkChannel) -> bool:
        """False if the link is down, or full."""
        if len(self._channels) >= self._look_at:
            self._close_idle()
        if self._outbox is None or self.is_full:
            return False
        while True:
            self._last = self._last % MOST_CHANNELS + 1
            if self._last not in self._channels:
                break
        channel.number = self._last
        self._channels[channel.number] = channel
        self.send(method_frame(channel.number, ChannelOpen()))
        return True

    def close(self, channel: LinkChannel) -> None:
        if channel.number:
            self._channels[channel.number] = None
            self.send(method_frame(channel.number, ChannelClose(200, "done", 0, 0)))
            channel.number = 0

    def _close_idle(self) -> None:
        """All that are idle. The next look comes when there are many more channels."""
        for channel in [each for each in self._channels.values() if each is not None and each.is_idle]:
            self.close(channel)
            self._forget(channel, None)
        used = sum(each is not None for each in self._channels.values())
        self._look_at = max(MANY_CHANNELS, min(used + used // 4, (used + MOST_CHANNELS) // 2))

    def send(self, data: bytes) -> None:
        if self._outbox is not None:
            self._outbox.send(data)

    def send_pieces(self, pieces: list[bytes], size: int) -> None:
        if self._outbox is not None:
            self._outbox.pieces += pieces
            self._outbox.added(size)

    def gather(self, channel: LinkChannel) -> None:
        """Call ``send_gathered`` at the end of this tick, if the link is up then."""
        if self._outbox is not None:
            self._outbox.gathering.append(channel)
            self._outbox.added(0)

    def _forget(self, channel: LinkChannel, reason: ChannelClose | None) -> None:
        channel.number = 0
        channel.addresses.clear()
        channel.closed(reason)

    # ---- input

    def receive(self, data: bytes) -> None:
        """Raises AmqpError if the other side does not speak the protocol of links."""
        self._parts.append(data)
        self._held += len(data)
        if self._held < self._need:
            return
        data = data if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self._need = 8
        pos = self._take_frames(data)
        if pos < len(data):
            self._parts.append(data[pos:])
        self._held = len(data) - pos
        if self._broker.has_work:
            self._broker.wake()

    def _take_frames(self, data: bytes) -> int:
        """Handle whole frames and messages; returns where the rest begins."""
        pos, end = 0, len(data)
        startswith = data.startswith
        while end - pos >= 8:
            kind, number, size = unpack_frame(data, pos)
            stop = pos + size + 8
            if stop > end:
                self._need = stop - pos
                break
            if data[stop - 1] != FRAME_END:
                raise FrameError(f"frame on channel {number} of a link does not end with 0xCE")
            channel = self._channels.get(number)
            if kind == RUN:
                if channel is not None:
                    tag, flags, run = decode_run(data, pos, stop, TRANSIENT, channel.addresses)
                    channel.delivered(tag, run, flags == REDELIVERED)
                pos = stop
            elif startswith(DELIVER, pos + 7):
                behind = self._content_end(data, stop)
                if not behind:
                    self._need += stop - pos
                    break
                if channel is not None:
                    self._deliver(channel, data, pos, stop, behind)
                pos = behind
            elif startswith(ACK, pos + 7) or startswith(NACK, pos + 7):
                if channel is not None:
                    tag, flags = unpack_settle(data, pos + 11)
                    channel.confirmed(tag, bool(flags & 1), startswith(ACK, pos + 7))
                pos = stop
            else:
                behind = self._take_method(number, channel, data, pos, stop)
                if not behind:
                    break
                pos = behind
        return pos

    def _content_end(self, data: bytes, start: int) -> int:
        """Where the content that begins at ``start`` ends; 0 if it is not there yet, with the bytes that it needs."""
        end = len(data)
        if end - start < 19:
            self._need = 20
            return 0
        size: int
        kind, _, size, class_id, _, body = unpack_content(data, start)
        if kind != 2 or class_id != BASIC_CLASS:
            raise FrameError("a message on a link has no content")
        at = start + size + 8
        while body > 0:
            if end - at < 8:
                self._need = at - start + body + 8
                return 0
            _, _, size = unpack_frame(data, at)
            at += size + 8
            body -= size
        if at > end:
            self._need = at - start
            return 0
        return at

    def _deliver(self, channel: LinkChannel, data: bytes, pos: int, stop: int, behind: int) -> None:
        (tag,) = unpack_tag(data, pos + TAG_AT)
        tail = data[pos + CONTENT_AT : stop]
        exchange, at = decode_short(tail, 1, len(tail) - 1)
        key, _ = decode_short(tail, at, len(tail) - 1)
        address = Address(exchange, key, channel.number, FRAME_MAX)
        channel.delivered(tag, [(data[stop:behind], address, TRANSIENT)], bool(tail[0] & 1))

    def _take_method(self, number: int, channel: LinkChannel | None, data: bytes, pos: int, stop: int) -> int:
        """Returns where the rest begins; 0 if the content of the method is not there yet."""
        if data[pos] == REPORT and channel is not None:
            channel.reported(*decode_report(data, pos))
        if data[pos] in (FRAME_HEARTBEAT, REPORT):
            return stop
        method = decode_method(data[pos + 7 : stop - 1])
        if isinstance(method, BasicGetOk | BasicReturn):
            behind = self._content_end(data, stop)
            if not behind:
                self._need += stop - pos
            elif channel is not None and isinstance(method, BasicGetOk):
                address = Address(method.exchange, method.routing_key, number, FRAME_MAX)
                channel.answered(method, (data[stop:behind], address, TRANSIENT))
            elif channel is not None:
                channel.returned()
            return behind
        if isinstance(method, ConnectionClose):
            raise AmqpError(f"closed by the other cell: {method.reply_text}")
        if isinstance(method, ChannelCloseOk):
            self._channels.pop(number, None)
        elif isinstance(method, ChannelClose):
            self._channels.pop(number, None)
            self.send(method_frame(number, ChannelCloseOk()))
            if channel is not None:
                self._forget(channel, method)
        elif channel is not None:
            channel.answered(method)
        return stop
