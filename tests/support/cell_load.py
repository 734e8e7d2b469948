"""Publishers and consumers that go on while nodes of a cell fail, recorded in an ``OperationHistory``.

Each works on one connection until that is lost or silent for ``PATIENCE``, then connects through another node. All of
them run in one event loop; their times are those of ``time.monotonic``.

The queue ``parked`` has no consumer: its messages are confirmed only when the log has them. A message that was consumed
and acked may be confirmed before that, so the other queues do not show whether the cell works.
"""

from __future__ import annotations

import asyncio
import json
import time
from base64 import b64encode
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from random import Random
from urllib.request import Request, urlopen

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
from leveret.wire.properties import Properties
from tests.support.cell_node import CellNode
from tests.support.links import Gone, Heard, Link, Refused, Silent
from tests.support.operation_history import Delivery, OperationHistory, Outcome

PATIENCE = 5.0  # seconds without an answer: connect again
CONNECT_SECONDS = 5.0  # the node may be stopped
DRAIN_SECONDS = 90.0
GETS = 50  # that are sent together, to drain a queue
PAUSE = 0.05
PERSISTENT = Properties(delivery_mode=2)
PARKED = "parked"
AUTHORIZATION = f"Basic {b64encode(b'admin:admin').decode()}"
LARGE = 700_000  # bytes: more than one record of the log
Lost = (Gone, Refused, Silent, OSError)  # TimeoutError is an OSError


def body_of(ident: str, size: int) -> bytes:
    start = f"{ident} {size} ".encode()
    return start + (start * (size // len(start) + 1))[: max(size - len(start), 0)]


def is_intact(body: bytes) -> bool:
    ident, size, _ = body.split(b" ", 2)
    return body == body_of(ident.decode(), int(size))


class CellLoad:
    """``start``, then ``stop`` and ``drain``; or ``declare``, a load of the test's own, and ``drain``."""

    def __init__(self, nodes: Sequence[CellNode], random: Random, *, rate: float = 150.0, holds: bool = False) -> None:
        """``rate``: messages per second of each publisher. ``holds``: see OperationHistory."""
        self.history = OperationHistory(frozenset({"shared"}), holds=holds)
        self.errors: list[str] = []  # of connections, with what was lost
        self.random = random
        self._nodes = nodes
        self._rate = rate
        self._is_over = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._numbers: dict[str, int] = {}
        self._confirms = 0  # of parked messages

    async def declare(self) -> None:
        async def declare(link: Link) -> None:
            for queue in ("ordered", "shared", PARKED):
                await link.call(QueueDeclare(queue, durable=True), QueueDeclareOk, PATIENCE)

        await self.retry(declare)

    async def start(self) -> None:
        await self.declare()
        work: list[tuple[str, Callable[[str, Link], Awaitable[None]]]] = [
            ("p1", lambda name, link: self._publish(name, link, "ordered", self._rate, 100)),
            ("p2", lambda name, link: self._publish(name, link, "ordered", self._rate, 20)),
            ("p3", lambda name, link: self._publish(name, link, "shared", self._rate, 50)),
            ("p4", lambda name, link: self._publish(name, link, PARKED, self._rate / 3, 20)),
            ("c1", lambda name, link: self._consume(name, link, "ordered")),
            ("c2", lambda name, link: self._consume(name, link, "shared")),
            ("c3", lambda name, link: self._consume(name, link, "shared")),
            ("d1", self._declare),
        ]
        self._tasks = [asyncio.create_task(self._work(*each)) for each in work]

    async def stop(self) -> None:
        self._is_over.set()
        for task in self._tasks:
            task.cancel()
        for result in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(result, Exception):
                raise result

    async def more(self, number: int, seconds: float, *, supervised: bool = False) -> None:
        """Wait until so many more parked messages are confirmed. ``supervised``: nodes that end are started again."""
        goal, deadline = self._confirms + number, time.monotonic() + seconds
        while self._confirms < goal:
            for task in self._tasks:
                if task.done():
                    task.result()
            for node in self._nodes:
                if supervised and not node.is_running:
                    node.start()
            missing = f"{goal - self._confirms} of {number} not confirmed"
            assert time.monotonic() < deadline, self._stalled(missing, seconds)
            await asyncio.sleep(0.02)

    def _stalled(self, what: str, seconds: float) -> str:
        logs = "\n".join(f"--- {node.name}\n{node.log()[-3000:]}" for node in self._nodes)
        return f"{what} after {seconds} s; last errors: {self.errors[-10:]}\n{logs}"

    async def drain(self) -> None:
        """Take everything out of the queues, and look for the definitions."""
        for queue in ("ordered", "shared", PARKED):
            await self.retry(partial(self._drain, queue))
        await self.retry(self._find)

    async def retry(self, job: Callable[[Link], Awaitable[None]], seconds: float = 120.0) -> None:
        deadline = time.monotonic() + seconds
        while True:
            try:
                async with await self._connect() as link:
                    await job(link)
                    return
            except Lost as problem:
                self.errors.append(repr(problem))
                assert time.monotonic() < deadline, self._stalled("Not done", seconds)
                await asyncio.sleep(PAUSE)

    # ---- one connection after the other

    async def _connect(self, *, confirms: bool = False) -> Link:
        async with asyncio.timeout(CONNECT_SECONDS):
            return await Link.open(self.random.choice(self._nodes).url, confirms=confirms)

    async def _work(self, name: str, job: Callable[[str, Link], Awaitable[None]]) -> None:
        while not self._is_over.is_set():
            self._numbers[name] = self._numbers.get(name, 0) + 1
            try:
                async with await self._connect(confirms=name.startswith("p")) as link:
                    await job(f"{name}.{self._numbers[name]}", link)
            except Lost as problem:
                self.errors.append(f"{name}: {problem!r}")
                await asyncio.sleep(PAUSE)

    # ---- publish

    async def _publish(self, channel: str, link: Link, queue: str, rate: float, window: int) -> None:
        waiting: dict[int, str] = {}
        tag, begun = 0, time.monotonic()
        while True:
            due = int((time.monotonic() - begun) * rate) + 1
            while tag < due and len(waiting) < window:
                tag += 1
                waiting[tag] = self._send(link, queue, channel, tag)
            async with asyncio.timeout(PATIENCE):
                await link.flush()
            if waiting:
                await self._take_answers(link, waiting)
            await asyncio.sleep(max(begun + tag / rate - time.monotonic(), 0))

    def _send(self, link: Link, queue: str, channel: str, place: int) -> str:
        ident = f"{channel}.{place}"
        size = LARGE if self.random.random() < 0.001 else self.random.choice((20, 200, 200, 3000))
        link.must_be_open()
        self.history.sent(ident, queue, channel, place, time.monotonic())
        link.publish("", queue, body_of(ident, size), PERSISTENT)
        return ident

    async def _take_answers(self, link: Link, waiting: dict[int, str]) -> None:
        """At least one, and those that are there."""
        while True:
            method = (await link.next(PATIENCE)).method
            assert isinstance(method, BasicAck | BasicNack), method
            outcome = Outcome.CONFIRMED if isinstance(method, BasicAck) else Outcome.NACKED
            last = method.delivery_tag
            for tag in [tag for tag in waiting if tag <= last] if method.multiple else [last]:
                ident = waiting.pop(tag)
                self.history.answered(ident, outcome, time.monotonic())
                self._confirms += outcome is Outcome.CONFIRMED and self.history.publishes[ident].queue == PARKED
            if not link.waiting():
                return

    # ---- consume

    async def _consume(self, consumer: str, link: Link, queue: str) -> None:
        await link.call(BasicQos(prefetch_count=self.random.choice((1, 20, 200))), BasicQosOk, PATIENCE)
        await link.call(BasicConsume(queue), BasicConsumeOk, PATIENCE)
        held: list[str] = []
        while True:
            heard = await link.next(PATIENCE)
            held.append(self._note(consumer, queue, heard))
            assert isinstance(heard.method, BasicDeliver)
            if self.random.random() < 0.3 or not link.waiting():
                self._ack(link, held, heard.method.delivery_tag)

    def _note(self, consumer: str, queue: str, heard: Heard) -> str:
        assert isinstance(heard.method, BasicDeliver | BasicGetOk), heard.method
        ident, whole = heard.body.partition(b" ")[0].decode(), is_intact(heard.body)
        flag = heard.method.redelivered
        self.history.delivered(Delivery(ident, queue, consumer, flag, time.monotonic(), whole))
        return ident

    def _ack(self, link: Link, held: list[str], tag: int) -> None:
        link.must_be_open()
        for ident in held:
            self.history.ack_sent(ident)
        held.clear()
        link.send(BasicAck(tag, multiple=True))

    async def _drain(self, queue: str, link: Link) -> None:
        try:
            await self._empty(queue, link)
        except Refused as refused:
            if refused.code != 404:
                raise  # a queue that is lost has no messages any more
        self.history.drained(queue)

    async def _empty(self, queue: str, link: Link) -> None:
        consumer, deadline = f"drain.{time.monotonic()}", time.monotonic() + DRAIN_SECONDS
        while True:
            for _ in range(GETS):
                link.send(BasicGet(queue))
            held, last = list[str](), 0
            for heard in [await link.next(PATIENCE) for _ in range(GETS)]:
                assert isinstance(heard.method, BasicGetOk | BasicGetEmpty)
                if isinstance(heard.method, BasicGetOk):
                    held.append(self._note(consumer, queue, heard))
                    last = heard.method.delivery_tag
            if held:
                self._ack(link, held, last)
                continue
            if (left := self._count(queue)) == 0:
                break
            assert time.monotonic() < deadline, f"{left} messages of {queue} are still held by consumers that are gone"
            await asyncio.sleep(PAUSE)
        await link.close()

    def _count(self, queue: str) -> int:
        """Including those that were delivered to connections whose end the broker has not noticed yet."""
        url = f"{self.random.choice(self._nodes).http_url}/api/queues/%2F/{queue}"
        with urlopen(Request(url, headers={"Authorization": AUTHORIZATION}), timeout=PATIENCE) as answer:
            return int(json.load(answer)["messages"])

    # ---- definitions

    async def _declare(self, name: str, link: Link) -> None:
        number = 0
        while True:
            number += 1
            queue = f"{name}.{number}"
            await link.call(QueueDeclare(queue, durable=True), QueueDeclareOk, PATIENCE)
            self.history.declared(queue, time.monotonic())
            await asyncio.sleep(0.5)

    async def _find(self, link: Link) -> None:
        for name in list(self.history.definitions):
            try:
                await link.call(QueueDeclare(name, passive=True), QueueDeclareOk, PATIENCE)
            except Refused as refused:
                if refused.code != 404:
                    raise
            else:
                self.history.found([name])
