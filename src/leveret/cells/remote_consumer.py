"""One consumer of a queue of another cell: a consumer there, with the same prefetch, whose deliveries wait here.

The link prefetches for the client. Its window is the prefetch of the client. A client without a limit, or without
acknowledgements, gets a window that moves with what it has taken, so that a slow client does not fill the memory. For
the same reason the window is closed, by a prefetch of one message, while too many bytes wait here. A consumer that gets
one message only (x-pull-one) has a window of one; it is an ordinary consumer for the home cell, and cancelled here.

After a lost link, the consumer of a stream continues where it was (cells/stream_position.py).

Tags of the channel are the sequences of the messages here. Several acknowledgements at the start of what is outstanding
become one frame.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from leveret.cells.home_cell import HomeCell
from leveret.cells.link import TAG, LinkChannel
from leveret.cells.stream_position import StreamPosition
from leveret.delivery.consumer import UNLIMITED, Consumer
from leveret.errors import AmqpError, FrameError, PreconditionFailed
from leveret.message import Message
from leveret.session.consumer_reports import ACTIVE, CLIENT_TAG, OFFSET, RESUME_AT
from leveret.session.consumers import PULL_ONE
from leveret.session.run_frames import unseen_frame
from leveret.wire.fields import Table
from leveret.wire.frames import method_frame
from leveret.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicNack,
    BasicQos,
    BasicReject,
    ChannelClose,
    Method,
)

WINDOW = 1_000  # messages that wait here for a consumer without a limit
MOST_WINDOW = 60_000  # of a prefetch, whose field has 16 bits
MOST_BYTES = 8 << 20  # that wait here; what is on its way comes on top
Joined = Callable[[AmqpError | None], None]


class OutstandingTags:
    """Deliveries of the channel that are not settled: from ``base`` on, except those settled out of order."""

    __slots__ = ("_settled", "base")

    def __init__(self) -> None:
        self.base = 1
        self._settled: set[int] = set()

    def settle(self, first: int, number: int) -> bool:
        """Whether these are the oldest, so that one frame settles them all."""
        if first != self.base:
            self._settled.update(range(first, first + number))
            return False
        self.base += number
        while self.base in self._settled:
            self._settled.remove(self.base)
            self.base += 1
        return True


class ConsumedQueue(Protocol):
    """The queue, as its consumers use it."""

    name: str

    def touch(self) -> None:
        """Have the consumers drained before this tick ends."""

    def activity_reported(self, consumer: Consumer, active: bool) -> None:
        """The consumer is the single active one at the home cell, or no longer."""

    def consumer_closed(self, remote: RemoteConsumer, reason: ChannelClose | None) -> None:
        """By the home cell, or with the link (None)."""


class RemoteConsumer(LinkChannel):
    def __init__(
        self, home: HomeCell, queue: ConsumedQueue, lane: int, consumer: Consumer, position: StreamPosition | None
    ) -> None:
        """``lane``: by which the queue finds the holder of a message that is settled; ``position``: for streams."""
        super().__init__()
        self.lane = lane
        self.consumer = consumer
        self.ready: deque[Message] = deque()
        self.bytes = 0  # of ``ready``
        self.held = 0  # deliveries that the client has not settled
        self.is_leaving = False
        self._waiting: Joined | None = None  # for the home cell to accept or refuse the consumer
        self._home = home
        self._queue = queue
        self._position = position
        self._head = 1  # tag of ready[0]
        self._again: set[int] = set()  # tags of redelivered messages
        self._outstanding = OutstandingTags()
        self._is_open_ended = not consumer.one_shot and (consumer.no_ack or consumer.limit >= MOST_WINDOW)
        self._window = 1 if consumer.one_shot else WINDOW if self._is_open_ended else consumer.limit
        self._granted = self._window
        self._is_closed = False  # the home cell sends nothing: too much waits here

    def start(self) -> bool:
        """False while the home cell is away, or if there is no channel: then the client is cancelled."""
        link = self._home.consuming
        if not link.open(self):
            if link.is_full:
                self._queue.consumer_closed(self, ChannelClose(PreconditionFailed.code, "no channel is left", 0, 0))
            return False
        self._head, self._outstanding, self._granted = 1, OutstandingTags(), self._window
        self._is_closed = False
        self._prefetch(self._granted)
        method = BasicConsume(self._queue.name, TAG, exclusive=self.consumer.exclusive, arguments=self._arguments())
        link.send(method_frame(self.number, method))
        return True

    def _arguments(self) -> Table:
        consumer, position = self.consumer, self._position
        arguments = consumer.arguments | {"x-priority": consumer.priority, CLIENT_TAG: consumer.tag}
        arguments.pop(RESUME_AT, None)  # a client cannot set it
        arguments.pop(PULL_ONE, None)  # the home cell would cancel the consumer before the message has arrived here
        if position is not None and position.resume_at is not None:
            arguments[RESUME_AT] = position.resume_at
        return arguments  # type: ignore[return-value]

    # ---- deliveries

    def delivered(self, tag: int, run: list[Message], redelivered: bool) -> None:
        if tag != self._head + len(self.ready):
            raise FrameError(f"delivery {tag} on a link instead of {self._head + len(self.ready)}")
        if self.is_leaving:
            self._head += len(run)
            self._return_unseen(tag, len(run))
            return
        if redelivered:
            self._again.update(range(tag, tag + len(run)))
        elif self._position is not None:
            self._again.update(range(tag, tag + self._position.number_seen(tag, len(run))))
        self.ready += run
        self.bytes += sum([len(message[0]) for message in run])
        if self.bytes > MOST_BYTES and not self._is_closed:
            self._is_closed = True
            self._prefetch(1)
        self._queue.touch()

    def drain(self) -> tuple[int, int]:
        """Pass what the client has room for; the number of messages and of redelivered ones."""
        number = again = 0
        while self.ready and self.consumer.room() > 0:
            head = self._head
            if head in self._again:
                self._again.remove(head)
                message = self.ready.popleft()
                self.consumer.take_again(message, self.lane, head, 1)
                taken, size = 1, len(message[0])
                again += 1
            else:
                limit = min(self._again, default=head + len(self.ready)) - head if self._again else len(self.ready)
                taken, size = self.consumer.take(self.ready, self.lane, head, 1 if self.consumer.one_shot else limit)
            self._head += taken
            self.bytes -= size
            number += taken
            if self.consumer.one_shot:
                break
        if number:
            self._taken(number)
            if self._is_closed and self.bytes <= MOST_BYTES // 2:
                self._is_closed = False
                self._prefetch(self._granted)
        return number, again

    def _taken(self, number: int) -> None:
        if self.consumer.one_shot:
            self._cancel()  # before its message is settled: the home cell must not send another one
        if self.consumer.no_ack:
            self.settle(self._head - number, number)
        else:
            self.held += number
            if self._is_open_ended and self._granted < UNLIMITED:
                self._widen()

    def _widen(self) -> None:
        """Keep room for half a window beyond what the client holds."""
        wanted = self.held + WINDOW
        if wanted - self._granted >= WINDOW // 2:
            self._granted = wanted if wanted < MOST_WINDOW else UNLIMITED
            if not self._is_closed:
                self._prefetch(self._granted)

    def _prefetch(self, number: int) -> None:
        count = 0 if number == UNLIMITED else number
        self._home.consuming.send(method_frame(self.number, BasicQos(0, count, global_=True)))

    # ---- settling

    def settle(self, sequence: int, number: int) -> None:
        self._settle(sequence, number, lambda tag, multiple: BasicAck(tag, multiple))

    def requeue(self, sequence: int, number: int, tried: bool) -> None:
        if tried:
            self._settle(sequence, number, lambda tag, multiple: BasicNack(tag, multiple, requeue=True))
            return
        for tag in range(sequence, sequence + number):
            self._outstanding.settle(tag, 1)
            self._home.consuming.send(method_frame(self.number, BasicReject(tag, requeue=True)))

    def drop(self, sequence: int, number: int) -> None:
        self._settle(sequence, number, lambda tag, multiple: BasicNack(tag, multiple, requeue=False))

    def _settle(self, sequence: int, number: int, method: Callable[[int, bool], Method]) -> None:
        last = sequence + number - 1
        if self._outstanding.settle(sequence, number):
            methods = [method(last, number > 1)]
        else:
            methods = [method(tag, False) for tag in range(sequence, last + 1)]
        self._home.consuming.send(b"".join([method_frame(self.number, each) for each in methods]))

    def _return_unseen(self, tag: int, number: int) -> None:
        """The client has not seen these."""
        for each in range(tag, tag + number):
            self._outstanding.settle(each, 1)
        self._home.consuming.send(unseen_frame(self.number, tag, number))

    def released(self, number: int) -> None:
        """The client has settled so many."""
        self.held -= number
        if self.is_leaving and not self.held:
            self._home.consuming.close(self)

    # ---- the end

    def leave(self) -> None:
        """The client cancels. What it holds stays with it."""
        self.is_leaving = True
        if not self.number:
            return
        self._cancel()
        if self.ready:
            self._return_unseen(self._head, len(self.ready))
        self._head += len(self.ready)
        self._forget_ready()
        if not self.held:
            self._home.consuming.close(self)

    def _cancel(self) -> None:
        """A second time has no effect."""
        self._home.consuming.send(method_frame(self.number, BasicCancel(TAG, nowait=True)))

    def reported(self, subject: int, value: int) -> None:
        if subject == ACTIVE:
            self._queue.activity_reported(self.consumer, bool(value))
        elif subject == OFFSET and self._position is not None:
            self._position.report(self._head + len(self.ready), value, self._outstanding.base)

    def answered(self, method: Method, message: Message | None = None) -> None:
        if isinstance(method, BasicConsumeOk):
            self.joined(None)
        elif isinstance(method, BasicCancel):  # the queue was deleted
            self._home.consuming.close(self)
            self._queue.consumer_closed(self, ChannelClose(404, "cancelled by the home cell", 0, 0))

    def closed(self, reason: ChannelClose | None) -> None:
        if self._position is not None:
            self._position.link_lost(self._outstanding.base, self._head)
        self._forget_ready()
        self.held = 0
        self._queue.consumer_closed(self, reason)

    def await_joined(self, answered: Joined) -> None:
        self._waiting = answered

    def joined(self, refusal: AmqpError | None) -> bool:
        """The home cell has accepted or refused the consumer. False if no request waits for that."""
        answered, self._waiting = self._waiting, None
        if answered is not None:
            answered(refusal)
        return answered is not None

    def _forget_ready(self) -> None:
        self.ready.clear()
        self._again.clear()
        self.bytes = 0
