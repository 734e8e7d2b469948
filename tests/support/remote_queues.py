"""A queue that answers later, as one on another node would: the test makes its log grant, refuse and fail."""

from __future__ import annotations

from leveret.broker.vhost import Vhost
from leveret.delivery.receipts import PendingPublish, Publisher, Receipt
from leveret.message import Message
from leveret.queues.classic import ClassicQueue


class Submitted:
    """A run that was submitted, with a receipt for each copy; the first copy is the queue's own."""

    def __init__(self, publish: PendingPublish, receipts: list[Receipt], size: int, timed: bool) -> None:
        self.publish = publish
        self.receipts = receipts
        self.size = size
        self.timed = timed


class ManualLog:
    reachable_cell = ""

    def __init__(self, queue: ClassicQueue, copies: int) -> None:
        self.queue = queue
        self.copies = copies
        self.waiting: list[Submitted] = []  # has not been received
        self.received: list[Submitted] = []  # has not been granted
        self.syncs: list[Receipt] = []  # of what was settled

    def submit(self, size: int, timed: bool, publish: PendingPublish) -> None:
        receipts = [publish.open() for _ in range(self.copies)]
        self.waiting.append(Submitted(publish, receipts, size, timed))

    def forward(self, size: int, timed: bool, run: list[Message], publisher: Publisher) -> None:
        publish = PendingPublish(publisher, run)
        self.submit(size, timed, publish)
        publish.resolve(True)

    def sync(self, publish: PendingPublish) -> None:
        self.syncs.append(publish.open())

    def unanswered(self) -> list[Receipt]:
        return [receipt for each in (*self.waiting, *self.received) for receipt in each.receipts if receipt.is_open]

    def receive(self, number: int | None = None) -> None:
        """The queue enqueues the next of the runs, or all."""
        for _ in range(len(self.waiting) if number is None else number):
            run = self.waiting.pop(0)
            for receipt in run.receipts:
                receipt.received()
            self.queue.publish(run.publish.run, run.size, run.timed)
            self.received.append(run)

    def grant(self, copy: int | None = None) -> None:
        """Everything received is safe: all copies, or one of them."""
        for run in self.received:
            for receipt in run.receipts if copy is None else [run.receipts[copy]]:
                receipt.granted()
        if copy is None:
            self.received.clear()
            for receipt in self._take_syncs():
                receipt.granted()

    def let_in(self, number: int | None = None) -> None:
        self.receive(number)
        self.grant()

    def refuse(self) -> None:
        for run in self.waiting:
            run.receipts[0].refused()
        self.waiting.clear()
        for receipt in self._take_syncs():
            receipt.refused()

    def lose(self) -> None:
        """The other node is gone."""
        runs = [*self.received, *self.waiting]
        self.received.clear()
        self.waiting.clear()
        for run in runs:
            for receipt in run.receipts:
                receipt.lost()
        for receipt in self._take_syncs():
            receipt.lost()

    def _take_syncs(self) -> list[Receipt]:
        syncs, self.syncs = self.syncs, []
        return syncs


class RemoteQueue(ClassicQueue):
    __slots__ = ()

    remote_log: ManualLog

    def die(self) -> int:
        self.remote_log.lose()
        return super().die()


def make_remote(vhost: Vhost, name: str, copies: int = 1) -> ManualLog:
    """Make a declared queue, with the messages in it, one that answers later."""
    queue = vhost.queues[name]
    assert isinstance(queue, ClassicQueue)
    log = ManualLog(queue, copies)
    queue.__class__ = type("RemoteQueue", (RemoteQueue,), {"__slots__": (), "remote_log": log})
    vhost.epoch += 1  # routes name the queue as an ordinary one
    return log
