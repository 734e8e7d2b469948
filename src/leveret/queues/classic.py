"""The default queue type: ordered, with one or more lanes, in memory with a log behind it.  Hot path.

Theory of operation. A message is *ready* (in a lane), *unacknowledged* (delivered: the queue stores only how many and
how large) or *settled* (gone). publish() appends whole runs to a lane and marks the queue dirty; once per tick drain()
delivers ready messages to the consumers. A message that can be delivered in the tick of its publish never counts as
ready, because all code that reads the counts drains the queue first.

    publish ──> ready ──drain──> unacknowledged ──settle──> gone
                  ^                 │
                  └────requeue──────┘        (to its old place, marked redelivered)

Work per message is done only on queues that need it: lanes by priority, deadlines. Everything else is done per run. The
waiting messages are in leveret.backlog. Parts for further options are None on queues without these options: ``limits``,
``ack_timeouts``, ``idle_timer``, ``selection`` (groups, selectors), ``duplicates``.

Length: the whole path of a message through the queue, from publish to settle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from leveret.backlog.backlog import Backlog
from leveret.backlog.context import Cancellable
from leveret.backlog.deadlines import ON_DISK_AT_ONCE
from leveret.backlog.delayed import DelayedMessages
from leveret.backlog.lane import Lane
from leveret.backlog.walk import START, Position, Visitor, Walk
from leveret.clock import TimeSlice
from leveret.delivery.consumer import Consumer
from leveret.delivery.consumer_ring import ConsumerRing, SingleActive
from leveret.message import NEVER, Message
from leveret.queues.ack_timeouts import AckTimeouts
from leveret.queues.context import QueueContext
from leveret.queues.declared_queue import Declaration, DeclaredQueue, GetResult
from leveret.queues.departures import Departures
from leveret.queues.duplicates import Duplicates
from leveret.queues.idle_timer import IdleTimer
from leveret.queues.limits import Limits
from leveret.queues.options import (
    BATCH,
    DELIVERY_LIMIT,
    DROP_HEAD,
    EXPIRED,
    MAXLEN,
    NOWHERE,
    REJECTED,
    DeadMessage,
    QueueOptions,
    dead_messages,
)
from leveret.queues.selection import Selection
from leveret.store.log import Placement
from leveret.store.returns import pack_return

BURST = 4096  # messages that one queue may deliver before others are drained


class ClassicQueue(Backlog, DeclaredQueue):
    __slots__ = (
        "ack_timeouts",
        "arguments",
        "auto_delete",
        "can_reject",
        "consumers",
        "counts_deliveries",
        "departures",
        "duplicates",
        "durable",
        "expiry_timer",
        "frozen",
        "idle_timer",
        "limits",
        "options",
        "owner",
        "returning",
        "selection",
        "synced",
        "vhost",
    )

    context: QueueContext

    def __init__(self, declared: Declaration, context: QueueContext) -> None:
        id_, name, self.vhost, self.options, self.durable, self.auto_delete, self.owner, arguments, _ = declared
        self.synced = stored = self.durable and self.owner is None
        super().__init__(id_, name, (self.options.max_priority or 0) + 1, context, stored=stored)
        self.arguments = dict(arguments)
        self.consumers = ConsumerRing()
        self.limits: Limits | None = None
        self.ack_timeouts: AckTimeouts | None = None
        self.selection: Selection | None = None
        self.duplicates: Duplicates | None = None
        self.can_reject = self.counts_deliveries = False
        self.returning = 0  # settlements in progress that return messages: no other message overtakes these
        self.frozen = 0  # its messages do not change, except by publishes; reasons as in ConsumerRing.paused
        self.departures: Departures | None = None
        self.expiry_timer: tuple[float, Cancellable] | None = None
        self.idle_timer: IdleTimer | None = None
        self.apply(self.options)

    @property
    def has_upkeep(self) -> bool:
        return self.limits is not None or self.selection is not None or super().has_upkeep

    # ---- options

    def apply(self, options: QueueOptions) -> None:
        """Use these options from now on. Messages that are already in the queue keep their deadlines."""
        self.options = options
        self.synced = options.durability != "os"
        self.ttl = options.ttl
        if options.ttl is not None:
            self.watch_deadlines()
        has_limits = options.max_length is not None or options.max_bytes is not None
        self.limits = Limits(self) if has_limits else None
        if options.retry is not None and self.delayed is None:
            self.delayed = DelayedMessages(self)
        if options.single_active and not isinstance(self.consumers, SingleActive):
            self.consumers = SingleActive(self.consumers)
        if options.groups:
            self._select()
        self._apply_expires(options.expires)
        self._apply_ack_timeout(options.ack_timeout)
        self._apply_deduplication()
        self.counts_deliveries = options.delivery_limit is not None or options.retry is not None
        self.can_reject = self.duplicates is not None or (has_limits and options.overflow != DROP_HEAD)
        if self.ready:
            self.touch()

    def _apply_expires(self, seconds: float | None) -> None:
        if self.idle_timer is not None and self.idle_timer.seconds == seconds:
            return
        if self.idle_timer is not None:
            self.idle_timer.stop()
        self.idle_timer = None if seconds is None else IdleTimer(self, seconds)
        self.note_use()

    def _apply_ack_timeout(self, seconds: float | None) -> None:
        """Set the ack timeout. Messages that were already delivered keep theirs."""
        if self.ack_timeouts is not None:
            self.ack_timeouts.seconds = seconds
        elif seconds is not None:
            self.ack_timeouts = AckTimeouts(self, seconds)

    def _apply_deduplication(self) -> None:
        window = self.options.duplicates
        if window is None:
            if self.duplicates is not None:
                self.duplicates.stop()
            self.duplicates = None
        elif self.duplicates is None:
            self.duplicates = Duplicates(self, window)
        else:
            self.duplicates.resize(window)

    # ---- counting

    @property
    def backlog(self) -> Backlog:
        return self

    @property
    def delayed_messages(self) -> int:
        return 0 if self.delayed is None else len(self.delayed)

    @property
    def ready_bytes(self) -> int:
        return self.bytes - self.held - (0 if self.delayed is None else self.delayed.bytes)

    # ---- messages in

    def publish(self, run: list[Message], size: int, timed: bool) -> None:
        if self.plain and not timed:
            self.lane.incoming.extend(run)
        elif self.alive:
            self._append(run, timed)
        else:
            return  # deleted while the content was being received, or before the transaction was committed
        self.bytes += size
        if not self.dirty:
            self.dirty = True
            self.context.dirty.append(self)

    def _append(self, run: list[Message], timed: bool) -> None:
        """Append each message to the lane of its priority, with its deadline."""
        if timed:
            self.watch_deadlines()
        if self.ttl is not None:
            run = expiring_by(self.context.now() + self.ttl, run)
        lanes, highest, deadlines = self.lanes, len(self.lanes) - 1, self.deadlines
        if deadlines is None:
            for message in run:
                priority = message[2].priority
                lanes[priority if priority < highest else highest].incoming.append(message)
        elif not highest:
            deadlines.extend(self.lane, run)
        else:
            for message in run:
                deadlines.extend(lanes[min(message[2].priority, highest)], [message])

    def place(self, run: list[Message], size: int, timed: bool) -> list[Placement]:
        if len(self.lanes) == 1:  # the fast path: if every run is one message, this is most of the work
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

    # ---- messages out

    def drain(self) -> None:
        self.dirty = False
        if not self.alive:
            return
        if self.frozen:
            self.account()
            return
        if self.deadlines is not None and not self._remove_expired():
            self.touch()  # more have expired, and an expired message is never delivered
            return
        if self.returning and self.selection is not None:
            return  # the queue is touched again when all messages have returned
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
            if budget > 0:  # otherwise some were not offered yet, and must not expire by TTL 0 before that
                for lane in self.lanes:
                    lane.mark_attempted()
            if not self._remove_expired():
                self.touch()
            self._schedule_expiry()
        if self.pager is not None and (self.lane.page_stop or not is_single):
            self.pager.refill()
        self.account()
        if self.observers:
            for observer in self.observers:
                observer(self)

    def catch_up(self) -> None:
        self.context.deliveries.check()
        time_slice = self.context.background.new_slice()
        while self.dirty:  # consumers may have room for more than one burst
            self.drain()
            if self.selection is not None or time_slice.is_over:
                break  # evaluating selectors on a whole backlog would hold the loop
        self.dirty = True  # it is still in the list of dirty queues; the next drain finds nothing to do

    def offer(self, lane: Lane, consumer: Consumer, budget: int) -> int:
        """Let one consumer take messages; returns how many it took."""
        if lane.returned:
            sequence, count, message = lane.pop()  # type: ignore[misc]
            consumer.take_again(message, lane.number, sequence, count)
            number, size = 1, len(message[0])
            self.counters.redelivered += 1
        else:
            limit = 1 if consumer.one_shot else self.consumers.stretch or budget
            sequence, number, size = lane.deliver(consumer, limit)
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
            if self.ack_timeouts is not None:
                self.ack_timeouts.opened(consumer.unacked, number)
        if consumer.one_shot:
            self.dismiss(consumer)
        return number

    def get(self, no_ack: bool, by: object | None = None) -> GetResult | None:
        self.note_use()
        self.settle_down()
        lane = self.highest_lane()
        redelivered = bool(lane.returned)
        waiting = None if self.is_paused else lane.pop()
        if waiting is None:
            self.counters.got_nothing += 1
            self.account()
            return None
        sequence, count, message = waiting
        self.counters.got += 1
        self.counters.got_no_ack += no_ack
        self.counters.redelivered += redelivered
        if no_ack:
            self.release(lane.number, sequence, 1, len(message[0]))
        else:
            self.unacked += 1
            self.held += len(message[0])
        self.account()
        if self.pager is not None:
            self.pager.refill()
        return GetResult(lane.number, sequence, count, redelivered, message, self.ready)

    @property
    def needs_load(self) -> bool:
        """Whether there are messages, but the first one is on disk."""
        self.settle_down()
        lane = self.highest_lane()
        return lane.paged > 0 and lane.is_empty_here and not self.is_paused

    def when_loaded(self, call: Callable[[], None]) -> bool:
        if self.context.deliveries.when_over(call):
            return True
        return self.needs_load and self.pager is not None and self.pager.when_loaded(call)

    def walk(self, visit: Visitor, on_progress: Callable[[], None], after: Position = START) -> Walk:
        return Walk(self, visit, on_progress, after=after)

    def first_message(self) -> Message | None:
        waiting = self.highest_lane().first()
        return None if waiting is None else waiting[2]

    def settle_down(self, time_slice: TimeSlice | None = None) -> bool:
        if self.dirty:
            self.context.deliveries.check()
            self.drain()
        while self.deadlines is not None and not self.frozen and not self._remove_expired():
            if time_slice is not None and time_slice.is_over:
                return False
        for lane in self.lanes:
            lane.strip()
        return True

    def purge(self) -> int:
        number = self.remove_ready(releases=self.context.tracer is not None)
        self.counters.purged += number
        return number

    # ---- settling

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
        self._return(lane, sequence, messages, count + 1, tried)
        self.touch()

    def _return(self, lane: int, sequence: int, messages: list[Message], count: int, tried: bool) -> None:
        """Requeue messages that were delivered ``count`` times, at once or after a delay, or discard them. ``tried``: a
        consumer failed to process them; otherwise it was closed before it could."""
        options = self.options
        plan = options.retry
        is_over = options.delivery_limit is not None and count > options.delivery_limit
        if is_over or (plan is not None and tried and plan.is_over(count)):
            self.counters.dropped += len(messages)
            self.discard(DELIVERY_LIMIT, dead_messages(lane, sequence, messages))
            return
        self.counters.requeued += len(messages)
        if plan is not None and (plan.failed if tried else plan.left):
            self._delay(lane, sequence, messages, count)
            return
        if self.stored:
            self.context.log.returned(self.id, lane, sequence, len(messages), count)
        for place, message in enumerate(messages, sequence):
            self.put_back(lane, place, count, message)

    def _delay(self, lane: int, sequence: int, messages: list[Message], count: int) -> None:
        """Redeliver messages later, according to the retry plan."""
        plan, delayed, context = self.options.retry, self.delayed, self.context
        assert plan is not None
        assert delayed is not None
        now = context.now()
        for place, message in enumerate(messages, sequence):
            due = now + plan.delay(count, context.callbacks.random())
            if self.stored:
                wall = due + context.wall_ahead()
                context.log.returned(self.id, lane, place, 1, pack_return(count, wall))
            delayed.keep(due, lane, place, count, message)

    def drop(self, lane: int, sequence: int, messages: list[Message]) -> None:
        """Discard unacknowledged messages that were rejected without requeue."""
        if not self.alive:
            return
        self._let_go(lane, sequence, messages)
        self.counters.dropped += len(messages)
        self.discard(REJECTED, dead_messages(lane, sequence, messages))

    def _let_go(self, lane: int, sequence: int, messages: list[Message]) -> int:
        """These messages are no longer unacknowledged; returns their bytes."""
        size = sum([len(message[0]) for message in messages])
        self.unacked -= len(messages)
        self.held -= size
        if self.selection is not None:
            self.selection.let_go(lane, sequence, messages)
        return size

    def no_longer_unacked(self, lane: int, sequence: int, messages: list[Message]) -> None:
        if self.selection is not None:
            self.selection.let_go(lane, sequence, messages)

    # ---- consumers

    @property
    def is_paused(self) -> bool:
        return bool(self.consumers.paused)

    @property
    def is_selective(self) -> bool:
        return self.selection is not None

    def note_use(self) -> None:
        if self.idle_timer is not None:
            self.idle_timer.note_use()

    def add_consumer(self, consumer: Consumer) -> None:
        self.refuse_second(consumer)
        self.consumers.add(consumer)
        self.context.callbacks.count_memory(consumer.memory)
        if self.selection is not None or consumer.selector is not None:
            self._select()
        self.note_use()
        self.touch()

    def _select(self) -> None:
        """The consumers of the queue, or their selectors and groups, have changed."""
        if self.selection is None:
            self.selection = Selection(self)
            return
        self.selection.joined()
        if not self.selection.is_needed:
            self.selection = None

    def remove_consumer(self, consumer: Consumer) -> None:
        if not self.consumers.remove(consumer):
            return
        self.context.callbacks.count_memory(-consumer.memory)
        if not self.alive:
            return
        if self.selection is not None:
            self.selection.left(consumer)
        self.note_use()
        self.touch()
        if self.auto_delete and not len(self.consumers):
            self.context.callbacks.delete_unused(self)

    # ---- expiry

    def _remove_expired(self) -> bool:
        """Remove expired messages for one time slice, at most ``expiries_at_once``; False if there are more.

        At least as many are removed as were published; otherwise expiry would fall behind. While expired messages are
        being read from disk, no further messages on disk are removed.
        """
        deadlines, context = self.deadlines, self.context
        assert deadlines is not None
        now, left, time_slice = context.now(), context.expiries_at_once, context.background.new_slice()
        owed = self.arrived
        while expired := deadlines.collect(now, 0 if self.reads_expired else ON_DISK_AT_ONCE, BATCH):
            left, owed = left - len(expired), owed - len(expired)
            here = [DeadMessage(lane, sequence, message) for lane, sequence, message in expired if message is not None]
            self.counters.expired += len(here)
            if here:
                self.discard(EXPIRED, here)
            for lane in self.lanes:
                if on_disk := [each.sequence for each in expired if each.message is None and each.lane == lane.number]:
                    self._remove_expired_on_disk(lane, on_disk)
            if self.frozen or (owed <= 0 and (left <= 0 or time_slice.is_over)):
                return False
        return True

    def _remove_expired_on_disk(self, lane: Lane, sequences: list[int]) -> None:
        """Remove expired messages that are on disk only. They are read only if they are dead-lettered."""
        target = self.options.dead_letter
        if target is not None and target.takes_expired:
            wait = self._wait_to_depart
            self.counters.expired += self.read_expired(lane, sequences, self._expired_was_read, wait)
            return
        assert self.pager is not None
        for sequence in sequences:
            size = self.pager.expire(lane, sequence)
            if size is not None:
                self.counters.expired += 1
                self.context.discards.dropped[EXPIRED] += 1
                self.release(lane.number, sequence, 1, size)

    def _wait_to_depart(self, call: Callable[[], None]) -> bool:
        return self.departures is not None and self.departures.when_possible(call)

    def _expired_was_read(self, lane: int, messages: list[tuple[int, Message]]) -> None:
        expired = [DeadMessage(lane, sequence, message) for sequence, message in messages]
        for first in range(0, len(expired), BATCH):
            self.discard(EXPIRED, expired[first : first + BATCH])

    def _schedule_expiry(self) -> None:
        """Set one timer for the next expiry; a timer that is already set for an earlier time schedules the next one."""
        assert self.deadlines is not None
        soonest = self.deadlines.next_deadline()
        if soonest == NEVER or (self.expiry_timer is not None and self.expiry_timer[0] <= soonest):
            return
        if soonest <= self.context.now() and self.reads_expired:
            return  # the queue is touched when the messages are read
        if self.expiry_timer is not None:
            self.expiry_timer[1].cancel()
        self.expiry_timer = (soonest, self.context.schedule(soonest, self._expiry_due))

    def _expiry_due(self) -> None:
        self.expiry_timer = None
        self.touch()

    # ---- dead-lettering

    def discard(self, reason: str, messages: Sequence[DeadMessage]) -> None:
        """Dead-letter messages that have left their lanes, or drop them.

        With a dead letter exchange a message leaves this queue in the same group of the log in which it enters the
        next: after a crash it is in one of the two.
        """
        target = self.options.dead_letter
        if target is not None and not (reason == MAXLEN and self.options.discards):
            sent = [dead for dead in messages if target.takes(reason, dead.message)]
            if sent and self.context.dead_letters is not None:
                self.counters.dead_lettered += len(sent)
                self.context.discards.dead_lettered[reason] += len(sent)
                self.context.dead_letters.send(self, reason, sent)
            if len(sent) == len(messages):
                return
            messages = [dead for dead in messages if not target.takes(reason, dead.message)]
        self.context.discards.dropped[reason] += len(messages)
        for dead in messages:
            self.release_dead(dead)

    def release_dead(self, dead: DeadMessage) -> None:
        """Release the place of the message in this queue."""
        if dead.sequence != NOWHERE:
            self.release(dead.lane, dead.sequence, 1, len(dead.message[0]))

    # ---- deletion

    def die(self) -> int:
        self.alive = self.plain = False
        number = self.ready
        self.close_backlog()
        if self.pager is not None and self.pager.leases is not None:
            self.context.callbacks.drop_leases(self)
        if self.expiry_timer is not None:
            self.expiry_timer[1].cancel()
        for part in (self.idle_timer, self.ack_timeouts):
            if part is not None:
                part.stop()
        self.cancel_consumers()
        if self.watermarks is not None:
            self.watermarks.queue_deleted()
        return number


def expiring_by(deadline: float, run: list[Message]) -> list[Message]:
    """The same messages, expiring no later than the queue's TTL; a whole run shares one traits object."""
    made = {traits: traits.expiring(deadline) for traits in {message[2] for message in run}}
    return [(content, address, made[traits]) for content, address, traits in run]
