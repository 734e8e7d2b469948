"""A queue that is in another cell, as one of the queue types.

It holds no messages but those that its consumers' links have prefetched. Publishes go through its log
(cells/remote_publishes.py); each consumer is one at the home cell (cells/remote_consumer.py). A message that a client
holds is known by a *lane*, which stands for a consumer or for what basic.get has fetched, and by its delivery tag on
the channel of that lane. When the link is lost, all lanes end: the home cell delivers again what was not settled, and
settlements that come later find no lane.

Length: the whole interface of a queue, most of it passed on to one of the classes named above.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import count
from typing import NoReturn

from leveret.backlog.backlog import Observer
from leveret.backlog.counters import QueueCounters
from leveret.backlog.walk import START, Position, Visitor
from leveret.cells.home_cell import HomeCell
from leveret.cells.remote_consumer import RemoteConsumer
from leveret.cells.remote_gets import RemoteGets
from leveret.cells.remote_home import RemoteHome
from leveret.cells.remote_publishes import RemotePublishes
from leveret.cells.remote_requests import RemoteRequests
from leveret.cells.reported_active import ReportedActive
from leveret.cells.request_channel import Got
from leveret.cells.stream_position import StreamPosition
from leveret.clock import TimeSlice
from leveret.delivery.consumer import Consumer, Outstanding
from leveret.delivery.consumer_ring import ConsumerRing
from leveret.delivery.receipts import PendingPublish, Publisher, Receipt
from leveret.errors import AmqpError, PreconditionFailed, error_of
from leveret.message import Message
from leveret.queues.context import QueueContext
from leveret.queues.declared_queue import Declaration, DeclaredQueue, GetResult, MessageWalk, QueueCounts
from leveret.queues.options import QueueOptions
from leveret.queues.stream_options import STREAM, checked_reader, get_unsupported
from leveret.session.ack_timeout_extension import extension_of_link
from leveret.store.log import Placement
from leveret.wire.frames import method_frame
from leveret.wire.methods import ChannelClose


class RemoteQueue(DeclaredQueue):
    __slots__ = (
        "_answers",
        "_numbers",
        "_positions",
        "_publishes",
        "accounted",
        "alive",
        "arguments",
        "auto_delete",
        "bytes",
        "can_reject",
        "cell",
        "consumers",
        "context",
        "counters",
        "counts",
        "counts_deliveries",
        "dirty",
        "durable",
        "gets",
        "held",
        "home",
        "id",
        "lanes",
        "name",
        "observers",
        "options",
        "owner",
        "remote_log",
        "requests",
        "returning",
        "stored",
        "synced",
        "unacked",
        "vhost",
    )

    def __init__(self, declared: Declaration, context: QueueContext, cell: HomeCell) -> None:
        self.id, self.name, self.vhost, self.options = declared[:4]
        self.durable, self.auto_delete, self.owner = declared.durable, declared.auto_delete, declared.owner
        self.arguments = dict(declared.arguments)
        self.context = context
        self.alive = True
        self.stored = self.synced = False  # the home cell stores its messages
        self.dirty = self.can_reject = self.counts_deliveries = False
        self.returning = 0
        self.consumers: ConsumerRing = ReportedActive() if self.options.single_active else ConsumerRing()
        self.counters = QueueCounters()
        self.observers: list[Observer] = []
        self.unacked = self.bytes = self.held = self.accounted = 0
        self.cell = cell
        self.counts = QueueCounts(0, 0)  # as the home cell has reported last
        self._publishes = RemotePublishes(self.name, cell, context)
        self._numbers = count()
        self.requests = RemoteRequests(self.name, self.vhost, cell, context)
        self.gets = RemoteGets(self.name, self.vhost, cell, context, self._numbers)
        self.lanes: dict[int, RemoteConsumer] = {}
        self._positions: dict[Consumer, StreamPosition] = {}  # if it is a stream
        self._answers: deque[Got | AmqpError | None] = deque()  # to basic.get
        self.remote_log = self
        cell.queues[self] = None
        self.home: RemoteHome = RemoteHome(self)

    # ---- the link

    def link_is_up(self) -> None:
        self._publishes.resume()
        self.requests.resume()
        self.gets.resume()
        for consumer in list(self.consumers):
            if not any(remote.consumer is consumer and remote.number for remote in self.lanes.values()):
                self._subscribe(consumer)

    def report(self, ready: int, unacked: int) -> None:
        """As its home cell counts."""
        self.counts = QueueCounts(ready, self.counts.consumers)
        self.unacked = unacked

    # ---- publishing (delivery.receipts.RemoteLog)

    @property
    def reachable_cell(self) -> str:
        return self.cell.name if self.cell.is_reachable else ""

    def submit(self, size: int, timed: bool, publish: PendingPublish) -> None:
        self.counters.received += len(publish.run)
        self._publishes.submit(size, publish.run, publish)

    def forward(self, size: int, timed: bool, run: list[Message], publisher: Publisher) -> None:
        self.counters.received += len(run)
        self._publishes.forward(size, run, publisher)

    def sync(self, publish: PendingPublish) -> None:
        receipt = publish.open()
        self.home.count(lambda answer: receipt.lost() if isinstance(answer, AmqpError) else receipt.granted())

    def unanswered(self) -> list[Receipt]:
        return self._publishes.unanswered()

    def publish(self, run: list[Message], size: int, timed: bool) -> NoReturn:
        raise AssertionError("a remote queue gets its messages through its log")

    def place(self, run: list[Message], size: int, timed: bool) -> list[Placement]:
        raise AssertionError("the home cell of a remote queue stores its messages")

    @property
    def is_lasting(self) -> bool:
        return self.durable and self.owner is None

    @property
    def is_stream(self) -> bool:
        return self.options.kind == STREAM

    @property
    def title(self) -> str:
        return f"queue '{self.name}' in vhost '{self.vhost}'"

    # ---- counting

    @property
    def ready(self) -> int:
        return self.counts.ready

    def first_message(self) -> Message | None:
        return None

    def account(self) -> None:
        used = sum([remote.bytes for remote in self.lanes.values()])
        self.context.gauge.used += used - self.accounted
        self.accounted = used

    # ---- deliveries

    def touch(self) -> None:
        if not self.dirty and self.alive:
            self.dirty = True
            self.context.dirty.append(self)

    def drain(self) -> None:
        self.dirty = False
        if not self.alive or self.consumers.paused:
            return
        for remote in list(self.lanes.values()):
            size = remote.bytes
            number, again = remote.drain()
            if not number:
                continue
            self.counters.delivered += number
            self.counters.redelivered += again
            if remote.consumer.no_ack:
                self.counters.delivered_no_ack += number
            else:
                self.held += size - remote.bytes
            if remote.consumer.one_shot:
                self.dismiss(remote.consumer)
        self.account()

    def catch_up(self) -> None:
        self.drain()
        self.dirty = True  # it is still in the list of dirty queues

    def settle_down(self, time_slice: TimeSlice | None = None) -> bool:
        if self.dirty:
            self.catch_up()
        return True

    # ---- basic.get

    def when_loaded(self, call: Callable[[], None]) -> bool:
        if self.is_stream:
            raise get_unsupported(self.title)
        if self._answers:
            return False
        is_waiting = False

        def take(answer: Got | AmqpError | None) -> None:
            self._answers.append(answer)
            if is_waiting:
                call()
                self._forget_unclaimed(answer)

        self.gets.get(take)
        is_waiting = not self._answers  # else the home cell is away, and the answer is an error
        return is_waiting

    def _forget_unclaimed(self, answer: Got | AmqpError | None) -> None:
        """The channel that asked may be closed by now."""
        if self._answers and self._answers[-1] is answer:
            self._answers.pop()
            if isinstance(answer, tuple):
                self.gets.requeue(answer[0].delivery_tag, tried=False)

    def get(self, no_ack: bool, by: object | None = None) -> GetResult | None:
        answer = self._answers.popleft() if self._answers else None
        if isinstance(answer, AmqpError):
            raise answer
        if answer is None:
            self.counters.got_nothing += 1
            return None
        method, message = answer
        self.counters.got += 1
        if no_ack:
            self.gets.settle(method.delivery_tag)
        else:
            self.held += len(message[0])
        redelivered = method.redelivered
        return GetResult(
            self.gets.lane, method.delivery_tag, int(redelivered), redelivered, message, method.message_count
        )

    def purge(self) -> int:
        raise self._elsewhere("purge it over AMQP")

    def walk(self, visit: Visitor, on_progress: Callable[[], None], after: Position = START) -> MessageWalk:
        raise self._elsewhere("get its messages over AMQP")

    def _elsewhere(self, remedy: str) -> PreconditionFailed:
        return PreconditionFailed(f"{self.title} is in cell {self.cell.name}: {remedy}")

    # ---- settling

    def settle(self, lane: int, sequence: int, messages: list[Message]) -> None:
        self.counters.acked += len(messages)
        if lane == self.gets.lane:
            for tag in range(sequence, sequence + len(messages)):
                self.gets.settle(tag)
        elif (remote := self.lanes.get(lane)) is not None:
            remote.settle(sequence, len(messages))
        self._released(lane, messages)

    def requeue(self, lane: int, sequence: int, messages: list[Message], count: int, tried: bool = True) -> None:
        self.counters.requeued += len(messages)
        if lane == self.gets.lane:
            for tag in range(sequence, sequence + len(messages)):
                self.gets.requeue(tag, tried)
        elif (remote := self.lanes.get(lane)) is not None:
            remote.requeue(sequence, len(messages), tried)
        self._released(lane, messages)

    def drop(self, lane: int, sequence: int, messages: list[Message]) -> None:
        if lane == self.gets.lane:
            for tag in range(sequence, sequence + len(messages)):
                self.gets.drop(tag)
        elif (remote := self.lanes.get(lane)) is not None:
            remote.drop(sequence, len(messages))
        self._released(lane, messages)

    def extend_ack_timeout(self, unacked: Outstanding, tag: int, seconds: float | None) -> bool:
        """Without an answer: if the home cell has requeued the message by now, it is delivered again."""
        if self.options.ack_timeout is None:
            return False
        lane, sequence = unacked.place_of(tag)
        channel = self.gets if lane == self.gets.lane else self.lanes.get(lane)
        if channel is not None:
            self.cell.consuming.send(method_frame(channel.number, extension_of_link(sequence, seconds)))
        return True

    def _released(self, lane: int, messages: list[Message]) -> None:
        self.held -= sum([len(message[0]) for message in messages])
        remote = self.lanes.get(lane)
        if remote is not None:
            remote.released(len(messages))
            if remote.is_leaving and not remote.held:
                del self.lanes[lane]

    # ---- consumers

    def add_consumer(self, consumer: Consumer) -> None:
        if self.cell.consuming.is_full:
            raise self.cell.unreachable(self.name, self.vhost)
        if self.is_stream:
            checked_reader(consumer, self.title, self.context.now() + self.context.wall_ahead())
        self.consumers.add(consumer)
        self.context.callbacks.count_memory(consumer.memory)
        if self.is_stream:
            self._positions[consumer] = StreamPosition(isinstance(consumer.arguments.get("x-stream-offset"), int))
        self._subscribe(consumer)

    def _subscribe(self, consumer: Consumer) -> None:
        """Or later, when the link is up."""
        remote = RemoteConsumer(self.cell, self, next(self._numbers), consumer, self._positions.get(consumer))
        if remote.start():
            self.lanes[remote.lane] = remote

    def remove_consumer(self, consumer: Consumer) -> None:
        if not self._forget(consumer):
            return
        for remote in [each for each in self.lanes.values() if each.consumer is consumer]:
            remote.leave()
            if not remote.held:
                del self.lanes[remote.lane]
        self.account()

    def _forget(self, consumer: Consumer) -> bool:
        if not self.consumers.remove(consumer):
            return False
        self.context.callbacks.count_memory(-consumer.memory)
        self._positions.pop(consumer, None)
        return True

    def activity_reported(self, consumer: Consumer, active: bool) -> None:
        if isinstance(self.consumers, ReportedActive):
            self.consumers.report(consumer, active)

    def consumer_closed(self, remote: RemoteConsumer, reason: ChannelClose | None) -> None:
        """The link is lost (None): subscribe again when it is back. A consumer that the home cell has not answered is
        accepted, as one that comes now. Otherwise the home cell refuses the consumer, or has cancelled it."""
        self.lanes.pop(remote.lane, None)
        self.account()
        if reason is None:
            self.activity_reported(remote.consumer, active=False)
            remote.joined(None)
        elif self._forget(remote.consumer) and not remote.joined(error_of(reason.reply_code, reason.reply_text)):
            remote.consumer.cancelled_by_queue()

    # ---- the queue moves to another cell (cells/queue_move.py)

    @property
    def publishes(self) -> RemotePublishes:
        return self._publishes

    def detach(self) -> list[Consumer]:
        """Another object stands for the queue from now on. Returns its consumers, which are not cancelled. Publishes
        that were sent are still confirmed; the caller takes those that were not."""
        self.alive = False
        self.cell.queues.pop(self, None)
        self.requests.close_when_answered()
        self.gets.close_when_answered()
        self._close_lanes()
        consumers = list(self.consumers)
        for consumer in consumers:
            self._forget(consumer)
        return consumers

    def _close_lanes(self) -> None:
        for remote in list(self.lanes.values()):
            self.cell.consuming.close(remote)
            remote.joined(None)
        self.lanes.clear()
        self.account()

    def follow(self, former: RemoteQueue) -> list[Consumer]:
        """Stand for the queue instead of the former object; returns the consumers of that, which are not cancelled.

        What it has not sent is sent now; publishes once everything that it sent is confirmed: a publish must not
        overtake an earlier one that goes through the former home cell."""
        old = former.publishes
        self._publishes.is_held = True
        self._publishes.wait(old.take_unsent())

        def confirmed() -> None:
            old.end()
            self._publishes.is_held = False
            self._publishes.resume()

        old.when_confirmed(confirmed)
        self.requests.follow(former.requests)
        self.gets.follow(former.gets)
        return former.detach()

    # ---- options and deletion

    def apply(self, options: QueueOptions) -> None:
        self.options = options

    def die(self) -> int:
        self.alive = False
        self.cell.queues.pop(self, None)
        self._publishes.lose()
        self.requests.close_when_answered()
        self.gets.close_when_answered()
        self._close_lanes()
        self.cancel_consumers()
        return self.counts.ready
