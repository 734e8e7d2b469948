"""The queue of the house: ordered, one or more lanes, in memory with a log behind it.  Hot path.

Theory of operation. A message is *ready* (in a lane), *unacked* (in the hands of a holder: the queue knows only how
many and how large) or *settled* (gone). publish() appends whole runs to a lane and marks the queue dirty; once per
turn of the loop drain() offers what is ready to the consumers. Publish, dirty, drain within one turn is the delivery
attempt: a message that finds a consumer is never seen as ready from outside, since whoever counts drains first.

    publish ──> ready ──drain──> unacked ──settle──> gone
                  ^                 │
                  └────requeue──────┘        (to its old place, marked redelivered)

Work per message is done only on queues that ask for it: lanes by priority, deadlines. All else is per run. What the
options of a queue ask for beyond that stands in files of its own, and is None on queues that do not: ``limits``,
``waiting`` (retries), ``leases`` (ack timeouts), ``selection`` (groups, selectors), ``duplicates``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from leveret.clock import TimeSlice
from leveret.delivery.consumer import Consumer
from leveret.delivery.consumer_ring import ConsumerRing
from leveret.delivery.receipts import RemoteLog
from leveret.errors import AccessRefused
from leveret.message import Message
from leveret.queues.accounting import account
from leveret.queues.arriving import take_closely
from leveret.queues.counters import QueueCounters
from leveret.queues.deadlines import Deadlines
from leveret.queues.duplicates import Duplicates
from leveret.queues.dying import REJECTED, Dead, bury
from leveret.queues.ending import die
from leveret.queues.equipment import equip
from leveret.queues.expiry import arm_expiry, bury_expired
from leveret.queues.hand import purge, take_by_hand
from leveret.queues.idleness import Idleness
from leveret.queues.lane import Lane
from leveret.queues.leases import Leases
from leveret.queues.limits import Limits
from leveret.queues.options import QueueOptions
from leveret.queues.paging import Pager
from leveret.queues.returning import Waiting, give_back
from leveret.queues.selection import Selection, select
from leveret.queues.surroundings import Cancellable, Surroundings
from leveret.queues.taken import Taken as Taken
from leveret.queues.watermarks import Watermarks
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
        "choosy",
        "consumers",
        "counters",
        "counts_deliveries",
        "deadlines",
        "dirty",
        "duplicates",
        "durable",
        "expiry_timer",
        "held",
        "id",
        "idleness",
        "lane",
        "lanes",
        "leases",
        "limits",
        "name",
        "observers",
        "options",
        "owner",
        "pager",
        "plain",
        "returning",
        "selection",
        "stored",
        "surroundings",
        "synced",
        "unacked",
        "vhost",
        "waiting",
        "watermarks",
    )

    keeps_all = False  # only what is persistent goes to the log
    remote_log: RemoteLog | None = None

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
        self.stored = self.synced = durable and owner is None
        self.alive = True
        self.dirty = False
        self.lanes = [Lane(number) for number in range((options.max_priority or 0) + 1)]
        self.lane = self.lanes[0]
        self.consumers = ConsumerRing()
        self.counters = QueueCounters()
        self.observers: list[Observer] = []
        self.unacked = 0
        self.bytes = 0  # of content, ready and unacked
        self.held = 0  # of them, unacked
        self.accounted = 0  # what the gauge was told of them
        self.deadlines: Deadlines | None = None
        self.plain = len(self.lanes) == 1  # runs are taken as they are
        self.limits: Limits | None = None
        self.waiting: Waiting | None = None
        self.leases: Leases | None = None
        self.selection: Selection | None = None
        self.duplicates: Duplicates | None = None
        self.watermarks: Watermarks | None = None
        self.choosy = self.counts_deliveries = False
        self.returning = 0  # settlements that are giving messages back: no other message overtakes these
        pages = surroundings.pages
        self.pager = None if pages is None else Pager(self, pages, surroundings.queue_memory)
        self.expiry_timer: tuple[float, Cancellable] | None = None
        self.idleness: Idleness | None = None
        self.apply(options)

    def apply(self, options: QueueOptions) -> None:
        """Follow these options from now on."""
        equip(self, options)

    # ---- counting

    @property
    def ready(self) -> int:
        return len(self.lane) if len(self.lanes) == 1 else sum(map(len, self.lanes))

    @property
    def arrived(self) -> int:
        """Messages that have come since the last drain."""
        return sum([lane.tail - 1 for lane in self.lanes]) - self.counters.received

    # ---- messages in

    def publish(self, run: list[Message], size: int, timed: bool) -> None:
        if self.plain and not timed:
            self.lane.incoming.extend(run)
        elif self.alive:
            take_closely(self, run, timed)
        else:
            return  # died while the content of these was still coming in, or before their transaction was committed
        self.bytes += size
        if not self.dirty:
            self.dirty = True
            self.surroundings.dirty.append(self)

    def place(self, run: list[Message], size: int, timed: bool) -> list[Placement]:
        if len(self.lanes) == 1:  # where every run is one message, this is most of the work
            lane = self.lane
            tail = lane.tail
            self.publish(run, size, timed)
            number = lane.tail - tail
            return [Placement(self.id, 0, tail, number)] if number else []
        tails = [lane.tail for lane in self.lanes]
        self.publish(run, size, timed)
        return [
            Placement(self.id, lane.number, tail, lane.tail - tail, len(self.lanes) - 1)
            for lane, tail in zip(self.lanes, tails, strict=True)
            if lane.tail > tail
        ]

    def touch(self) -> None:
        if not self.dirty and self.alive:
            self.dirty = True
            self.surroundings.dirty.append(self)

    # ---- messages out

    def drain(self) -> None:
        self.dirty = False
        if not self.alive:
            return
        if self.deadlines is not None and not bury_expired(self):
            self.touch()  # more than may die at once; nobody gets one whose time is up
            return
        if self.returning and self.selection is not None:
            return  # touched again when all are back
        selects, is_single = self.selection is not None, len(self.lanes) == 1
        budget = self.selection.deliver(BURST) if self.selection is not None else BURST
        while budget > 0 and not selects:
            lane = self.lane if is_single else self.highest_lane()
            if lane.holes:
                lane.strip()
            if not lane.returned and (self.returning or not lane.ready):
                break
            consumer = self.consumers.next()
            if consumer is None:
                break
            budget -= self.offer(lane, consumer, budget)
        if budget <= 0:
            self.touch()
        elif self.limits is not None:
            self.limits.enforce()
        if self.deadlines is not None:
            if budget > 0:  # else some were not offered yet, and must not die of TTL 0 before that
                for lane in self.lanes:
                    lane.attempted = lane.tail
            if not bury_expired(self):
                self.touch()
            arm_expiry(self)
        if self.pager is not None and (self.lane.page_stop or not is_single):
            self.pager.refill()
        self.account()
        if self.observers:
            for observer in self.observers:
                observer(self)

    def catch_up(self) -> None:
        """Drain now, before the turn ends, as far as that goes in a time slice."""
        time_slice = self.surroundings.errands.new_slice()
        while self.dirty:  # a burst is not all there may be; a consumer's room is
            self.drain()
            if self.selection is not None or time_slice.is_over:
                break  # asking selectors about a whole backlog would hold the loop
        self.dirty = True  # it stands on the list; drained again in its turn, it finds nothing to do

    def account(self) -> None:
        """Tell the gauge and the counters what changed; once per turn, not once per message."""
        account(self)

    def highest_lane(self) -> Lane:
        return next((lane for lane in reversed(self.lanes) if len(lane)), self.lane)

    def offer(self, lane: Lane, consumer: Consumer, budget: int) -> int:
        """Give one consumer its turn; how many messages it took."""
        if lane.returned:
            sequence, tries, message = lane.pop()  # type: ignore[misc]
            consumer.take_again(message, lane.number, sequence, tries)
            number, size = 1, len(message[0])
            self.counters.redelivered += 1
        else:
            limit = 1 if consumer.one_shot else self.consumers.stretch or budget
            if lane.holes:
                limit = lane.stretch(limit)
            elif limit > len(lane.ready):
                limit = len(lane.ready)
            sequence = lane.head
            number, size = consumer.take(lane.ready, lane.number, sequence, limit)
            lane.head = sequence + number
        counters = self.counters
        counters.delivered += number
        if consumer.no_ack:
            counters.delivered_no_ack += number
            if self.stored or self.watermarks is not None:
                self.release(lane.number, sequence, number, size)
            else:
                self.bytes -= size
        else:
            self.unacked += number
            self.held += size
            if self.leases is not None:
                self.leases.opened(consumer.unacked, number)
        if consumer.one_shot:
            self.dismiss(consumer)
        return number

    def get(self, no_ack: bool, by: object | None = None) -> Taken | None:
        """Take the first ready message by hand, for ``by``; see ``needs_load`` first."""
        return take_by_hand(self, no_ack)

    @property
    def needs_load(self) -> bool:
        """There are messages, but the first of them is on disk: ``pager.when_loaded`` tells when it is not."""
        self.settle_down()
        lane = self.highest_lane()
        return lane.paged > 0 and lane.is_empty_here and not self.consumers.paused

    def settle_down(self, time_slice: TimeSlice | None = None) -> bool:
        """Before the front is looked at: deliveries and expiries that are due. False if the time slice was over first:
        an expired message may be in front."""
        if self.dirty:
            self.drain()
        while self.deadlines is not None and not bury_expired(self):
            if time_slice is not None and time_slice.is_over:
                return False
        for lane in self.lanes:
            lane.strip()
        return True

    def settle(self, lane: int, sequence: int, messages: list[Message]) -> None:
        if not self.alive:
            return
        number = len(messages)
        self.counters.acked += number
        self.release(lane, sequence, number, self._let_go(lane, sequence, messages))

    def requeue(self, lane: int, sequence: int, messages: list[Message], count: int, tried: bool = True) -> None:
        if not self.alive:
            return
        self._let_go(lane, sequence, messages)
        give_back(self, lane, sequence, messages, count, tried)
        self.touch()

    def drop(self, lane: int, sequence: int, messages: list[Message]) -> None:
        """Unacked messages that were refused for good."""
        if not self.alive:
            return
        self._let_go(lane, sequence, messages)
        self.counters.dropped += len(messages)
        bury(self, REJECTED, [Dead(lane, place, message) for place, message in enumerate(messages, sequence)])

    def _let_go(self, lane: int, sequence: int, messages: list[Message]) -> int:
        """These are in nobody's hands any more; their bytes."""
        size = sum([len(message[0]) for message in messages])
        self.unacked -= len(messages)
        self.held -= size
        if self.selection is not None:
            self.selection.let_go(lane, sequence, messages)
        return size

    def purge(self) -> int:
        """Forget what is ready; what is unacked stays with its holders."""
        return purge(self)

    def release(self, lane: int, sequence: int, number: int, size: int) -> None:
        """These messages hold no place any more, neither in memory nor in the log."""
        self.bytes -= size
        if self.stored:
            self.surroundings.log.settle(self.id, lane, sequence, number)
        if self.watermarks is not None:
            self.watermarks.released(lane, sequence, number, size)

    # ---- time

    def note_use(self) -> None:
        """Somebody declared, consumed or got: the clock of x-expires starts again."""
        if self.idleness is not None:
            self.idleness.note_use()

    # ---- consumers

    def refuse_second(self, consumer: Consumer) -> None:
        """Where one of the two wants the queue for itself."""
        holder = next(iter(self.consumers), None)
        if (consumer.exclusive and (holder or self.options.single_active)) or (holder and holder.exclusive):
            raise AccessRefused(f"queue '{self.name}' in vhost '{self.vhost}' in exclusive use")

    def add_consumer(self, consumer: Consumer) -> None:
        self.refuse_second(consumer)
        self.consumers.add(consumer)
        self.surroundings.count_memory(consumer.memory)
        if self.selection is not None or consumer.selector is not None:
            select(self)
        self.note_use()
        self.touch()

    def dismiss(self, consumer: Consumer) -> None:
        """The consumer has got what it came for."""
        self.remove_consumer(consumer)
        consumer.cancelled_by_queue()

    def remove_consumer(self, consumer: Consumer) -> None:
        if not self.consumers.remove(consumer):
            return
        self.surroundings.count_memory(-consumer.memory)
        if not self.alive:
            return
        if self.selection is not None:
            self.selection.left(consumer)
        self.note_use()
        self.touch()
        if self.auto_delete and not len(self.consumers):
            self.surroundings.retire(self)

    # ---- the end

    def die(self) -> int:
        """Give everything up; the number of ready messages that went with it."""
        return die(self)
