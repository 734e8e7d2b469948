"""The actor of a load that declares and deletes durable things, and the look at what a restarted broker has of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from leveret.wire.fields import Table
from leveret.wire.methods import (
    BasicAck,
    BasicReturn,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
)
from leveret.wire.properties import Properties
from tests.support.histories import History, digest
from tests.support.links import Link, Refused
from tests.support.loads import QUEUES

HUB, BOUND = "hub", "bound"  # bindings by many keys come and go between these two
MOST = 120  # of each kind; beyond that things are rather deleted


def queue_arguments(name: str) -> Table:
    """Some for every name, and always the same."""
    return {"x-tag": name, "nested": {"list": [1, "two", {"three": 3.5}], "none": None}}


@dataclass
class Declarer:
    """One thing at a time, each waited for. Queues get messages, so that what was deleted or purged could come back."""

    history: History
    random: Random
    number: int = 0
    counter: int = 0
    touched: set[tuple[str, str]] = field(default_factory=set)  # in this run

    async def run(self, url: str) -> None:
        self.touched.clear()
        async with await Link.open(url, confirms=True) as link:
            await self.change(link, "exchange", HUB, ExchangeDeclare(HUB, "direct", durable=True), ExchangeDeclareOk)
            await self.change(link, "queue", BOUND, QueueDeclare(BOUND, durable=True), QueueDeclareOk)
            while True:
                await self.random.choice((self.queues, self.queues, self.exchanges, self.bindings))(link)

    async def change(
        self, link: Link, kind: str, name: str, method: Method, answer: type[Method], *, there: bool = True
    ) -> None:
        if there and self.history.exists(kind, name):
            return
        self.touched.add((kind, name))
        self.history.unsure(kind, name)
        await link.call(method, answer)
        (self.history.declared if there else self.history.deleted)(kind, name)

    def pick(self, kind: str, prefix: str) -> str | None:
        """Something that is there and shall be changed, or None to make something new."""
        known = [name for name in self.history.things(kind) if name.startswith(prefix)]
        there = [name for name in known if self.history.exists(kind, name)]
        if there and self.random.random() < (0.3 if len(there) < MOST else 0.9):
            return self.random.choice(there)
        return None

    def new(self, prefix: str) -> str:
        self.number += 1
        return f"{prefix}{self.number}"

    async def queues(self, link: Link) -> None:
        name = self.pick("queue", "d-")
        if name is None:
            await self.declare_queue(link, self.new("d-"))
        elif self.random.random() < 0.3:
            held = self.history.waive(name)
            await link.call(QueuePurge(name), QueuePurgeOk)
            self.history.emptied(name, held)
            await self.fill(link, name)
        else:
            held = self.history.waive(name)
            await self.change(link, "queue", name, QueueDelete(name), QueueDeleteOk, there=False)
            self.history.emptied(name, held)
            if self.random.random() < 0.5:
                await self.declare_queue(link, name)  # the same name again: a new queue, and an empty one

    async def declare_queue(self, link: Link, name: str) -> None:
        method = QueueDeclare(name, durable=True, arguments=queue_arguments(name))
        await self.change(link, "queue", name, method, QueueDeclareOk)
        await self.fill(link, name)

    async def fill(self, link: Link, name: str) -> None:
        for _ in range(self.random.randint(0, 3)):
            self.counter += 1
            ident, body = f"declarer:{self.counter}", self.random.randbytes(50)
            self.history.sent(ident, "declarer", self.counter, [name], digest(body))
            link.publish("", name, body, Properties(message_id=ident, delivery_mode=2))
            if isinstance((await link.next()).method, BasicAck):
                self.history.confirmed(ident)
            else:
                self.history.refused(ident)

    async def exchanges(self, link: Link) -> None:
        name = self.pick("exchange", "x-")
        if name is not None:
            await self.change(link, "exchange", name, ExchangeDelete(name), ExchangeDeleteOk, there=False)
        else:
            name = self.new("x-")
            await self.change(link, "exchange", name, exchange_declare(name), ExchangeDeclareOk)

    async def bindings(self, link: Link) -> None:
        key = self.pick("binding", "k-")
        if key is not None:
            await self.change(link, "binding", key, QueueUnbind(BOUND, HUB, key), QueueUnbindOk, there=False)
        else:
            key = self.new("k-")
            await self.change(link, "binding", key, QueueBind(BOUND, HUB, key), QueueBindOk)


def exchange_declare(name: str, *, passive: bool = False) -> ExchangeDeclare:
    kind = ("direct", "topic", "fanout", "headers")[len(name) % 4]
    return ExchangeDeclare(name, kind, durable=True, passive=passive, arguments={"x-note": [name, {"deep": [True]}]})


async def look(url: str, history: History, things: set[tuple[str, str]]) -> None:
    """Tell the history which of these the broker has. A queue or exchange must also agree to a declare as before."""
    async with await Link.open(url) as link, await Link.open(url, confirms=True) as publisher:
        for kind, name in sorted(things):
            if kind == "queue":
                arguments = queue_arguments(name) if name.startswith("d-") else QUEUES.get(name, {})
                passive = QueueDeclare(name, passive=True)
                again = QueueDeclare(name, durable=True, arguments=arguments)
                history.seen(kind, name, await agrees(link, passive, again, QueueDeclareOk))
            elif kind == "exchange":
                again = exchange_declare(name) if name.startswith("x-") else ExchangeDeclare(name, passive=True)
                passive = ExchangeDeclare(name, passive=True)
                history.seen(kind, name, await agrees(link, passive, again, ExchangeDeclareOk))
        for kind, name in sorted(things):
            if kind == "binding" and history.exists("exchange", HUB):
                history.seen(kind, name, await is_bound(publisher, name))
        if history.exists("queue", BOUND):
            await link.call(QueuePurge(BOUND), QueuePurgeOk)


async def agrees(link: Link, passive: Method, again: Method, answer: type[Method]) -> bool:
    try:
        await link.call(passive, answer)
    except Refused as refused:
        if refused.code != 404:
            raise
        return False
    await link.call(again, answer)  # other flags or arguments than were declared: Refused, with the broker's word
    return True


async def is_bound(link: Link, key: str) -> bool:
    link.publish(HUB, key, b"", Properties(delivery_mode=1), mandatory=True)
    returned = False
    while not isinstance((heard := await link.next()).method, BasicAck):
        returned = returned or isinstance(heard.method, BasicReturn)
    return not returned
