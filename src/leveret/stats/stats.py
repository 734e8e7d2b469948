"""Counters and rates: the values of `message_stats` and of the fields that end in `_details`.

Theory of operation. Samples are taken every INTERVAL seconds of the broker's clock: a background task iterates over all
objects with counters, a few hundred per time slice, and stores a row for each that has changed (samples.py). Rates are
the difference of the last two complete samples, so that all rates of a response are of the same five seconds. If a
sample is not complete when the next one is due, the next one is skipped.

Tests and embedding programs can advance the clock: a year must not cause six million samples. If samples become due
much faster than real time passes, they are taken rarely until the next request.

Histories (history.py) also have a row per minute, for longer windows. A history has no samples of the time before the
start, nor of a time in which none were taken (history.Spans): its readers show a gap.

Length: the rows of all kinds of objects are built from the same samples and windows.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from itertools import islice
from math import floor, inf
from time import monotonic
from typing import Any, Protocol

from leveret.backlog.lane import Lane
from leveret.broker.broker import Broker
from leveret.broker.counters import ExchangeCounters
from leveret.broker.timers import Timer
from leveret.broker.vhost import Vhost
from leveret.machine import resident_memory
from leveret.queues.declared_queue import DeclaredQueue
from leveret.session.channel import Channel
from leveret.session.connection import Connection
from leveret.stats.history import (
    DAY,
    INTERVAL,
    LONGEST_GAP,
    MINUTE,
    MOST_VHOSTS,
    WORKDAY,
    History,
    ObjectHistories,
    SavedHistory,
    Spans,
)
from leveret.stats.samples import (
    NO_WINDOWS,
    Column,
    Moment,
    Past,
    Row,
    RowAt,
    Window,
    Windows,
    details,
    values,
)
from leveret.stats.totals import (
    ACKED,
    CHANNEL_COUNTS,
    CHURN_COUNTS,
    DELIVERED,
    EXCHANGE_COUNTS,
    GIVEN,
    LANES,
    LENGTHS,
    MEASURED,
    MEASURES,
    NODE,
    NODE_TRAFFIC,
    QUEUE_COUNTS,
    RECEIVED,
    TOTAL,
    TOTAL_COUNTS,
    TRAFFIC,
    VHOST,
    VHOST_TRAFFIC,
    Sampled,
    Totals,
    channel_row,
    counting,
    counting_vhost,
    queue_row,
    run_out,
    traffic,
)

STEP = 250  # objects sampled per time slice
FEW = 1_000  # up to this many queues and connections are counted for each response; above, the last sample is used

HURRY = INTERVAL / 10  # two ticks in fewer real seconds are too fast for a clock that was not advanced
GAPS = ((1_000, 3600.0), (240, MINUTE), (0, INTERVAL))  # number of such ticks, seconds to the next sample
ROUNDING = 1e-6  # of a tick: rounding errors must not move a time to the previous tick

Told = dict[str, Any]


class NodeMeasures(Protocol):
    """Values of the node and its machine, which the broker does not count."""

    def row(self) -> Row:
        """The current values, columns as in MEASURED."""

    def refresh(self) -> None:
        """Called before each sample: read what takes time, in a thread."""


class NoMeasures:
    def row(self) -> Row:
        return (0,) * len(MEASURED)

    def refresh(self) -> None: ...


class Stats:
    """The statistics of a broker. Methods return parts of the rows of objects."""

    def __init__(
        self,
        broker: Broker,
        real_time: Callable[[], float] = monotonic,
        measures: NodeMeasures | None = None,
    ) -> None:
        self._broker = broker
        self._measures = measures or NoMeasures()
        self._spans = Spans()
        self._real_time = real_time
        self._seen_at = real_time()
        self._hurried = 0  # consecutive ticks that came too fast
        self._timer: Timer | None = None
        self.started = self._epoch = broker.clock.now()
        self._first = self._tick = 0  # ticks of the first sample, and of the current or last one
        self._last = self._before = 0  # the last two complete samples
        self._walk: Generator[int, None, None] | None = None
        self._objects = ObjectHistories()
        self._vhosts: dict[str, History] = {}
        self._node = History(len(NODE), minutes=DAY, goes_back=True)
        self._gone: Row = (0,) * (len(TOTAL) + 3)  # the counters of deleted virtual hosts
        self._known: list[Vhost] = []  # the virtual hosts at the last sample
        self._totals: Totals | None = None

    # ---- sampling

    def start(self) -> None:
        """Take the first sample. Called on the event loop."""
        clock = self._broker.clock
        self.started = clock.now()
        self._epoch = self.started - clock.wall() % MINUTE  # ticks are at multiples of the interval
        self._first = self._last = self._before = self._tick_at(self.started)
        self._begin(self._first)
        self._arm()

    def saved(self) -> SavedHistory:
        """The history so far, for the next run. Fast, but its encoding is not: do that in a thread."""
        vhosts = {name: history.saved() for name, history in islice(self._vhosts.items(), MOST_VHOSTS)}
        return SavedHistory(self._epoch_wall(), self._spans.spans, self._node.saved(), vhosts)

    def restore(self, saved: SavedHistory) -> None:
        """The history of the previous run. Call it after ``start``. Counters began at zero since, so there is a gap."""
        shift = round((saved.epoch - self._epoch_wall()) / INTERVAL)
        ended = self._first - 1
        if not saved.spans or saved.spans[-1][1] + shift > ended:
            return  # the clock was set back
        self._spans.put_before(saved.spans, shift)
        self._node.put_before(saved.node, shift)
        for name, rows in saved.vhosts.items():
            if name in self._broker.vhosts:
                known = self._vhosts.get(name) or self._begin_vhost(name, goes_back=True)
                known.put_before(rows, shift)

    def _epoch_wall(self) -> float:
        clock = self._broker.clock
        return self._epoch + clock.wall() - clock.now()

    def _arm(self) -> None:
        gap = self._gap()
        passed = floor((self._broker.clock.now() - self._epoch) / gap + ROUNDING)
        self._timer = self._broker.timers.at(self._epoch + (passed + 1) * gap, self._due)

    def _gap(self) -> float:
        return next(gap for ticks, gap in GAPS if self._hurried >= ticks)

    def _due(self) -> None:
        now = self._real_time()
        self._hurried = self._hurried + 1 if now - self._seen_at < HURRY else 0
        self._seen_at = now
        tick = self._tick_at(self._broker.clock.now())
        if self._walk is None and tick > self._tick:
            self._begin(tick)
        self._arm()

    def _slow_down(self) -> None:
        """Called for each request: sample at the usual interval again if the clock had been advanced."""
        if self._timer is not None and self._timer.when - self._broker.clock.now() > INTERVAL:
            self._timer.cancel()
            self._hurried = 0
            self._arm()

    def _tick_at(self, moment: float) -> int:
        return floor((moment - self._epoch) / INTERVAL + ROUNDING)

    def _begin(self, tick: int) -> None:
        self._tick = tick
        self._measures.refresh()
        self._walk = self._look_around(tick)
        self._broker.background.send(self)

    def step(self) -> bool:
        """One time slice of a sample (broker/background.py)."""
        if self._walk is None:
            return False
        looked_at = 0
        try:
            while looked_at < STEP:
                looked_at += next(self._walk)
        except StopIteration:
            self._walk = None
            return False
        return True

    def _look_around(self, tick: int) -> Generator[int, None, None]:
        is_first = tick == self._first
        totals = yield from counting(
            self._broker, lambda thing, row: self._objects.add(thing, tick, row, goes_back=is_first)
        )
        self._keep(tick, totals)
        self._objects.forget_missed()
        self._before, self._last = self._last, tick
        self._spans.add(tick, max(LONGEST_GAP, int(self._gap() / INTERVAL)))

    def _keep(self, tick: int, totals: Totals) -> None:
        self._fold_deleted_vhosts()
        for name, vhost in totals.vhosts.items():
            history = self._vhosts.get(name) or self._begin_vhost(name, goes_back=tick == self._first)
            history.add(tick, vhost.row + vhost.traffic)
        self._known = list(self._broker.vhosts.values())
        self._node.add(tick, self._node_row(totals))
        self._totals = totals

    def _begin_vhost(self, name: str, *, goes_back: bool) -> History:
        minutes = DAY if len(self._vhosts) < MOST_VHOSTS else WORKDAY
        history = self._vhosts[name] = History(len(VHOST), minutes=minutes, goes_back=goes_back)
        return history

    def _fold_deleted_vhosts(self) -> None:
        """Add the counters of deleted virtual hosts to the totals; a new one of the same name starts at zero."""
        for vhost in [each for each in self._known if self._broker.vhosts.get(each.name) is not each]:
            left = run_out(counting_vhost(vhost))
            self._gone = _added([self._gone, left.row + left.churn])
            self._vhosts.pop(vhost.name, None)
            self._known.remove(vhost)

    def _node_row(self, totals: Totals) -> Row:
        self._fold_deleted_vhosts()
        registry = self._broker.registry
        summed = _added([self._gone, *(vhost.row + vhost.churn for vhost in totals.vhosts.values())])
        connections = (registry.opened, registry.closed, registry.channels_opened, registry.channels_closed)
        churn = (*connections, *summed[len(TOTAL) :])
        return (*summed[: len(TOTAL)], *churn, *traffic(self._broker), resident_memory() or 0, *self._measures.row())

    # ---- rows

    def totals(self) -> Totals:
        """The current totals; on a large broker those of the last sample."""
        number = sum(len(vhost.queues) for vhost in self._broker.vhosts.values()) + len(self._broker.registry)
        if self._totals is not None and number > FEW:
            return self._totals
        return run_out(counting(self._broker))

    def node_row(self, totals: Totals) -> dict[str, int]:
        """The values by their names in NODE."""
        return dict(zip(NODE, self._node_row(totals), strict=True))

    def of_queue(self, queue: DeclaredQueue, windows: Windows = NO_WINDOWS) -> Told:
        """`message_stats`, and `messages_details`, `messages_ready_details`, `messages_unacknowledged_details`."""
        lengths = details(
            LENGTHS, self._objects.row_at(queue, windows.lengths), self._past(windows.lengths, self._first)
        )
        return {"message_stats": self._of(queue, QUEUE_COUNTS, queue_row(queue), windows), **lengths}

    def is_still(self, queue: DeclaredQueue) -> bool:
        """Whether all rates of the queue are zero, unless something has happened since the last tick."""
        samples = self._objects.samples_of(queue)
        return samples is None or samples.changed_at <= self._before

    def waiting_since(self, queue: DeclaredQueue, lane: Lane, number: int) -> float:
        """Seconds since the lane had received this many messages, at least, to within a tick.

        Messages that arrived before sampling started, or before the oldest sample, count from the first sample.
        """
        samples = self._objects.samples_of(queue)
        column = RECEIVED if queue.backlog is None or len(queue.backlog.lanes) == 1 else LANES + lane.number
        tick = None if samples is None else samples.first_reaching(column, number)
        if tick is None:
            return 0.0  # it arrived since the last tick
        return self._seconds_since(tick)

    def _seconds_since(self, tick: int) -> float:
        return max(0.0, self._broker.clock.now() - max(self.started, self._epoch + tick * INTERVAL))

    def changed_at(self, queue: DeclaredQueue) -> int | None:
        """The tick of its latest sample; None if it was not used yet."""
        samples = self._objects.samples_of(queue)
        return None if samples is None else samples.changed_at

    def idle_since(self, queue: DeclaredQueue) -> float | None:
        """In seconds since 1970, to within a tick; None if the queue is in use, or was not used yet."""
        samples = self._objects.samples_of(queue)
        if samples is None or samples.latest != queue_row(queue):
            return None
        return self._broker.clock.wall() - self._seconds_since(samples.changed_at)

    def delivery_idle_time(self, queue: DeclaredQueue) -> float | None:
        """Seconds since the last delivery or acknowledgement, at least, to within a tick; None if no message is
        unacknowledged. Activity before the oldest sample counts from that sample."""
        samples = self._objects.samples_of(queue)
        if not queue.unacked:
            return None
        if samples is None:
            return 0.0
        row = queue_row(queue)
        ticks = [samples.first_reaching(column, row[column]) for column in (ACKED, *GIVEN)]
        return 0.0 if None in ticks else self._seconds_since(max(tick for tick in ticks if tick is not None))

    def delivered_before(self, channel: Channel, tag: int) -> float:
        """Seconds since the channel had sent the delivery with this tag, to within a tick. A delivery from before the
        oldest sample counts from there."""
        samples = self._objects.samples_of(channel)
        tick = None if samples is None else samples.first_reaching(DELIVERED, tag)
        if tick is None:
            return 0.0  # it was sent since the last tick
        return self._seconds_since(tick)

    def of_exchange(self, vhost: str, exchange: str, windows: Windows = NO_WINDOWS) -> Told:
        """`message_stats` with publish_in and publish_out."""
        counters = self._broker.vhosts[vhost].exchange_counters.get(exchange) or ExchangeCounters()
        row = (counters.published, counters.routed)
        return {"message_stats": self._of(counters, EXCHANGE_COUNTS, row, windows)}

    def of_connection(self, connection: Connection, windows: Windows = NO_WINDOWS) -> Told:
        """`recv_oct`, `send_oct` with their details."""
        row = (connection.peer.received, connection.peer.sent)
        return self._of(connection, TRAFFIC, row, windows)

    def of_channel(self, channel: Channel, windows: Windows = NO_WINDOWS) -> Told:
        """`message_stats`."""
        return {"message_stats": self._of(channel, CHANNEL_COUNTS, channel_row(channel), windows)}

    def of_vhosts(self, names: Iterable[str], windows: Windows = NO_WINDOWS, totals: Totals | None = None) -> Told:
        """`message_stats`, the lengths, `recv_oct` and `send_oct` of these virtual hosts together."""
        totals = totals or self.totals()
        known = [name for name in names if name in totals.vhosts]
        each = [totals.vhosts[name] for name in known]
        row = _added([(0,) * len(VHOST), *(vhost.row + vhost.traffic for vhost in each)])
        histories = [self._vhosts[name] for name in known if name in self._vhosts]
        return {
            "message_stats": self._told(TOTAL_COUNTS, row, _together(histories, windows.rates), windows.rates),
            **self._told(LENGTHS, row, _together(histories, windows.lengths), windows.lengths),
            **self._told(VHOST_TRAFFIC, row, _together(histories, windows.rates), windows.rates),
        }

    def of_node(self, windows: Windows = NO_WINDOWS, totals: Totals | None = None) -> Told:
        """`message_stats`, the lengths, `churn_rates`, `traffic`, `mem_used` and the measures of the node."""
        row = self._node_row(totals or self.totals())
        counted, measured = self._node.row_at(windows.rates), self._node.row_at(windows.lengths)
        window = windows.node or windows.lengths
        return {
            "message_stats": self._told(TOTAL_COUNTS, row, counted, windows.rates),
            **self._told(LENGTHS, row, measured, windows.lengths),
            "churn_rates": self._told(CHURN_COUNTS, row, counted, windows.rates),
            "traffic": self._told(NODE_TRAFFIC, row, counted, windows.rates),
            "measures": self._told(MEASURES, row, self._node.row_at(window), window),
        }

    def _of(self, thing: Sampled, columns: Sequence[Column], row: Row, windows: Windows) -> Told:
        """Objects have no history of previous runs."""
        window = windows.rates
        past = self._past(window, self._first)
        return {**values(columns, row), **details(columns, self._objects.row_at(thing, window), past)}

    def _told(self, columns: Sequence[Column], row: Row, row_at: RowAt | None, window: Window | None) -> Told:
        return {**values(columns, row), **details(columns, row_at, self._past(window))}

    def _past(self, window: Window | None, oldest: float = -inf) -> Past:
        """``oldest``: the first tick of the history."""
        self._slow_down()
        seconds = (self._last - self._before) * INTERVAL
        if window is None:
            return Past(self._last, self._before, seconds, (), 0, self._first)
        clock = self._broker.clock
        now, ahead = clock.now(), clock.wall() - clock.now()
        newest = floor((now + ahead) / window.step + ROUNDING) * window.step
        current = self._spans.current
        moments = [
            Moment(wall * 1000, tick)
            for wall in range(newest, newest - window.age // window.step * window.step - 1, -window.step)
            if (tick := min(self._tick_at(wall - ahead), self._last)) >= current
            or (tick >= oldest and tick in self._spans)
        ]
        return Past(self._last, self._before, seconds, moments, window.age, self._first)


def _together(histories: list[History], window: Window | None) -> RowAt:
    if len(histories) == 1:
        return histories[0].row_at(window)
    nothing = (0,) * len(VHOST)
    return lambda tick: _added([nothing, *(history.row_at(window)(tick) for history in histories)])


def _added(rows: list[Row]) -> Row:
    return tuple([sum(column) for column in zip(*rows, strict=True)])
