"""Two cells with disks, without a server: a sink in ``here`` whose queue lives in ``there``.

The test carries the transfers: ``carry`` lets ``there`` receive the next one, and answers it unless told otherwise.
Either cell may crash in between.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from leveret.broker.vhost import Vhost
from leveret.pipeline.outboxes import Answered, Outboxes, Transfer
from leveret.pipeline.transfers import ReceivedTransfers, decoded, encoded
from leveret.queues.classic import ClassicQueue
from leveret.routing.bindings import Binding, Destination
from tests.support.sinks import Sink
from tests.support.stored_harness import StoredHarness


class Home(NamedTuple):
    cell_name: str


class NoLog:
    """Publishes must not go through it."""


def make_elsewhere(vhost: Vhost, name: str, cell: str) -> None:
    """Make a declared queue one that is in another cell."""
    queue = vhost.queues[name]
    assert isinstance(queue, ClassicQueue)
    parts = {"__slots__": (), "home": Home(cell), "remote_log": NoLog()}
    queue.__class__ = type("Elsewhere", (ClassicQueue,), parts)
    vhost.epoch += 1  # routes name the queue as an ordinary one


class Sent(NamedTuple):
    cell: str
    transfer: Transfer
    answered: Answered


class OutboxCells:
    """Queue q lives in ``there``, queue r in ``here``; both are bound to amq.fanout."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.here, self.there = StoredHarness(), StoredHarness()
        for name in ("q", "r"):
            self.here.vhost.declare_queue(name, durable=True)
            self.here.vhost.bind(Binding("amq.fanout", Destination("queue", name), "", {}))
        self.there.vhost.declare_queue("q", durable=True, arguments={"x-max-priority": 5})
        for harness in (self.here, self.there):
            harness.broker.when_granted(lambda: None)
            harness.rest()
        self._start_here()
        self._start_there()

    def _start_here(self) -> None:
        make_elsewhere(self.here.vhost, "q", "there")
        self.sent.clear()
        self.sink = Sink(self.here)
        self.outboxes.start(lambda *sent: self.sent.append(Sent(*sent)))
        self.here.rest()

    def _start_there(self) -> None:
        self.own_outboxes = Outboxes(self.there.broker)
        self.received = ReceivedTransfers(self.there.broker, self.own_outboxes)

    @property
    def outboxes(self) -> Outboxes:
        return self.sink.commits.outboxes

    def crash_here(self) -> None:
        self.here = self.here.crashed().again()
        self._start_here()

    def crash_there(self) -> None:
        self.there = self.there.crashed().again()
        self._start_there()

    def commit(
        self, *bodies: bytes, batch: int = 0, exchange: str = "amq.fanout", **properties: object
    ) -> list[object]:
        """The outcome when there is one."""
        outcomes = self.sink.send("T", batch, self.sink.stage("T", batch, *bodies, exchange=exchange, **properties))
        self.here.rest()
        return outcomes  # type: ignore[return-value]

    def carry(self, *, problem: str | None = None) -> None:
        """The next transfer arrives as it is sent; ``problem``: the answer does not."""
        _, transfer, answered = self.sent.pop(0)
        asyncio.run(self._receive(decoded(*encoded(transfer))))
        answered(problem)
        self.here.rest()

    async def _receive(self, transfer: Transfer) -> None:
        receiving = asyncio.ensure_future(self.received.receive("here", transfer))
        while not receiving.done():
            await asyncio.sleep(0)
            self.there.rest()
        await receiving

    def receive_without_disk(self) -> None:
        """The next transfer arrives, and nothing of it is written."""
        self.there.is_slow = True

        async def begin() -> None:
            receiving = asyncio.ensure_future(self.received.receive("here", self.sent[0].transfer))
            for _ in range(10):
                await asyncio.sleep(0)
                self.there.rest()
            assert not receiving.done()
            receiving.cancel()

        asyncio.run(begin())

    def waiting_in_outboxes(self) -> int:
        """Messages that the outboxes of ``here`` would have after a crash."""
        queues = self.here.crashed().again().vhost.internal.queues
        return sum(queue.ready for name, queue in queues.items() if "outbox" in name)
