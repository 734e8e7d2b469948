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

from leveret.delivery.consumer import Consumer
from leveret.delivery.consumer_ring import ConsumerRing
from leveret.errors import AccessRefused
from leveret.message import NEVER, Message
from leveret.queues.counters import QueueCounters
from leveret.queues.deadlines import Deadlines
from leveret.queues.expiry import arm_expiry, bury_expired, dying_by
from leveret.queues.guard import Guard
from leveret.queues.idleness import Idleness
from leveret.queues.lane import Lane
from leveret.queues.options import QueueOptions
from leveret.queues.paging import Pager
from leveret.queues.surroundings import PER_MESSAGE, Cancellable, Surroundings
from leveret.queues.taken import Taken as Taken
from leveret.store.log import Placement

BURST = 4096  # messages one queue may deliver before others get their turn

Observer = Callable[["ClassicQueue"], None]


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
        "idleness",
        "lane",
        "lanes",
        "name",
        "observers",
        "options",
        "owner",
        "pager",
        "plain",
        "stored",
        "surroundings",
        "synced",
        "unacked",
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
        self.stored = durable and owner is None
        self.synced = options.durability != "os"
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
        pages = surroundings.pages
        self.pager = None if pages is None else Pager(self, pages, surroundings.queue_memory)
        self.expiry_timer: tuple[float, Cancellable] | None = None
        self.idleness = None if options.expires is None else Idleness(self, options.expires)
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
            self.lane.incoming.extend(run)
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
            Placement(self.id, lane.number, tail, lane.tail - tail, len(self.lanes) - 1)
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
            run = dying_by(in_turn, run)
        highest = len(self.lanes) - 1
        for message in run:
            lane = self.lanes[min(message[2].priority, highest)]
            if message[2].deadline < in_turn and self.deadlines is not None:
                self.deadlines.watch(lane.number, lane.tail, message[2].deadline)
            lane.incoming.append(message)

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
            bury_expired(self)
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
            bury_expired(self)
            arm_expiry(self)
        if self.pager is not None:
            self._refill()
        self._account()
        if self.observers:
            for observer in self.observers:
                observer(self)

    def _refill(self) -> None:
        """Before the front of a lane runs dry, have more of it brought back from disk."""
        assert self.pager is not None
        for lane in self.lanes:
            if lane.page_stop:
                self.pager.fill(lane)

    def _account(self) -> None:
        """Tell the gauge and the counters what changed; once per turn, not once per message."""
        gauge, pager = self.surroundings.gauge, self.pager
        here = self.bytes
        if pager is not None:
            here -= pager.bytes
            if here > pager.limit or gauge.is_short:
                pager.page_out(gauge.is_short)
                here = self.bytes - pager.bytes
        messages = self.unacked
        received = 0
        for lane in self.lanes:
            messages += len(lane.ready) + len(lane.returned) + len(lane.fresh) - lane.holes
            received += lane.tail - 1
        held = here + messages * PER_MESSAGE
        gauge.used += held - self.accounted
        self.accounted = held
        self.counters.received = received

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
            self.release(lane.number, sequence, number, size)
        else:
            self.unacked += number
        return number

    def get(self, no_ack: bool) -> Taken | None:
        """Take the first ready message by hand; see ``needs_load`` first."""
        self.note_use()
        self._settle_down()
        lane = self._highest_lane()
        redelivered = bool(lane.returned)
        waiting = lane.pop()
        if waiting is None:
            self._account()
            return None
        sequence, count, message = waiting
        self.counters.got += 1
        self.counters.redelivered += redelivered
        if no_ack:
            self.release(lane.number, sequence, 1, len(message[0]))
        else:
            self.unacked += 1
        self._account()
        if self.pager is not None:
            self._refill()
        return Taken(lane.number, sequence, count, redelivered, message, self.ready)

    @property
    def needs_load(self) -> bool:
        """There are messages, but the first of them is on disk: ``pager.when_loaded`` tells when it is not."""
        self._settle_down()
        lane = self._highest_lane()
        return lane.paged > 0 and lane.is_empty_here

    def _settle_down(self) -> None:
        """Before anybody looks at the front: deliveries and deaths that are due."""
        if self.dirty:
            self.drain()
        elif self.deadlines is not None:
            bury_expired(self)
        for lane in self.lanes:
            lane.strip()

    def settle(self, lane: int, sequence: int, messages: list[Message]) -> None:
        if not self.alive:
            return
        number = len(messages)
        self.unacked -= number
        self.counters.acked += number
        self.release(lane, sequence, number, sum([len(message[0]) for message in messages]))

    def requeue(self, lane: int, sequence: int, messages: list[Message], count: int) -> None:
        if not self.alive:
            return
        self.unacked -= len(messages)
        self.counters.requeued += len(messages)
        if self.stored:
            self.surroundings.log.returned(self.id, lane, sequence, len(messages), count + 1)
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
        self.release(lane, sequence, len(messages), sum([len(message[0]) for message in messages]))

    def purge(self) -> int:
        """Forget what is ready; what is unacked stays with its holders."""
        number = 0
        for lane in self.lanes:
            for sequence, _, message in list(lane):
                self.release(lane.number, sequence, 1, len(message[0]))
                number += 1
            if self.pager is not None and lane.page_stop:
                number += self.pager.purge(lane)
                self.release(lane.number, lane.page_start, lane.page_stop - lane.page_start, 0)
            lane.clear()
        if self.pager is not None:
            self.bytes -= self.pager.bytes
            self.pager.bytes = 0
        self.counters.purged += number
        self._account()
        return number

    def release(self, lane: int, sequence: int, number: int, size: int) -> None:
        """These messages hold no place any more, neither in memory nor in the log."""
        self.bytes -= size
        if self.stored:
            self.surroundings.log.settle(self.id, lane, sequence, number)

    # ---- time

    def note_use(self) -> None:
        """Somebody declared, consumed or got: the clock of x-expires starts again."""
        if self.idleness is not None:
            self.idleness.note_use()

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
        if self.expiry_timer is not None:
            self.expiry_timer[1].cancel()
        if self.idleness is not None:
            self.idleness.stop()
        if self.stored:
            surroundings.log.forget(self.id)
        if self.pager is not None:
            self.pager.pages.forget(self.id)
            self.pager.tell_waiting()
        for consumer in list(self.consumers):
            self.consumers.remove(consumer)
            consumer.cancelled_by_queue()
        if self.guard is not None:
            self.guard.queue_died()
        return number
