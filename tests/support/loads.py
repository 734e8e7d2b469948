"""A load of publishers, consumers and a declarer that continues over many runs of a broker, recorded in a ``History``.

In every run the actors connect again and work until the broker is gone. What they do is chosen by a seed, except for
the moments at which answers come.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple, Protocol

from leveret.wire.fields import Table
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
    BasicReject,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
    TxSelectOk,
)
from leveret.wire.properties import Properties
from tests.support.histories import History, digest
from tests.support.links import Gone, Heard, Link, Refused

QUEUES: dict[str, Table] = {
    "plain": {},
    "shared": {},
    "priority": {"x-max-priority": 5},
    "committed": {},
    "restless": {},
    "fan.a": {},
    "fan.b": {},
    "fan.c": {},
}
RESTLESS = frozenset({"restless"})
HIGHEST = 5


class Target(NamedTuple):
    exchange: str
    key: str
    queues: tuple[str, ...]


TARGETS = [Target("", queue, (queue,)) for queue in ("plain", "shared", "priority", "committed", "restless", "fan.a")]
FAN = Target("fan", "", ("fan.a", "fan.b", "fan.c"))


class Actor(Protocol):
    async def run(self, url: str) -> None:
        """Work until the broker is gone, which raises ``Gone``. Nothing else ends it."""


@dataclass
class Publisher:
    """Publishes bursts, and lets at most ``window`` of them be unanswered. Its channel has confirms."""

    name: str
    history: History
    random: Random
    window: int = 60
    counter: int = 0

    async def run(self, url: str) -> None:
        async with await Link.open(url, confirms=True) as link:
            waiting: dict[int, str] = {}
            tag = 0
            while True:
                for _ in range(self.random.randint(1, 20)):
                    tag += 1
                    waiting[tag] = self.publish(link, self.random.choice([*TARGETS, FAN, FAN]))
                await link.flush()
                bound = self.random.randint(0, self.window)
                while len(waiting) > bound or link.waiting():
                    self.answered((await link.next()).method, waiting)

    def publish(self, link: Link, target: Target) -> str:
        random = self.random
        body = random.randbytes(random.choice((0, 20, 150, 600, 600, 4000)))
        if random.random() < 0.003:
            body = random.randbytes(300_000)  # more than one frame
        self.counter += 1
        ident, told = f"{self.name}:{self.counter}", digest(body)
        persistent = random.random() < 0.95
        priority = random.randint(0, HIGHEST + 2) if "priority" in target.queues else 0
        properties = Properties(
            message_id=ident, correlation_id=told, delivery_mode=2 if persistent else 1, priority=priority or None
        )
        lane = min(priority, HIGHEST)
        self.history.sent(ident, self.name, self.counter, target.queues, told, priority=lane, persistent=persistent)
        link.publish(target.exchange, target.key, body, properties)
        return ident

    def answered(self, method: object, waiting: dict[int, str]) -> None:
        assert isinstance(method, BasicAck | BasicNack), method
        done = [tag for tag in waiting if tag <= method.delivery_tag] if method.multiple else [method.delivery_tag]
        for tag in done:
            if isinstance(method, BasicAck):
                self.history.confirmed(waiting.pop(tag), time.monotonic())
            else:
                self.history.refused(waiting.pop(tag))


class Committer(Publisher):
    """Publishes in transactions: a commit is its confirm."""

    async def run(self, url: str) -> None:
        async with await Link.open(url) as link:
            await link.call(TxSelect(), TxSelectOk)
            while True:
                number = self.random.randint(1, 12)
                sent = [self.publish(link, self.random.choice([*TARGETS, FAN])) for _ in range(number)]
                await link.call(TxCommit(), TxCommitOk)
                for ident in sent:
                    self.history.confirmed(ident, time.monotonic())


@dataclass
class Consumer:
    """Takes from one queue and acks in one of its styles, a new one in each run."""

    name: str
    queue: str
    history: History
    random: Random
    styles: tuple[str, ...] = ("each", "batches", "hoard")
    lives: int = 0
    held: list[tuple[int, str]] = field(default_factory=list)  # tags and ids that are not acked yet

    async def run(self, url: str) -> None:
        style = self.random.choice(self.styles)
        while True:
            self.lives += 1
            self.held = []
            async with await Link.open(url) as link:
                await link.call(BasicQos(prefetch_count=self.random.choice((1, 30, 200))), BasicQosOk)
                if style == "commits":
                    await link.call(TxSelect(), TxSelectOk)
                await link.call(BasicConsume(self.queue), BasicConsumeOk)
                while await self.take(link, await link.next(60), style):
                    pass

    async def take(self, link: Link, heard: Heard, style: str) -> bool:
        """Handle one delivery; False if the connection was given up."""
        assert isinstance(heard.method, BasicDeliver), heard.method
        note(self.history, self.queue, f"{self.name}.{self.lives}", heard)
        self.held.append((heard.method.delivery_tag, heard.properties.message_id or ""))
        if style == "each":
            self.ack(link)
        elif style == "batches" and (self.random.random() < 0.1 or not link.waiting()):
            self.ack(link, multiple=True)
        elif style == "commits" and not link.waiting():
            await self.commit(link)
        elif style == "restless":
            return await self.be_restless(link)
        return True

    def ack(self, link: Link, *, multiple: bool = False) -> None:
        link.must_be_open()  # or no ack is on its way
        for _, ident in self.held:
            self.history.acked(self.queue, ident)
        link.send(BasicAck(self.held[-1][0], multiple))
        self.held.clear()

    async def commit(self, link: Link) -> None:
        idents = [ident for _, ident in self.held]
        self.ack(link, multiple=True)
        link.send(TxCommit())
        while not isinstance((heard := await link.next()).method, TxCommitOk):
            note(self.history, self.queue, f"{self.name}.{self.lives}", heard)
            assert isinstance(heard.method, BasicDeliver)
            self.held.append((heard.method.delivery_tag, heard.properties.message_id or ""))
        for ident in idents:
            self.history.settled(self.queue, ident)

    async def be_restless(self, link: Link) -> bool:
        tag, ident = self.held.pop()
        dice = self.random.random()
        if dice < 0.08:
            link.send(BasicNack(tag, False, True))
        elif dice < 0.15:
            link.send(BasicReject(tag, True))
        elif dice < 0.17:
            return True  # kept unacked for the rest of this connection
        else:
            link.must_be_open()
            self.history.acked(self.queue, ident)
            link.send(BasicAck(tag))
        if dice > 0.99:
            await link.close()  # politely, so that its acks have counted
            return False
        return True


def note(history: History, queue: str, consumer: str, heard: Heard) -> None:
    """Tell a history what was received."""
    assert isinstance(heard.method, BasicDeliver | BasicGetOk), heard.method
    ident = heard.properties.message_id or "(without an id)"
    history.received(queue, consumer, ident, digest(heard.body), heard.method.redelivered)


async def declare_topology(url: str, history: History) -> None:
    async with await Link.open(url) as link:
        for queue, arguments in QUEUES.items():
            await link.call(QueueDeclare(queue, durable=True, arguments=arguments), QueueDeclareOk)
            history.declared("queue", queue)
        await link.call(ExchangeDeclare("fan", "fanout", durable=True), ExchangeDeclareOk)
        history.declared("exchange", "fan")
        for queue in FAN.queues:
            await link.call(QueueBind(queue, "fan", ""), QueueBindOk)


async def drain(url: str, history: History, queue: str, *, at_once: int = 50) -> int:
    """Get and ack all that a queue has; how much it was. Judges order by priority too, where the queue has that."""
    taken, lowest = 0, HIGHEST
    async with await Link.open(url) as link:
        while True:
            for _ in range(at_once):
                link.send(BasicGet(queue))
            answers = [await link.next() for _ in range(at_once)]
            for heard in answers:
                if isinstance(heard.method, BasicGetEmpty):
                    continue
                assert isinstance(heard.method, BasicGetOk), heard.method
                note(history, queue, "drain", heard)
                history.acked(queue, heard.properties.message_id or "")
                link.send(BasicAck(heard.method.delivery_tag))
                taken += 1
                if queue == "priority":
                    priority = min(heard.properties.priority or 0, HIGHEST)
                    assert priority <= lowest, f"priority {priority} after {lowest}"
                    lowest = priority
            if isinstance(answers[-1].method, BasicGetEmpty):
                left = (await link.call(QueueDeclare(queue, passive=True), QueueDeclareOk)).message_count
                assert left == 0, f"{queue} has {left} messages, and get says that it is empty"
                await link.close()  # so that all acks have counted
                return taken


async def run_life(
    actors: list[Actor], url: str, seconds: float, is_busy: Callable[[], bool], end: Callable[[], None]
) -> None:
    """Let the actors work for so long, and until they are busy; then ``end`` the broker while they work, and receive
    what is left of it."""
    tasks = [asyncio.create_task(actor.run(url)) for actor in actors]
    try:
        early, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        deadline = time.monotonic() + 60
        while not (early or is_busy() or time.monotonic() > deadline):
            early, _ = await asyncio.wait(tasks, timeout=0.01, return_when=asyncio.FIRST_COMPLETED)
        for task in early:
            task.result()  # raises: actors do not end by themselves
        end()
        done, late = await asyncio.wait(tasks, timeout=60)
        assert not late, f"{len(late)} actors did not see the end of the broker"
        for task in done:
            if not isinstance(task.exception(), Gone | Refused):
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
