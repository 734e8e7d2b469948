"""The load of ``leveret bench``: publishers and consumers of one queue, and counts that show that no message is lost.

Publishers are at most ``Load.ahead`` messages ahead of the consumers, so that the queue does not fill up. When the time
is over, or on Ctrl-C, publishing stops, and outstanding messages are awaited and checked.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from leveret.cli.api_client import Refusal
from leveret.cli.bench_frames import (
    SEQUENCE_BITS,
    Batches,
    ConfirmCount,
    Deliveries,
    LoadConnection,
    Received,
    Sample,
)
from leveret.client import Channel, Happening

AHEAD = 20_000  # messages that are published but not consumed
AHEAD_BYTES = 64 << 20
UNCONFIRMED = 4_000
PREFETCH = 4_000
TICK = 0.25
DRAIN_SECONDS = 10.0  # time without a new message after which missing ones count as lost


class Load(NamedTuple):
    size: int
    seconds: float
    publishers: int
    consumers: int
    rate: float | None = None
    confirms: bool = False
    durable: bool = False
    auto_ack: bool = False

    @property
    def ahead(self) -> int:
        return max(1, min(AHEAD, AHEAD_BYTES // self.size))


class Progress(NamedTuple):
    seconds: float
    published: int
    consumed: int
    p50: float | None
    p99: float | None


class Result(NamedTuple):
    """``lost`` and ``twice`` follow from the counts; ``changed`` and ``disordered`` messages were received."""

    seconds: float
    published: int
    consumed: int
    confirmed: int
    publish_rate: float
    consume_rate: float
    p50: float | None
    p99: float | None
    lost: int
    twice: int
    changed: int
    disordered: int
    refused: int

    @property
    def is_sound(self) -> bool:
        return not (self.lost or self.twice or self.changed or self.disordered or self.refused)


class LoadRun:
    def __init__(self, load: Load, like: Sample, tick: Callable[[Progress], None]) -> None:
        self._load = load
        self._like = like
        self._tick = tick
        self._received = Received()
        self._published = [0] * load.publishers
        self._confirmed = [0] * load.publishers
        self._confirms: list[ConfirmCount] = []
        self._is_over = False
        self._progress = asyncio.Event()  # set when waiting publishers may continue
        self._problem: BaseException | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._begun = 0.0
        self._last_published = self._last_consumed = 0.0

    async def run(self, publishing: list[Channel], consuming: list[Channel]) -> Result:
        for channel in consuming:
            await self._start_consuming(channel)
        for index, channel in enumerate(publishing):
            await self._prepare_publishing(channel, index)
        self._begun = self._last_published = self._last_consumed = time.monotonic()
        for index, channel in enumerate(publishing):
            self._start(self._publish(channel, index))
        try:
            await self._watch(self._load.seconds)
            self._end_sending()
            await self._drain()
            in_queue = 0 if consuming else await self._ready(publishing[0])
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        return self._result(in_queue)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (problem := task.exception()) is not None:
            self._fail(problem)

    def _fail(self, problem: BaseException) -> None:
        self._problem = self._problem or problem
        self._end_sending()

    def _end_sending(self) -> None:
        self._is_over = True
        self._progress.set()

    # ---- publishers

    async def _prepare_publishing(self, channel: Channel, index: int) -> None:
        channel.on_close = self._fail
        channel.connection.listeners.append(self._happened)
        if self._load.confirms:
            await channel.confirm_select()
            channel.confirms = ConfirmCount(lambda number: self._confirm(index, number))
            self._confirms.append(channel.confirms)

    def _happened(self, happening: Happening) -> None:
        if happening.kind == "blocked":
            self._fail(Refusal(f"the broker blocks publishers, {happening.text}: see 'leveret doctor'"))

    def _confirm(self, index: int, number: int) -> None:
        self._confirmed[index] = number
        self._progress.set()

    async def _publish(self, channel: Channel, index: int) -> None:
        batches, connection = Batches(self._like, index), channel.connection
        while not self._is_over:
            number = min(batches.most, self._room(index))
            if number <= 0:
                await self._wait(index)
                continue
            connection.write(batches.take(number, time.monotonic_ns()))
            self._published[index] += number
            self._last_published = time.monotonic()
            await connection.writable()
            await asyncio.sleep(0)  # let the others run, even if the connection is writable

    def _room(self, index: int) -> int:
        """The number of messages that this publisher may publish now."""
        load, sent = self._load, self._published[index]
        room = load.ahead - (sum(self._published) - self._seen) if load.consumers else load.ahead
        if load.confirms:
            room = min(room, UNCONFIRMED - (sent - self._confirmed[index]))
        if load.rate is not None:
            room = min(room, int(self._elapsed * load.rate / load.publishers) - sent)
        return room

    async def _wait(self, index: int) -> None:
        rate = self._load.rate
        if rate is not None and self._elapsed * rate / self._load.publishers < self._published[index] + 1:
            due = (self._published[index] + 1) * self._load.publishers / rate
            await asyncio.sleep(max(due - self._elapsed, 0.0))
            return
        self._progress.clear()
        await self._progress.wait()

    # ---- consumers

    async def _start_consuming(self, channel: Channel) -> None:
        load = self._load
        if not load.auto_ack:
            await channel.qos(PREFETCH)

        consumer = await channel.consume(self._like.queue, no_ack=load.auto_ack)
        consumer.on_end = self._fail
        deliveries = Deliveries(self._like, consumer.tag, load.publishers, self._received)

        def take(data: bytes) -> None:
            before = deliveries.last_tag
            deliveries.take(data, time.monotonic_ns(), lambda method: connection.heard(channel.number, method))
            if deliveries.last_tag > before:
                self._last_consumed = time.monotonic()
                if not load.auto_ack:
                    channel.ack(deliveries.last_tag, multiple=True)
                self._progress.set()

        connection = channel.connection
        assert isinstance(connection, LoadConnection)
        connection.take = take  # before publishing starts, so that no delivery is missed

    # ---- progress and result

    @property
    def _elapsed(self) -> float:
        return time.monotonic() - self._begun

    @property
    def _seen(self) -> int:
        return self._received.count + self._received.changed

    async def _watch(self, seconds: float) -> None:
        try:
            while self._problem is None and (left := seconds - self._elapsed) > 0:
                await asyncio.sleep(min(TICK, left))
                latencies = self._received.latencies
                quantiles = latencies.quantile(0.5), latencies.quantile(0.99)
                self._tick(Progress(self._elapsed, sum(self._published), self._seen, *quantiles))
        except asyncio.CancelledError:  # Ctrl-C: the messages published so far are still checked
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()

    async def _drain(self) -> None:
        """Wait until all messages are received and confirmed, or no more arrive."""
        last, since = -1, time.monotonic()
        while self._problem is None and time.monotonic() - since < DRAIN_SECONDS:
            under_way = sum(self._published) - self._seen if self._load.consumers else 0
            if self._load.confirms:
                under_way = max(under_way, sum(self._published) - sum(self._confirmed))
            if under_way <= 0:
                break
            if under_way != last:
                last, since = under_way, time.monotonic()
            await asyncio.sleep(0.01)
        if self._problem is not None:
            raise self._problem

    async def _ready(self, channel: Channel) -> int:
        """Without consumers: how many messages the queue has."""
        await asyncio.gather(*self._tasks, return_exceptions=True)
        return (await channel.declare_queue(self._like.queue, passive=True)).message_count

    def _result(self, in_queue: int) -> Result:
        received, published = self._received, sum(self._published)
        arrived = self._seen if self._load.consumers else in_queue
        lost, twice = max(published - arrived, 0), max(arrived - published, 0)
        if self._load.consumers and not (lost or twice or received.changed) and received.total != self._sent_total():
            lost = twice = 1  # at least: the count is right, but these are other messages
        latencies = received.latencies
        consumed_for = max(self._last_consumed - self._begun, 1e-9)
        published_for = max(self._last_published - self._begun, 1e-9)
        return Result(
            seconds=published_for,
            published=published,
            consumed=self._seen,
            confirmed=sum(self._confirmed),
            publish_rate=published / published_for,
            consume_rate=self._seen / consumed_for,
            p50=latencies.quantile(0.5),
            p99=latencies.quantile(0.99),
            lost=lost,
            twice=twice,
            changed=received.changed,
            disordered=received.disordered,
            refused=sum(confirms.refused for confirms in self._confirms),
        )

    def _sent_total(self) -> int:
        """The sum of all published numbers."""
        return sum(
            (publisher << SEQUENCE_BITS) * sent + sent * (sent - 1) // 2
            for publisher, sent in enumerate(self._published)
        )
