"""The queue of the house: ordered, one or more lanes, in memory with a log behind it.  Hot path.

Theory of operation. A message is *ready* (in a lane), *unacked* (in the hands of a holder: the queue knows only how
many and how large) or *settled* (gone). publish() appends whole runs to a lane and marks the queue dirty; once per
turn of the loop drain() offers what is ready to the consumers. Publish, dirty, drain within one turn is the delivery
attempt: a message that finds a consumer is never seen as ready from outside, since whoever counts drains first.

    publish ──> ready ──drain──> unacked ──settle──> gone
                  ^                 │
                  └────requeue──────┘        (to its old place, marked redelivered)

Work per message is done only on queues that ask for it: lanes by priority, deadlines. All else is per run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from leveret.delivery.consumer import Consumer
from leveret.delivery.consumer_ring import ConsumerRing
from leveret.errors import AccessRefused
from leveret.message import NEVER, Message
from leveret.queues.counters import QueueCounters
from leveret.queues.deadlines import Deadlines
from leveret.queues.guard import Guard
from leveret.queues.lane import Lane
from leveret.queues.options import QueueOptions
from leveret.queues.surroundings import PER_MESSAGE, Cancellable, Surroundings
from leveret.store.log import Placement

BURST = 4096  # messages one queue may deliver before others get their turn

Observer = Callable[["ClassicQueue"], None]


class Taken(NamedTuple):
    """One message taken by hand (basic.get); ``left`` are still ready."""

    lane: int
    sequence: int
    tries: int
    message: Message
    left: int


class ClassicQueue:
    __slots__ = (
        "accounted",
        "alive",
        "arguments",
        "auto_delete",
        "bytes",
        "consumers",
        "counters",
        "deadlines",
        "dirty",
        "durable",
        "expiry_timer",
        "guard",
        "id",
        "lane",
        "lanes",
        "name",
        "observers",
        "options",
        "owner",
        "plain",
        "surroundings",
        "unacked",
        "unused_timer",
        "used_at",
        "vhost",
    )

    def __init__(
        self,
        id_: int,
        name: str,
        vhost: str,
        options: QueueOptions,
        surroundings: Surroundings,
        *,
        durable: bool = False,
        auto_delete: bool = False,
        owner: object | None = None,
        arguments: Mapping[str, object] | None = None,
    ) -> None:
        self.id = id_
        self.name = name
        self.vhost = vhost
        self.options = options
        self.surroundings = surroundings
        self.durable = durable
        self.auto_delete = auto_delete
        self.owner = owner  # the connection of an exclusive queue
        self.arguments = dict(arguments or {})
        self.alive = True
        self.dirty = False
        self.guard: Guard | None = None
        self.lanes = [Lane(number) for number in range((options.max_priority or 0) + 1)]
        self.lane = self.lanes[0]
        self.consumers = ConsumerRing()
        self.counters = QueueCounters()
        self.observers: list[Observer] = []
        self.unacked = 0
        self.bytes = 0  # of content, ready and unacked
        self.accounted = 0  # what the gauge was told of them
        self.deadlines = Deadlines(self.lanes) if options.ttl is not None else None
        self.plain = len(self.lanes) == 1 and self.deadlines is None  # runs are taken as they are
        self.expiry_timer: tuple[float, Cancellable] | None = None
        self.unused_timer: Cancellable | None = None
        self.used_at = surroundings.now()
        self.note_use()

    # ---- counting

    @property
    def ready(self) -> int:
        if len(self.lanes) == 1:
            return len(self.lane)
        return sum(map(len, self.lanes))

    # ---- messages in

    def publish(self, run: list[Message], size: int, timed: bool) -> None:
        if self.plain and not timed:
            self.lane.ready.extend(run)
        elif self.alive:
            self._publish_closely(run)
        else:
            return  # died while the content of these was still coming in, or before their transaction was committed
        self.bytes += size
        if not self.dirty:
            self.dirty = True
            self.surroundings.dirty.append(self)

    def place(self, run: list[Message], size: int, timed: bool) -> list[Placement]:
        tails = [lane.tail for lane in self.lanes]
        self.publish(run, size, timed)
        return [
            Placement(self.id, lane.number, tail, lane.tail - tail)
            for lane, tail in zip(self.lanes, tails, strict=True)
            if lane.tail > tail
        ]

    def _publish_closely(self, run: list[Message]) -> None:
        """Message by message: each to the lane of its priority, with its deadline watched."""
        if self.deadlines is None and any(message[2].deadline != NEVER for message in run):
            self.deadlines = Deadlines(self.lanes)
            self.plain = False
        in_turn = NEVER  # those that die later than this, or then, die in the order of their lane
        if self.options.ttl is not None:
            in_turn = self.surroundings.now() + self.options.ttl
            run = _dying_by(in_turn, run)
        highest = len(self.lanes) - 1
        for message in run:
            lane = self.lanes[min(message[2].priority, highest)]
            if message[2].deadline < in_turn and self.deadlines is not None:
                self.deadlines.watch(lane.number, lane.tail, message[2].deadline)
            lane.ready.append(message)

    def touch(self) -> None:
        if not self.dirty and self.alive:
            self.dirty = True
            self.surroundings.dirty.append(self)

    # ---- messages out

    def drain(self) -> None:
        self.dirty = False
        if not self.alive:
            return
        if self.deadlines is not None:
            self._bury_expired()
        budget = BURST
        while budget > 0:
            lane = self.lane if len(self.lanes) == 1 else self._highest_lane()
            if lane.holes:
                lane.strip()
            if not lane.ready and not lane.returned:
                break
            consumer = self.consumers.next()
            if consumer is None:
                break
            budget -= self._offer(lane, consumer, budget)
        if budget <= 0:
            self.touch()
        if self.deadlines is not None:
            if budget > 0:  # else some were not offered yet, and must not die of TTL 0 before that
                for lane in self.lanes:
                    lane.attempted = lane.tail
            self._bury_expired()
            self._arm_expiry()
        self._account()
        if self.observers:
            for observer in self.observers:
                observer(self)

    def _account(self) -> None:
        """Tell the gauge and the counters what changed; once per turn, not once per message."""
        held = self.bytes + (self.ready + self.unacked) * PER_MESSAGE
        self.surroundings.gauge.used += held - self.accounted
        self.accounted = held
        self.counters.received = sum([lane.tail - 1 for lane in self.lanes])

    def _highest_lane(self) -> Lane:
        for lane in reversed(self.lanes):
            if len(lane):
                return lane
        return self.lane

    def _offer(self, lane: Lane, consumer: Consumer, budget: int) -> int:
        """Give one consumer its turn; how many messages it took."""
        if lane.returned:
            sequence, count, message = lane.pop()  # type: ignore[misc]
            consumer.take_again(message, lane.number, sequence, count)
            number, size = 1, len(message[0])
            self.counters.redelivered += 1
        else:
            limit = lane.stretch(self.consumers.stretch or budget)
            number, size = consumer.take(lane.ready, lane.number, lane.head, limit)
            sequence = lane.head
            lane.head += number
        self.counters.delivered += number
        if consumer.no_ack:
            self.counters.delivered_no_ack += number
            self._release(lane.number, sequence, number, size)
        else:
            self.unacked += number
        return number

    def get(self, no_ack: bool) -> Taken | None:
        """Take the first ready message by hand."""
        self.note_use()
        if self.dirty:
            self.drain()
        elif self.deadlines is not None:
            self._bury_expired()
        lane = self._highest_lane()
        waiting = lane.pop()
        if waiting is None:
            self._account()
            return None
        sequence, count, message = waiting
        self.counters.got += 1
        self.counters.redelivered += count > 0
        if no_ack:
            self._release(lane.number, sequence, 1, len(message[0]))
        else:
            self.unacked += 1
        self._account()
        return Taken(lane.number, sequence, count, message, self.ready)

    def settle(self, lane: int, sequence: int, messages: list[Message]) -> None:
        if not self.alive:
            return
        number = len(messages)
        self.unacked -= number
        self.counters.acked += number
        self._release(lane, sequence, number, sum([len(message[0]) for message in messages]))

    def requeue(self, lane: int, sequence: int, messages: list[Message], count: int) -> None:
        if not self.alive:
            return
        self.unacked -= len(messages)
        self.counters.requeued += len(messages)
        home = self.lanes[lane]
        for place, message in enumerate(messages, sequence):
            home.give_back(place, count + 1, message)
            if message[2].deadline != NEVER and self.deadlines is not None:
                self.deadlines.watch(lane, place, message[2].deadline)
        self.touch()

    def drop(self, lane: int, sequence: int, messages: list[Message]) -> None:
        """Unacked messages that were refused for good."""
        if not self.alive:
            return
        self.unacked -= len(messages)
        self.counters.dropped += len(messages)
        self._release(lane, sequence, len(messages), sum([len(message[0]) for message in messages]))

    def purge(self) -> int:
        """Forget what is ready; what is unacked stays with its holders."""
        number = 0
        for lane in self.lanes:
            for sequence, _, message in list(lane):
                self._release(lane.number, sequence, 1, len(message[0]))
                number += 1
            lane.clear()
        self.counters.purged += number
        self._account()
        return number

    def _release(self, lane: int, sequence: int, number: int, size: int) -> None:
        """These messages hold no place any more, neither in memory nor in the log."""
        self.bytes -= size
        if self.durable:
            self.surroundings.log.settle(self.id, lane, sequence, number)

    # ---- time

    def _bury_expired(self) -> None:
        assert self.deadlines is not None
        for death in self.deadlines.collect(self.surroundings.now()):
            self.counters.expired += 1
            self._release(death.lane, death.sequence, 1, len(death.message[0]))

    def _arm_expiry(self) -> None:
        """One timer for the next death; an earlier one that is already set will look again."""
        assert self.deadlines is not None
        soonest = self.deadlines.next_deadline()
        if soonest == NEVER or (self.expiry_timer is not None and self.expiry_timer[0] <= soonest):
            return
        if self.expiry_timer is not None:
            self.expiry_timer[1].cancel()
        self.expiry_timer = (soonest, self.surroundings.schedule(soonest, self._expiry_due))

    def _expiry_due(self) -> None:
        self.expiry_timer = None
        self.touch()

    def note_use(self) -> None:
        """Somebody declared, consumed or got: the clock of x-expires starts again."""
        self.used_at = self.surroundings.now()
        if self.options.expires is not None and self.unused_timer is None:
            self.unused_timer = self.surroundings.schedule(self.used_at + self.options.expires, self._check_use)

    def _check_use(self) -> None:
        self.unused_timer = None
        expires = self.options.expires
        if expires is None or not self.alive or len(self.consumers):
            return
        due = self.used_at + expires
        if due <= self.surroundings.now():
            self.surroundings.retire(self)
        else:
            self.unused_timer = self.surroundings.schedule(due, self._check_use)

    # ---- consumers

    def add_consumer(self, consumer: Consumer) -> None:
        holder = next(iter(self.consumers), None)
        if holder is not None and (consumer.exclusive or holder.exclusive):
            raise AccessRefused(f"queue '{self.name}' in vhost '{self.vhost}' in exclusive use")
        self.consumers.add(consumer)
        self.note_use()
        self.touch()

    def remove_consumer(self, consumer: Consumer) -> None:
        if not self.consumers.remove(consumer) or not self.alive:
            return
        self.note_use()
        self.touch()
        if self.auto_delete and not len(self.consumers):
            self.surroundings.retire(self)

    # ---- the end

    def die(self) -> int:
        """Give everything up; the number of ready messages that went with it."""
        self.alive = self.plain = False
        number = self.ready
        surroundings = self.surroundings
        surroundings.gauge.used -= self.accounted
        self.bytes = self.unacked = self.accounted = 0
        for lane in self.lanes:
            lane.clear()
        for timer in (self.expiry_timer and self.expiry_timer[1], self.unused_timer):
            if timer is not None:
                timer.cancel()
        if self.durable:
            surroundings.log.forget(self.id)
        for consumer in list(self.consumers):
            self.consumers.remove(consumer)
            consumer.cancelled_by_queue()
        if self.guard is not None:
            self.guard.queue_died()
        return number


def _dying_by(deadline: float, run: list[Message]) -> list[Message]:
    """The same messages, none of them living longer than the queue's TTL; one traits object serves a whole run."""
    made = {traits: traits.expiring(deadline) for traits in {message[2] for message in run}}
    return [(content, address, made[traits]) for content, address, traits in run]
