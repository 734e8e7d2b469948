"""Counters and rates: the values of `message_stats` and of the fields that end in `_details`.

Theory of operation. Samples are taken every INTERVAL seconds of the broker's clock: a background task iterates over all
objects with counters, a few hundred per time slice, and stores a row for each that has changed (samples.py). Rates are
the difference of the last two complete samples, so that all rates of a response are of the same five seconds. If a
sample is not complete when the next one is due, the next one is skipped.

Tests and embedding programs can advance the clock: a year must not cause six million samples. If samples become due
much faster than real time passes, they are taken rarely until the next request.

The node and each virtual host also store a row per minute, for longer windows.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from math import floor
from time import monotonic
from typing import Any

from leveret.backlog.lane import Lane
from leveret.broker.broker import Broker
from leveret.broker.counters import ExchangeCounters
from leveret.broker.timers import Timer
from leveret.broker.vhost import Vhost
from leveret.machine import resident_memory
from leveret.queues.declared_queue import DeclaredQueue
from leveret.session.channel import Channel
from leveret.session.connection import Connection
from leveret.stats.samples import (
    NO_WINDOWS,
    Column,
    Moment,
    Past,
    Row,
    RowAt,
    Samples,
    Window,
    Windows,
    details,
    values,
)
from leveret.stats.totals import (
    CHANNEL_COUNTS,
    CHURN_COUNTS,
    EXCHANGE_COUNTS,
    LENGTHS,
    NODE,
    QUEUE,
    QUEUE_COUNTS,
    RECEIVED,
    TOTAL,
    TOTAL_COUNTS,
    TRAFFIC,
    Sampled,
    Totals,
    channel_row,
    counting,
    counting_vhost,
    queue_row,
    run_out,
)

INTERVAL = 5.0  # seconds between two samples
KEPT = 60  # samples of a queue, a connection, a channel, an exchange
RECENT = 120  # samples of the node and of each virtual host
MINUTES = 480  # samples, one per minute
MINUTE = 60.0
PER_MINUTE = int(MINUTE / INTERVAL)  # samples
STEP = 250  # objects sampled per time slice
FEW = 1_000  # up to this many queues and connections are counted for each response; above, the last sample is used

HURRY = INTERVAL / 10  # two ticks in fewer real seconds are too fast for a clock that was not advanced
GAPS = ((1_000, 3600.0), (240, MINUTE), (0, INTERVAL))  # number of such ticks, seconds to the next sample
ROUNDING = 1e-6  # of a tick: rounding errors must not move a time to the previous tick

Told = dict[str, Any]


class History:
    """Samples of the node or of a virtual host."""

    def __init__(self, width: int, *, goes_back: bool) -> None:
        self._recent = Samples(width, RECENT, goes_back=goes_back)
        self._minutes = Samples(width, MINUTES, goes_back=goes_back)
        self._minute = -1

    @property
    def latest(self) -> Row:
        return self._recent.latest

    def add(self, tick: int, row: Row) -> None:
        self._recent.add(tick, row)
        if tick // PER_MINUTE != self._minute:
            self._minute = tick // PER_MINUTE
            self._minutes.add(tick, row)

    def row_at(self, window: Window | None) -> RowAt:
        is_long = window is not None and window.age > RECENT * INTERVAL
        return self._minutes.at if is_long else self._recent.at


class Stats:
    """The statistics of a broker. Methods return parts of the rows of objects."""

    def __init__(self, broker: Broker, real_time: Callable[[], float] = monotonic) -> None:
        self._broker = broker
        self._real_time = real_time
        self._seen_at = real_time()
        self._hurried = 0  # consecutive ticks that came too fast
        self._timer: Timer | None = None
        self.started = self._epoch = broker.clock.now()
        self._first = self._tick = 0  # ticks of the first sample, and of the current or last one
        self._last = self._before = 0  # the last two complete samples
        self._walk: Generator[int, None, None] | None = None
        self._samples: dict[Sampled, Samples] = {}
        self._vhosts: dict[str, History] = {}
        self._node = History(len(NODE), goes_back=True)
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
        seen: set[Sampled] = set()

        def met(thing: Sampled, row: Row) -> None:
            samples = self._samples.get(thing)
            if samples is None:
                if not any(row):
                    return  # the object is unchanged since its creation
                samples = self._samples[thing] = Samples(len(row), KEPT, goes_back=tick == self._first)
            seen.add(thing)
            samples.add(tick, row)

        totals = yield from counting(self._broker, met)
        self._keep(tick, totals)
        if len(seen) < len(self._samples):
            self._samples = {thing: samples for thing, samples in self._samples.items() if thing in seen}
        self._before, self._last = self._last, tick

    def _keep(self, tick: int, totals: Totals) -> None:
        self._fold_deleted_vhosts()
        for name, vhost in totals.vhosts.items():
            history = self._vhosts.get(name)
            if history is None:
                history = self._vhosts[name] = History(len(TOTAL), goes_back=tick == self._first)
            history.add(tick, vhost.row)
        self._known = list(self._broker.vhosts.values())
        self._node.add(tick, self._node_row(totals))
        self._totals = totals

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
        return (*summed[: len(TOTAL)], *connections, *summed[len(TOTAL) :], resident_memory() or 0)

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
        samples = self._samples.get(queue)
        row_at = None if samples is None else samples.at
        return {
            "message_stats": self._told(QUEUE_COUNTS, queue_row(queue), row_at, windows.rates),
            **details(LENGTHS, row_at, self._past(windows.lengths)),
        }

    def is_still(self, queue: DeclaredQueue) -> bool:
        """Whether all rates of the queue are zero, unless something has happened since the last tick."""
        samples = self._samples.get(queue)
        return samples is None or samples.changed_at <= self._before

    def waiting_since(self, queue: DeclaredQueue, lane: Lane, number: int) -> float:
        """Seconds since the lane had received this many messages, at least, to within a tick.

        Messages that arrived before sampling started, or before the oldest sample, count from the first sample.
        """
        samples = self._samples.get(queue)
        column = RECEIVED if queue.backlog is None or len(queue.backlog.lanes) == 1 else len(QUEUE) + lane.number
        tick = None if samples is None else samples.first_reaching(column, number)
        if tick is None:
            return 0.0  # it arrived since the last tick
        return max(0.0, self._broker.clock.now() - max(self.started, self._epoch + tick * INTERVAL))

    def of_exchange(self, vhost: str, exchange: str, windows: Windows = NO_WINDOWS) -> Told:
        """`message_stats` with publish_in and publish_out."""
        counters = self._broker.vhosts[vhost].exchange_counters.get(exchange) or ExchangeCounters()
        row = (counters.published, counters.routed)
        return {"message_stats": self._told(EXCHANGE_COUNTS, row, self._row_at(counters), windows.rates)}

    def of_connection(self, connection: Connection, windows: Windows = NO_WINDOWS) -> Told:
        """`recv_oct`, `send_oct` with their details."""
        row = (connection.peer.received, connection.peer.sent)
        return self._told(TRAFFIC, row, self._row_at(connection), windows.rates)

    def of_channel(self, channel: Channel, windows: Windows = NO_WINDOWS) -> Told:
        """`message_stats`."""
        row_at = self._row_at(channel)
        return {"message_stats": self._told(CHANNEL_COUNTS, channel_row(channel), row_at, windows.rates)}

    def of_vhosts(self, names: Iterable[str], windows: Windows = NO_WINDOWS, totals: Totals | None = None) -> Told:
        """`message_stats` and the lengths of these virtual hosts together."""
        totals = totals or self.totals()
        known = [name for name in names if name in totals.vhosts]
        row = _added([(0,) * len(TOTAL), *(totals.vhosts[name].row for name in known)])
        histories = [self._vhosts[name] for name in known if name in self._vhosts]
        return {
            "message_stats": self._told(TOTAL_COUNTS, row, _together(histories, windows.rates), windows.rates),
            **self._told(LENGTHS, row, _together(histories, windows.lengths), windows.lengths),
        }

    def of_node(self, windows: Windows = NO_WINDOWS, totals: Totals | None = None) -> Told:
        """`message_stats`, the lengths, `churn_rates` and `mem_used` of everything."""
        row = self._node_row(totals or self.totals())
        counted, measured = self._node.row_at(windows.rates), self._node.row_at(windows.lengths)
        return {
            "message_stats": self._told(TOTAL_COUNTS, row, counted, windows.rates),
            **self._told(LENGTHS, row, measured, windows.lengths),
            "churn_rates": self._told(CHURN_COUNTS, row, counted, windows.rates),
            **self._told((("mem_used", (len(NODE) - 1,)),), row, measured, windows.lengths),
        }

    def _row_at(self, thing: Sampled) -> RowAt | None:
        samples = self._samples.get(thing)
        return None if samples is None else samples.at

    def _told(self, columns: Sequence[Column], row: Row, row_at: RowAt | None, window: Window | None) -> Told:
        return {**values(columns, row), **details(columns, row_at, self._past(window))}

    def _past(self, window: Window | None) -> Past:
        self._slow_down()
        seconds = (self._last - self._before) * INTERVAL
        if window is None:
            return Past(self._last, self._before, seconds, (), 0)
        clock = self._broker.clock
        now, ahead = clock.now(), clock.wall() - clock.now()
        newest = floor((now + ahead) / window.step + ROUNDING) * window.step
        moments = [
            Moment(wall * 1000, min(self._tick_at(wall - ahead), self._last))
            for wall in range(newest, newest - window.age // window.step * window.step - 1, -window.step)
        ]
        return Past(self._last, self._before, seconds, moments, window.age)


def _together(histories: list[History], window: Window | None) -> RowAt:
    if len(histories) == 1:
        return histories[0].row_at(window)
    nothing = (0,) * len(TOTAL)
    return lambda tick: _added([nothing, *(history.row_at(window)(tick) for history in histories)])


def _added(rows: list[Row]) -> Row:
    return tuple([sum(column) for column in zip(*rows, strict=True)])
