"""A load for a broker: publishers and consumers on one queue, all in one loop, and a ledger that shows nothing is lost.

Publishers go ahead of the consumers by a bounded number of messages, so that a broker is measured and not filled. When
the time is over, or on Ctrl-C, nothing more is sent, and what is under way is awaited and checked.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from leveret.cli.amqp_link import AmqpLink
from leveret.cli.api_client import Refusal
from leveret.cli.bench_frames import SEQUENCE_BITS, Batches, Deliveries, Received, Sample
from leveret.wire.constants import FRAME_METHOD
from leveret.wire.frames import decode_method
from leveret.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicNack,
    BasicQos,
    BasicQosOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionBlocked,
    QueueDeclare,
    QueueDeclareOk,
)

AHEAD = 20_000  # messages that are published and not consumed
AHEAD_BYTES = 64 << 20
UNCONFIRMED = 4_000
PREFETCH = 4_000
TICK = 0.25
DRAIN_SECONDS = 10.0  # without anything new before what lacks is given up


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
    """``lost`` and ``twice`` are what counts say; ``changed`` and ``disordered`` were seen."""

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
        self._refused = 0
        self._is_over = False
        self._news = asyncio.Event()  # somebody may go on who could not
        self._problem: BaseException | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._begun = 0.0
        self._last_published = self._last_consumed = 0.0

    async def run(self, publishing: list[AmqpLink], consuming: list[AmqpLink]) -> Result:
        for link in consuming:
            await self._begin_consuming(link)
        if self._load.confirms:
            for link in publishing:
                await link.call(ConfirmSelect(), ConfirmSelectOk)
        self._begun = self._last_published = self._last_consumed = time.monotonic()
        for index, link in enumerate(publishing):
            self._start(self._listen(link, index))
            self._start(self._publish(link, index))
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
        if not task.cancelled() and task.exception() is not None:
            self._problem = self._problem or task.exception()
            self._end_sending()

    def _end_sending(self) -> None:
        self._is_over = True
        self._news.set()

    # ---- publishers

    async def _publish(self, link: AmqpLink, index: int) -> None:
        batches = Batches(self._like, index)
        while not self._is_over:
            number = min(batches.most, self._room(index))
            if number <= 0:
                await self._wait(index)
                continue
            link.writer.write(batches.take(number, time.monotonic_ns()))
            self._published[index] += number
            self._last_published = time.monotonic()
            await link.writer.drain()
            await asyncio.sleep(0)  # the others have their turn, although nobody has to wait

    def _room(self, index: int) -> int:
        """How many messages this publisher may send now."""
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
        self._news.clear()
        await self._news.wait()

    async def _listen(self, link: AmqpLink, index: int) -> None:
        """To confirms, and to a broker that ends it."""
        through, single = 0, set[int]()
        while True:
            frame = await link.next_frame()
            method = decode_method(frame.payload) if frame.kind == FRAME_METHOD else None
            if isinstance(method, ConnectionBlocked):
                raise Refusal(f"the broker lets nobody publish, {method.reason}: leveret doctor")
            if not isinstance(method, BasicAck | BasicNack):
                continue
            tag = method.delivery_tag
            if isinstance(method, BasicNack):
                self._refused += tag - through if method.multiple else 1
            if method.multiple:
                through = max(through, tag)
                single = {each for each in single if each > through}
            else:
                single.add(tag)
            while through + 1 in single:
                through += 1
                single.remove(through)
            self._confirmed[index] = through + len(single)
            self._news.set()

    # ---- consumers

    async def _begin_consuming(self, link: AmqpLink) -> None:
        load = self._load
        if not load.auto_ack:
            await link.call(BasicQos(prefetch_count=PREFETCH), BasicQosOk)
        consume = BasicConsume(self._like.queue, no_ack=load.auto_ack)
        tag = (await link.call(consume, BasicConsumeOk)).consumer_tag
        self._start(self._consume(link, Deliveries(self._like, tag, load.publishers, self._received)))

    async def _consume(self, link: AmqpLink, deliveries: Deliveries) -> None:
        acked = 0
        while True:
            data = await link.read()
            deliveries.take(data, time.monotonic_ns(), link.refuse_close)
            if deliveries.last_tag > acked:
                acked = deliveries.last_tag
                self._last_consumed = time.monotonic()
                if not self._load.auto_ack:
                    link.send(BasicAck(acked, multiple=True))
                self._news.set()

    # ---- the course of it

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
        except asyncio.CancelledError:  # Ctrl-C: what was sent is still to be checked
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()

    async def _drain(self) -> None:
        """Until all that was sent has come and is confirmed, or nothing more comes."""
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

    async def _ready(self, link: AmqpLink) -> int:
        """Without consumers: how many messages the queue has."""
        asked = QueueDeclare(self._like.queue, passive=True)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        return (await link.call(asked, QueueDeclareOk)).message_count

    def _result(self, in_queue: int) -> Result:
        received, published = self._received, sum(self._published)
        arrived = self._seen if self._load.consumers else in_queue
        lost, twice = max(published - arrived, 0), max(arrived - published, 0)
        if self._load.consumers and not (lost or twice or received.changed) and received.total != self._sent_total():
            lost = twice = 1  # at least: as many as there should be, but not the same
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
            refused=self._refused,
        )

    def _sent_total(self) -> int:
        """The sum of all numbers that were sent."""
        return sum(
            (publisher << SEQUENCE_BITS) * sent + sent * (sent - 1) // 2
            for publisher, sent in enumerate(self._published)
        )
