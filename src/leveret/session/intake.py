"""Bytes in: from chunks of any size to runs, methods and contents.  Hot path.

Theory of operation. ``receive`` handles every whole frame of a chunk in one loop and keeps at most one partial frame.
Publishes and acks are handled in runs (session/publishes.py, session/acknowledgements.py), all other methods one by
one. An AmqpError closes its channel or connection, and the loop continues at ``resume_at``, after the frame that caused
it: frames of a closing channel are ignored until its close-ok. After a framing error no frame can be read any more, and
only the bytes of a connection.close-ok are searched for.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from leveret.errors import AmqpError, FrameError
from leveret.routing.bounds import BYTE_STEPS, METHOD_STEPS
from leveret.session.acknowledgements import ack_run
from leveret.session.connection_moves import ConnectionMoves
from leveret.session.content import take_body, take_header
from leveret.session.limits import UNAUTHENTICATED_BYTES
from leveret.session.outbox import MOST_GATHERED
from leveret.session.publishes import PUBLISH, take_publishes
from leveret.session.replies import NO_METHOD, internal_error
from leveret.wire.constants import FRAME_END, FRAME_MAX_BEFORE_TUNE, PROTOCOL_HEADER
from leveret.wire.frames import method_frame
from leveret.wire.grammar import ChannelStep, Next, Step, check_frame, check_heartbeat
from leveret.wire.methods import ConnectionCloseOk

if TYPE_CHECKING:
    from leveret.session.amqp_connection import AmqpConnection

unpack_frame = Struct(">BHI").unpack_from
unpack_ids = Struct(">HH").unpack_from
LARGE = 16 << 10  # bytes of a message or frame that is joined by itself
LARGEST_READ = 512 << 10
ACK = b"\x00\x3c\x00\x50"
CLOSE_OK_FRAME = method_frame(0, ConnectionCloseOk())


class Intake:
    __slots__ = (
        "_connection",
        "_is_framing_lost",
        "_large",
        "_need",
        "_parts",
        "at_channel",
        "at_method",
        "frame_limit",
        "held",
        "resume_at",
        "wanted",
    )

    def __init__(self, connection: AmqpConnection) -> None:
        self._connection = connection
        self._parts: list[bytes] = []  # of one partial frame, or of all input since the halt
        self.held = self._need = self._large = 0
        self._is_framing_lost = False
        self.frame_limit = FRAME_MAX_BEFORE_TUNE  # of a payload
        self.resume_at = 0
        self.wanted = 0  # bytes needed for the message at the start of the rest
        self.at_channel = 0  # channel and method being handled, for the close after an error
        self.at_method = NO_METHOD

    def receive(self, data: bytes) -> None:
        connection = self._connection
        connection.has_received = True
        start = 0
        if self._need > LARGE and self.held < self._need <= self.held + len(data) and not connection.halted:
            data, start = self._complete(data)
        elif self._parts or connection.halted:
            self._parts.append(data)
            self.held += len(data)
            if self.held < self._need or connection.halted:
                self._bound_unauthenticated()
                return
            data = b"".join(self._parts)
            self.forget()
        if connection.step is Step.AWAIT_HEADER:
            start = self._take_protocol_header(data)
        start = self._take_frames(data, start)
        if start < len(data):
            self._keep(data[start:])
            self._bound_unauthenticated()

    def _complete(self, data: bytes) -> tuple[bytes, int]:
        """Handle the large message or frame that these data complete, joined by itself: joining it with everything
        behind would copy all large messages once more. Returns the data and where the rest of them begins."""
        missing = self._need - self.held
        if self._connection.may_move:  # with all of its input
            missing = len(data)
        whole = b"".join((*self._parts, memoryview(data)[:missing]))
        self.forget()
        handled = self._take_frames(whole, 0)
        if handled < len(whole):  # a halt
            return whole[handled:] + data[missing:], 0
        return data, missing

    def best_read(self, most: int) -> int:
        """How many bytes to read: so many that they end with a message, if large ones come that are equally long. The
        one that a read splits has to be joined."""
        if not self._large:
            return most
        missing = max(self._need - self.held, 0)
        return missing + max((most - missing) // self._large, 0 if missing else 1) * self._large

    def go_on(self) -> None:
        """Handle the input that arrived during the halt."""
        if self._parts:
            self._need = 0
            self.receive(b"")

    def rest(self) -> bytes:
        """The input that is not handled yet."""
        return b"".join(self._parts)

    def forget(self) -> None:
        self._parts.clear()
        self.held = self._need = 0

    def _bound_unauthenticated(self) -> None:
        """Close connections that send too much before they have logged in."""
        connection = self._connection
        if self.held > UNAUTHENTICATED_BYTES and connection.step is not Step.OPEN and not connection.is_over:
            connection.log.warning("connection closed: too much data before login", bytes=self.held)
            self.forget()
            connection.over()

    def _keep(self, rest: bytes) -> None:
        self._parts.append(rest)
        self.held = len(rest)
        self._need = 8
        if self.wanted:
            self._need, self.wanted = self.wanted, 0
            self._large = self._need if LARGE < self._need <= LARGEST_READ else 0
        elif len(rest) >= 7 and self._connection.step is not Step.AWAIT_HEADER:
            size = unpack_frame(rest)[2]
            if size <= self.frame_limit:  # otherwise one byte more is enough to refuse it
                self._need = size + 8

    def _take_protocol_header(self, data: bytes) -> int:
        if not PROTOCOL_HEADER.startswith(data[:8]):
            self._connection.refuse_protocol()
            return len(data)
        if len(data) < 8:
            return 0
        self._connection.greet()
        return 8

    def _take_frames(self, data: bytes, pos: int) -> int:
        """Handle all whole frames; returns where the partial one begins."""
        connection = self._connection
        if connection.step is Step.AWAIT_HEADER:
            return pos
        while connection.step is not Step.CLOSED:
            if self._is_framing_lost:
                if CLOSE_OK_FRAME in data:
                    connection.over()
                break
            try:
                return self._parse(data, pos)
            except AmqpError as error:
                connection.fail(error)
            except ConnectionMoves as move:
                self.resume_at -= move.size
                if connection.move(move.cell, data[self.resume_at :]):
                    break
            except Exception as error:  # an internal error must not stop the event loop
                connection.log.exception(
                    "internal error while handling a frame", channel=self.at_channel, method=self.at_method
                )
                connection.fail(internal_error(error))
            self.wanted = 0  # of a message behind the failed one: what is left may begin with another frame
            pos = self.resume_at
        return len(data)

    def _parse(self, data: bytes, pos: int) -> int:
        end = len(data)
        startswith = data.startswith
        connection = self._connection
        alarms = connection.broker.alarms
        while end - pos >= 8 and not connection.halted:
            kind, number, size = unpack_frame(data, pos)
            if size > self.frame_limit:
                self._lose_framing(end)
                raise FrameError(f"frame of {size} bytes is larger than {self.frame_limit}")
            stop = pos + size + 8
            if stop > end:
                break
            if data[stop - 1] != FRAME_END:
                self._lose_framing(end)
                raise FrameError(f"frame on channel {number} does not end with 0xCE")
            self.resume_at = stop
            self.at_channel = number
            if kind == 1:
                channel = connection.channels.get(number)
                if alarms and startswith(PUBLISH, pos + 7) and channel is not None and channel.step is ChannelStep.OPEN:
                    connection.block()  # before the body is read; later frames wait as well, to keep the order
                    break
                if channel is not None and channel.idle:
                    if startswith(PUBLISH, pos + 7):
                        self.at_method = (60, 40)
                        pos = take_publishes(channel, data, pos, stop)
                        if pos >= 0:
                            continue
                        pos = ~pos  # the rest of that message has not arrived
                        break
                    if startswith(ACK, pos + 7):
                        self.at_method = (60, 80)
                        pos = ack_run(channel, data, pos)
                        continue
            self.at_method = NO_METHOD
            self._take_frame(kind, number, data[pos:stop])
            if kind == 1:
                connection.charge(METHOD_STEPS + BYTE_STEPS * size)  # long arguments, such as selectors, cost more
            pos = stop
            if connection.step is Step.CLOSED:
                return end
            if connection.outbox.size > MOST_GATHERED:
                connection.flush_and_check_unread()
        return pos

    def _lose_framing(self, end: int) -> None:
        self._is_framing_lost = True
        self.at_method = NO_METHOD
        self.resume_at = end

    def _take_frame(self, kind: int, number: int, frame: bytes) -> None:
        connection = self._connection
        if kind == 1:
            if len(frame) >= 12:
                self.at_method = unpack_ids(frame, 7)
            try:
                connection.take_method(number, frame[7:-1])
            except ConnectionMoves as move:
                move.size = len(frame)
                raise
        elif kind == 8:
            check_heartbeat(number, len(frame) - 8)
        elif kind in (2, 3):
            channel = connection.channels.get(number)
            if connection.step is Step.CLOSING or (channel is not None and channel.step is ChannelStep.CLOSING):
                return
            if channel is None:
                check_frame(Next.METHOD, kind, number)
            elif kind == 2:
                take_header(channel, frame)
            else:
                take_body(channel, frame)
        else:
            self._lose_framing(self.resume_at)
            raise FrameError(f"unknown frame type {kind}")
