"""Publishers and consumers in all cells that go on while links and cells fail, recorded in an ``OperationHistory``.

For each two cells there is a queue that lives in the first and is consumed in the second; publishers in all cells send
to all queues. Clients stay in their cell, and connect there again when their connection is lost.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from itertools import count, pairwise
from random import Random
from typing import NamedTuple

from leveret.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicQos,
    BasicQosOk,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.support.cell_load import PERSISTENT, Lost, body_of, is_intact
from tests.support.cell_node import CellNode
from tests.support.linked_cells import LinkedCells, knows_queue
from tests.support.links import Heard, Link
from tests.support.operation_history import Delivery, OperationHistory, Outcome, Publish

PATIENCE = 600.0  # seconds: clients wait, whatever happens to the link
DRAIN_SECONDS = 120.0
PAUSE = 0.05
OLDEST = 60.0  # seconds for which a publish may wait for its confirm
WINDOW = 100  # publishes without a confirm
GETS = 50
PREFETCHES = (20, 200, 1)
SIZES = (20, 200, 200, 3000, 20_000)


class Path(NamedTuple):
    """Of messages: from the cell of the publisher to the home of the queue."""

    source: str
    home: str

    def uses(self, *cells: str) -> bool:
        return self.source != self.home and {self.source, self.home} == set(cells)


class LinkLoad:
    def __init__(self, cells: LinkedCells, random: Random, *, rate: float = 12.0) -> None:
        """``rate``: messages per second of each publisher."""
        self.history = OperationHistory()
        self.errors: list[str] = []  # of connections, with what was lost
        self.random = random
        self._cells = cells
        self._rate = rate
        self._homes = {f"{home.name}-{user.name}": home for home in cells for user in cells}
        self._users = {f"{home.name}-{user.name}": user for home in cells for user in cells}
        self._tasks: list[asyncio.Task[None]] = []
        self._numbers = count(1)
        self._sent: dict[Path, list[Publish]] = {path: [] for path in self.paths}

    @property
    def paths(self) -> list[Path]:
        return [Path(source.name, home.name) for source in self._cells for home in self._cells]

    # ---- from start to end

    async def start(self) -> None:
        for queue, home in self._homes.items():
            async with await Link.open(home.url) as link:
                await link.call(QueueDeclare(queue, durable=True), QueueDeclareOk)
        for cell in self._cells:
            for queue in self._homes:
                while not await knows_queue(cell, queue):
                    await asyncio.sleep(PAUSE)
        for queue, user in self._users.items():
            self._begin(user, f"consumer of {queue}", partial(self._consume, queue), confirms=False)
            for cell in self._cells:
                self._begin(cell, f"{cell.name}>{queue}", partial(self._publish, queue), confirms=True)
        await self.flows(self.paths)

    def _begin(self, cell: CellNode, name: str, job: Callable[[str, Link], Awaitable[None]], *, confirms: bool) -> None:
        self._tasks.append(asyncio.create_task(self._work(cell, name, job, confirms)))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for result in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(result, Exception):
                raise result

    async def drain(self, seconds: float = DRAIN_SECONDS) -> None:
        """Take everything out of the queues, at their homes. Wait for so long for messages that are missing."""
        deadline = time.monotonic() + seconds
        for queue, home in self._homes.items():
            await self._drain(queue, home, deadline)

    async def _work(
        self, cell: CellNode, name: str, job: Callable[[str, Link], Awaitable[None]], confirms: bool
    ) -> None:
        while True:
            try:
                async with await Link.open(cell.url, confirms=confirms) as link:
                    await job(f"{name}.{next(self._numbers)}", link)
            except Lost as problem:
                self.errors.append(f"{name}: {problem!r}")
                await asyncio.sleep(PAUSE)

    # ---- publish

    async def _publish(self, queue: str, channel: str, link: Link) -> None:
        waiting: dict[int, str] = {}
        receiving = asyncio.create_task(self._take_answers(link, waiting))
        tag = 0
        try:
            while not receiving.done():
                if len(waiting) < WINDOW:
                    tag += 1
                    waiting[tag] = self._send(link, queue, channel, tag)
                    await link.flush()
                await asyncio.sleep(self.random.uniform(0, 2 / self._rate))
            receiving.result()
        finally:
            receiving.cancel()

    def _send(self, link: Link, queue: str, channel: str, place: int) -> str:
        ident = f"{channel}.{place}".replace(" ", "_")
        link.must_be_open()
        self.history.sent(ident, queue, channel, place, time.monotonic())
        self._sent[Path(channel.partition(">")[0], self._homes[queue].name)].append(self.history.publishes[ident])
        body = body_of(ident, self.random.choice(SIZES))
        link.publish("", queue, body, PERSISTENT, mandatory=self.random.random() < 0.5)  # the queue exists: no returns
        return ident

    async def _take_answers(self, link: Link, waiting: dict[int, str]) -> None:
        while True:
            method = (await link.next(PATIENCE)).method
            assert isinstance(method, BasicAck | BasicNack), method
            outcome = Outcome.CONFIRMED if isinstance(method, BasicAck) else Outcome.NACKED
            last = method.delivery_tag
            for tag in [tag for tag in waiting if tag <= last] if method.multiple else [last]:
                self.history.answered(waiting.pop(tag), outcome, time.monotonic())

    # ---- consume

    async def _consume(self, queue: str, consumer: str, link: Link) -> None:
        prefetch = PREFETCHES[list(self._homes).index(queue) % len(PREFETCHES)]
        await link.call(BasicQos(prefetch_count=prefetch), BasicQosOk, PATIENCE)
        await link.call(BasicConsume(queue), BasicConsumeOk, PATIENCE)
        held: list[str] = []
        while True:
            heard = await link.next(PATIENCE)
            held.append(self._note(consumer, queue, heard))
            assert isinstance(heard.method, BasicDeliver)
            if len(held) >= prefetch or self.random.random() < 0.05:
                self._ack(link, held, heard.method.delivery_tag)

    def _note(self, consumer: str, queue: str, heard: Heard) -> str:
        """A consumer outlives the link, and gets again, marked, what it had not acked then."""
        assert isinstance(heard.method, BasicDeliver | BasicGetOk), heard.method
        ident, flag = heard.body.partition(b" ")[0].decode(), heard.method.redelivered
        by = f"{consumer}, again {next(self._numbers)}" if flag else consumer
        self.history.delivered(Delivery(ident, queue, by, flag, time.monotonic(), is_intact(heard.body)))
        return ident

    def _ack(self, link: Link, held: list[str], tag: int) -> None:
        link.must_be_open()
        for ident in held:
            self.history.ack_sent(ident)
        held.clear()
        link.send(BasicAck(tag, multiple=True))

    # ---- the end

    async def _drain(self, queue: str, home: CellNode, deadline: float) -> None:
        """Until no confirmed message is missing. Those of lost connections and links come back after a while: with the
        last consumer, those that no client has received return to their places, and the order can be checked."""
        async with await Link.open(home.url) as link:
            while await self._consumers(queue, link):
                assert time.monotonic() < deadline, f"{queue} has a consumer whose connection is closed"
                await asyncio.sleep(PAUSE)
            while True:
                taken = await self._get_some(queue, link)
                if not taken and (not self._missing(queue) or time.monotonic() > deadline):
                    break
                await asyncio.sleep(0 if taken else PAUSE)
            await link.close()
        self.history.drained(queue)

    async def _consumers(self, queue: str, link: Link) -> int:
        heard = await link.call(QueueDeclare(queue, passive=True), QueueDeclareOk)
        return heard.consumer_count

    async def _get_some(self, queue: str, link: Link) -> int:
        for _ in range(GETS):
            link.send(BasicGet(queue))
        held, last = list[str](), 0
        for heard in [await link.next() for _ in range(GETS)]:
            assert isinstance(heard.method, BasicGetOk | BasicGetEmpty)
            if isinstance(heard.method, BasicGetOk):
                held.append(self._note("drain", queue, heard))
                last = heard.method.delivery_tag
        number = len(held)
        if held:
            self._ack(link, held, last)
        return number

    def _missing(self, queue: str) -> bool:
        found = (each for each in self.history.publishes.values() if each.queue == queue)
        return any(each.outcome is Outcome.CONFIRMED and not each.is_acked for each in found)

    # ---- figures

    async def flows(self, paths: Iterable[Path], seconds: float = 90.0) -> None:
        """Wait until messages sent from now on are confirmed on each path, and others are delivered back on it."""
        left = {path: len(self._sent[path]) for path in paths}
        queues, seen = {f"{path.home}-{path.source}" for path in left}, len(self.history.deliveries)
        deadline = time.monotonic() + seconds
        while left or queues:
            for task in self._tasks:
                if task.done():
                    task.result()
            assert time.monotonic() < deadline, f"nothing on {sorted(left)}, {sorted(queues)} for {seconds} s"
            await asyncio.sleep(PAUSE)
            for path, begun in list(left.items()):
                if any(each.outcome is Outcome.CONFIRMED for each in self._sent[path][begun:]):
                    del left[path]
            queues -= {each.queue for each in self.history.deliveries[seen:]}
            seen = len(self.history.deliveries)

    def longest_wait(self, path: Path, begun: float, ended: float) -> float:
        """The longest time without a confirm on this path."""
        found = [each for each in self._since(path, begun - OLDEST) if each.outcome is Outcome.CONFIRMED]
        times = sorted(each.ended_at for each in found if begun <= each.ended_at <= ended)
        return max(late - early for early, late in pairwise([begun, *times, ended]))

    def outcomes(self, path: Path, begun: float, ended: float) -> list[tuple[Outcome, float]]:
        """Of what was sent in this time and is answered, with the seconds that it took."""
        found = (each for each in self._since(path, begun) if each.sent_at <= ended)
        return [(each.outcome, each.ended_at - each.sent_at) for each in found if each.ended_at < float("inf")]

    def _since(self, path: Path, begun: float) -> list[Publish]:
        sent = self._sent[path]
        return sent[bisect_left(sent, begun, key=lambda each: each.sent_at) :]
