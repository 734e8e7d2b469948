"""The backlog of a queue: the messages that wait in it, in memory and on disk, and their counts.  Hot path.

Theory of operation. A backlog has one lane per priority (lane.py). Its parts exist only if they are needed:

    pager       messages that are on disk only, and the leased ranges of these (pager.py, lease_ranges.py)
    deadlines   the expiry times of messages (deadlines.py)
    delayed     messages that wait for a retry (delayed.py)
    watermarks  callbacks that run when all messages of a given moment are gone (watermarks.py)

``bytes`` counts the content of all messages from publish to ``release``; ``held`` and ``unacked`` count the part that
was delivered and is not settled. A queue type that keeps its messages here inherits from Backlog and decides which
consumer gets which message. Code that walks through a backlog is in walk.py; leases are taken in lease_builder.py and
end in lease_release.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from leveret.backlog.context import PER_MESSAGE, BacklogContext
from leveret.backlog.counters import QueueCounters
from leveret.backlog.deadlines import Deadlines
from leveret.backlog.delayed import DelayedMessages
from leveret.backlog.lane import Cleared, Lane
from leveret.backlog.pager import Pager
from leveret.backlog.scattered_read import ScatteredRead, Wait
from leveret.backlog.watermarks import Watermarks
from leveret.message import NEVER, Message
from leveret.store.deadline_columns import DeadlineColumns
from leveret.store.pages import Loaded

Observer = Callable[[Any], None]  # called with the queue after each drain
TakeRead = Callable[[int, list[tuple[int, Message]]], None]  # lane, (sequence, message) pairs

AT_ONCE = 1_000  # messages between two checks of the time slice


class LeftLane(Protocol):
    """A lane as found in the journal (store/recovery.py)."""

    queue: int
    lane: int
    tail: int
    deadlines: DeadlineColumns
    redelivered_below: int

    def first(self) -> int | None:
        """The sequence of the first live message."""

    def number(self) -> int: ...

    def size(self) -> int: ...


class Backlog:
    __slots__ = (
        "accounted",
        "alive",
        "bytes",
        "context",
        "counters",
        "deadlines",
        "delayed",
        "dirty",
        "held",
        "id",
        "lane",
        "lanes",
        "name",
        "observers",
        "pager",
        "plain",
        "stored",
        "ttl",
        "unacked",
        "watermarks",
    )

    def __init__(self, id_: int, name: str, lanes: int, context: BacklogContext, *, stored: bool) -> None:
        self.id = id_
        self.name = name
        self.alive = True
        self.stored = stored  # its persistent messages are in the log
        self.dirty = False
        self.context = context
        self.lanes = [Lane(number) for number in range(lanes)]
        self.lane = self.lanes[0]
        self.plain = lanes == 1  # runs are appended unchanged
        self.counters = QueueCounters()
        self.observers: list[Observer] = []
        self.unacked = 0
        self.bytes = 0  # bytes of content, ready and unacknowledged
        self.held = 0  # of these bytes, unacknowledged
        self.accounted = 0  # bytes counted in the gauge
        self.ttl: float | None = None
        self.deadlines: Deadlines | None = None
        self.delayed: DelayedMessages | None = None
        self.watermarks: Watermarks | None = None
        pages = context.pages
        self.pager = None if pages is None else Pager(self, pages, context.queue_memory)

    # ---- decided by the queue type

    @property
    def has_upkeep(self) -> bool:
        """Whether something is to be done about waiting messages without any consumer, such as to expire them."""
        return self.deadlines is not None or self.delayed is not None or bool(self.observers)

    @property
    def is_paused(self) -> bool:
        """Whether no message may be taken."""
        return False

    @property
    def is_selective(self) -> bool:
        """Whether some consumers may not take some messages, so that messages behind the first one are needed, too."""
        return False

    def settle_down(self) -> object:
        """Do the deliveries and expiries that are due, before the front is read."""
        raise NotImplementedError

    def no_longer_unacked(self, lane: int, sequence: int, messages: list[Message]) -> None:
        """These messages were settled, or are about to return to their places."""

    # ---- counting

    @property
    def ready(self) -> int:
        return len(self.lane) if len(self.lanes) == 1 else sum(map(len, self.lanes))

    @property
    def arrived(self) -> int:
        """Messages that were published since the last drain."""
        return sum([lane.tail - 1 for lane in self.lanes]) - self.counters.received

    @property
    def unsettled(self) -> int:
        """Messages that are delivered and not settled, or wait for a retry."""
        return self.unacked + (0 if self.delayed is None else len(self.delayed))

    @property
    def outstanding(self) -> int:
        """Messages that are ready, or delivered and not settled."""
        return self.ready + self.unsettled

    @property
    def reads_expired(self) -> bool:
        """Whether expired messages are being read from disk."""
        return self.pager is not None and self.pager.reads_expired > 0

    def highest_lane(self) -> Lane:
        return next((lane for lane in reversed(self.lanes) if len(lane)), self.lane)

    def account(self) -> None:
        """Update the gauge and the counters; once per tick, not once per message.

        Messages that are on disk only do not count, whether paged out or leased. A queue that holds too much pages out.
        """
        gauge, pager = self.context.gauge, self.pager
        here = self.bytes
        messages = self.unacked
        if pager is not None:
            if pager.leases is not None:
                messages -= pager.leases.number
            here -= pager.elsewhere
            if here > pager.limit or gauge.is_short:
                pager.page_out(gauge.is_short)
                here = self.bytes - pager.elsewhere
        received = 0
        for lane in self.lanes:
            ready = len(lane.ready)
            messages += ready + len(lane.returned) - lane.holes
            if lane.page_stop:
                messages += len(lane.fresh)
                received += lane.page_stop + len(lane.fresh) - 1
            else:
                received += lane.head + ready - 1
        held = here + messages * PER_MESSAGE
        gauge.used += held - self.accounted
        self.accounted = held
        self.counters.received = received

    def touch(self) -> None:
        if not self.dirty and self.alive:
            self.dirty = True
            self.context.dirty.append(self)

    def drain(self) -> None:
        raise NotImplementedError

    def when_gone(self, call: Callable[[], None]) -> None:
        """Call back once all messages that are in the queue now have left it."""
        if not self.alive:
            call()
            return
        self._watched().add(call)

    def follow_releases(self, call: Callable[[int, int, int], None]) -> Callable[[], None]:
        """Call back with lane, sequence and number of messages that are gone for good. A purged stretch may contain
        places that were empty before. Returns a call that ends this."""
        followers = self._watched().followers
        followers.append(call)
        return lambda: followers.remove(call)

    def _watched(self) -> Watermarks:
        if self.watermarks is None:
            self.watermarks = Watermarks(self)
            self.observers.append(self.watermarks.look)
        return self.watermarks

    # ---- in

    def watch_deadlines(self) -> None:
        """Start to watch deadlines: from now on messages of this queue may expire."""
        if self.deadlines is None:
            self.deadlines = Deadlines(self.lanes, self.context.watches_all)
            self.plain = False

    def restore_lane(self, left: LeftLane, redelivered_below: int, ahead: float) -> None:
        """Set up a lane whose messages were on disk before the start. ``ahead``: wall time minus message time."""
        pager = self.pager
        assert pager is not None
        lane = self.lanes[min(left.lane, len(self.lanes) - 1)]
        pager.restore(lane, left.first() or left.tail, left.tail, left.number(), left.size(), redelivered_below)
        self.bytes += left.size()
        if left.deadlines:
            self.watch_deadlines()
        for deadline, sequence in left.deadlines:
            assert self.deadlines is not None
            self.deadlines.watch(lane.number, sequence, deadline - ahead)
        if self.has_upkeep:
            self.touch()
        else:  # nothing is read before it is asked for: there may be thousands of queues
            self.account()

    def put_back(self, lane: int, sequence: int, count: int, message: Message) -> None:
        """Make a message that was delivered ``count`` times ready again, in its old place."""
        self.lanes[lane].put_back(sequence, count, message)
        if message[2].deadline != NEVER and self.deadlines is not None:
            self.deadlines.watch(lane, sequence, message[2].deadline)

    def dated(self, message: Message, time: float) -> Message:
        """A message as read from disk: the queue's TTL counts from the wall time of its publish."""
        if self.ttl is None:
            return message
        deadline = time - self.context.wall_ahead() + self.ttl
        return message[0], message[1], message[2].expiring(deadline)

    # ---- out

    def release(self, lane: int, sequence: int, number: int, size: int) -> None:
        """Subtract messages that are gone for good from the counts, and settle them in the log."""
        self.bytes -= size
        if self.stored:
            self.context.log.settle(self.id, lane, sequence, number)
        if self.watermarks is not None:
            self.watermarks.released(lane, sequence, number, size)

    def remove_ready(self, *, releases: bool) -> int:
        """Remove all ready messages; returns how many. ``releases``: release each stretch even if the log does not need
        it."""
        number, removed = 0, []
        for lane in self.lanes:
            number += len(lane)
            if self.pager is not None and lane.page_stop:
                self.pager.purge(lane)
                for start, stop in self.pager.waiting_on_disk(lane):
                    self.release(lane.number, start, stop - start, 0)
            cleared = lane.clear()
            if releases or self.stored or self.watermarks is not None:
                for sequence, count in cleared.stretches():
                    self.release(lane.number, sequence, count, 0)  # their bytes are subtracted as they are freed
            removed.append(cleared)
        if self.pager is not None:
            self.bytes -= self.pager.bytes
            self.pager.forget_sizes()
        self.context.background.begin(Removal(self, removed))
        return number

    def close_backlog(self) -> None:
        """The queue is deleted: free its messages, and release everything that waits for one of them."""
        context = self.context
        context.gauge.used -= self.accounted
        self.bytes = self.held = self.unacked = self.accounted = 0
        context.background.begin(Removal(self, [lane.clear() for lane in self.lanes]))
        if self.delayed is not None:
            self.delayed.stop()
        if self.stored:
            context.log.forget(self.id)
        if self.pager is not None:
            self.pager.pages.forget(self.id)
            self.pager.tell_waiting()

    def read_expired(self, lane: Lane, sequences: Sequence[int], take: TakeRead, wait: Wait) -> int:
        """Remove messages that are on disk only from their lane; returns how many were still there.

        There may be thousands, anywhere in the lane. They are passed to ``take`` as they are read. Until then they keep
        their places in the log, and are restored after a crash. ``wait``: see ScatteredRead.
        """
        pager = self.pager
        assert pager is not None
        pager.forget_read_expired()
        sizes: dict[int, int] = {}
        for sequence in sequences:
            size = pager.take_out(lane, sequence)
            if size is not None:
                sizes[sequence] = size
        if not sizes:
            return 0
        pager.reads_expired += 1

        def loaded(found: list[Loaded], missing: list[int]) -> None:
            if not self.alive:
                return
            if found:
                # The estimated sizes were subtracted from ``pager.bytes``. The same has to be subtracted from
                # ``bytes``, from which release() subtracts the exact sizes.
                self.bytes += sum([len(message[0]) - sizes[sequence] for sequence, message, _ in found])
                take(lane.number, [(sequence, message) for sequence, message, _ in found])
            for sequence in missing:
                self.release(lane.number, sequence, 1, sizes[sequence])
            for sequence in [*(each.sequence for each in found), *missing]:
                pager.pages.drop(self.id, lane.number, sequence, 1)

        def over() -> None:
            pager.reads_expired -= 1
            self.touch()

        ScatteredRead(pager.pages, self.id, lane.number, list(sizes), loaded, over, wait).go_on()
        return len(sizes)

    def note_redelivered(self) -> None:
        """Record in the log which waiting messages were delivered before but were not returned since the start."""
        log = self.context.log
        for lane in self.lanes:
            for sequence, count, _ in lane.returned:
                if not count:
                    log.returned(self.id, lane.number, sequence, 1, 0)
            number = min(lane.redelivered_below, lane.page_stop) - lane.page_start
            if number > 0:
                log.returned(self.id, lane.number, lane.page_start, number, 0)


class Removal:
    """A background task that frees the messages of a purged or deleted queue in memory, because freeing a million takes
    long. They have left their lanes and the log; if the queue still exists, their bytes still count there."""

    def __init__(self, queue: Backlog, cleared: list[Cleared]) -> None:
        self._queue = queue
        self._cleared = cleared

    def step(self) -> bool:
        queue = self._queue
        time_slice = queue.context.background.new_slice()
        while self._cleared:
            number, size = self._cleared[-1].pop_some(AT_ONCE)
            if queue.alive:
                queue.bytes -= size
            if number < AT_ONCE:
                self._cleared.pop()
            if time_slice.is_over:
                break
        if queue.alive:
            queue.account()
        return bool(self._cleared)
