"""A destination that passes each message of a sharded exchange on to the queue that its slot has now.

Theory of operation. A gate stands where messages of slots on the move arrive: in front of a shard that slots are
leaving, and in other cells between the old and the new route of these slots. It is a queue that answers later
(delivery/receipts.py): a publisher gets its confirm from the queue that gets the message.

A closed gate keeps publishes in memory, in their order, until everything that was sent before them has arrived. It is
closed for as long as an answer takes, not for as long as a queue has messages. What waits counts as memory, and by its
bytes against the flow control of its publisher.

Committed messages go past a gate (broker/gates.py), but not while it is closed, or while transfers to the old shard
that began earlier have not arrived.

When its exchange does not use a gate any more (``end``), its name is gone. The broker may still repeat a write to it
(broker/remote_writes.py), whose messages then go where the exchange routes them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple, NoReturn

from leveret.broker.broker import Broker
from leveret.broker.publishes import Outcome, deliver, rejected_places
from leveret.broker.routes import Route
from leveret.delivery.receipts import PendingPublish, Publisher, Receipt, RemoteLog, Unattended
from leveret.message import NEVER, Message
from leveret.queues.duplicates import Duplicates
from leveret.queues.limits import Limits
from leveret.queues.queue import Queue, uniform_runs


class Waiting(NamedTuple):
    run: list[Message]
    size: int
    receipt: Receipt


class Share(Unattended):
    """One queue's messages of a run, with their places in it."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self.places: list[int] = []
        self.messages: list[Message] = []

    def add(self, place: int, message: Message) -> None:
        self.places.append(place)
        self.messages.append(message)

    def answer(self, rejected: Iterable[int]) -> None:
        """``rejected``: places in the share."""
        self._answers.answer([self.places[place] for place in rejected])

    def resolved(self, publish: PendingPublish) -> None:
        self._answers.is_unanswered |= publish.is_unanswered
        self.answer(publish.rejected)


class Answers:
    """Resolves the receipt of a run when all queues that got a share of it have answered."""

    def __init__(self, receipt: Receipt) -> None:
        self._receipt = receipt
        self._rejected: list[int] = []
        self.is_unanswered = False
        self.left = 0

    def answer(self, rejected: list[int]) -> None:
        self.left -= 1
        self._rejected += rejected
        if not self.left:
            if self.is_unanswered:
                self._receipt.unanswered(self._rejected)
            elif self._rejected:
                self._receipt.refused(self._rejected)
            else:
                self._receipt.granted()


class SlotGate:
    """``target``: the queue of a message now; None if there is no shard at all."""

    reachable_cell = ""
    limits: Limits | None = None
    duplicates: Duplicates | None = None

    def __init__(self, name: str, broker: Broker, target: Callable[[Message], Queue | None]) -> None:
        self.name = name
        self.alive = True
        self.stored = self.synced = self.keeps_all = self.can_reject = self.dirty = False
        self.remote_log: RemoteLog | None = self
        self._broker = broker
        self._target = target
        self._when_clear: list[Callable[[], None]] = []
        self._waiting: deque[Waiting] = deque()
        self.is_closed = self._is_over = False
        self.awaits_transfers = False

    def close(self) -> None:
        self.is_closed = True

    def open(self) -> None:
        self.is_closed = False
        while self._waiting and not self.is_closed:
            run, size, receipt = self._waiting.popleft()
            self._broker.gauge.used -= size
            self._pass_on(run, receipt)
        self._tell_clear()

    def end(self, target: Callable[[Message], Queue | None]) -> None:
        self._target, self._is_over = target, True
        self.transferred()

    def transferred(self) -> None:
        self.awaits_transfers = False
        self._tell_clear()

    # ---- broker.gates.Gate

    def target(self, message: Message) -> Queue | None:
        return self._target(message)

    @property
    def _is_clear(self) -> bool:
        return not (self.is_closed or self.awaits_transfers)

    def when_clear(self, call: Callable[[], None]) -> bool:
        if self._is_clear:
            return False
        self._when_clear.append(call)
        return True

    def _tell_clear(self) -> None:
        if self._is_clear:
            calls, self._when_clear = self._when_clear, []
            for call in calls:
                call()

    # ---- delivery.receipts.RemoteLog

    def submit(self, size: int, timed: bool, publish: PendingPublish) -> None:
        receipt = publish.open(size)
        if self.is_closed:
            self._broker.gauge.used += size
            self._waiting.append(Waiting(list(publish.run), size, receipt))
        else:
            self._pass_on(publish.run, receipt)

    def forward(self, size: int, timed: bool, run: list[Message], publisher: Publisher) -> None:
        publish = PendingPublish(publisher, run)
        self.submit(size, timed, publish)
        publish.resolve(True)

    def sync(self, publish: PendingPublish) -> None:
        """Nothing is settled in a gate."""

    def unanswered(self) -> list[Receipt]:
        return [each.receipt for each in self._waiting]

    def _pass_on(self, run: list[Message], receipt: Receipt) -> None:
        shares: dict[Queue, Share] = {}
        answers = Answers(receipt)
        for place, message in enumerate(run):
            queue = self._target(message)
            if queue is None:
                self.alive = not self._is_over
                receipt.lost()
                return
            if queue not in shares:
                shares[queue] = Share(answers)
            shares[queue].add(place, message)
        answers.left = len(shares)
        for queue, share in shares.items():
            self._send(queue, share)
        self._broker.wake()

    def _send(self, queue: Queue, share: Share) -> None:
        messages = share.messages
        if queue.remote_log is not None:
            pending = PendingPublish(share, messages)
            deliver(Route([queue]), self._broker.log, messages, *size_and_time(messages), pending=pending)
            pending.resolve(True)
            return
        outcomes: list[Outcome] = []
        for run in uniform_runs(messages):
            outcomes += deliver(Route([queue]), self._broker.log, run, *size_and_time(run))
        rejected = rejected_places(outcomes)
        receipt = max([outcome.receipt for outcome in outcomes])
        self._broker.when_granted(
            lambda: share.answer(rejected), lost=lambda: share.answer(range(len(messages))), receipt=receipt
        )

    # ---- queues.queue.Queue

    def publish(self, run: list[Message], size: int, timed: bool) -> NoReturn:
        raise AssertionError("a gate gets its messages through its log")

    def place(self, run: list[Message], size: int, timed: bool) -> NoReturn:
        raise AssertionError("a gate stores no messages")

    def touch(self) -> None: ...

    def drain(self) -> None: ...


def size_and_time(messages: list[Message]) -> tuple[int, bool]:
    return sum([len(message[0]) for message in messages]), any(message[2].deadline != NEVER for message in messages)
