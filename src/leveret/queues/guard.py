"""Queues that do not take a message at once: replicas, and leaders that are elsewhere or behind.

Theory of operation. An ordinary queue takes a run of messages by a function call; there is nothing to wait for, and
nobody keeps books. A queue with a *guard* goes the long way of a distributed broker, which is also the way that the
founding pipeline describes:

1. The channel wraps the run into a Delivery and sends an Envelope to the leader and one to every replica; the
   envelope says whether its receiver was a replica at the time. Each costs credit (delivery/credit.py).
2. The *gate* decides when the leader handles the envelope; without a gate it does so at once. Handling gives the
   credit back, tells the sender that a mandatory message was received, and only then enqueues.
3. The delivery is *stored* at this queue once the leader and all replicas that it was sent to have it; a replica that
   leaves is not waited for any more.
4. If the queue dies first, or a sender dies, what is pending between the two is resolved or forgotten.

A Mirror is a replica in memory. When it is promoted, an envelope that was meant for it as a replica must not be
enqueued a second time: it compares the leader's sequences with how far it has got. Leaders send to replicas in the
order of their sequences, so everything below that mark was either enqueued at promotion or settled before.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, NamedTuple, Protocol

from leveret.message import NEVER, Message
from leveret.store.log import GRANTED, Placement

if TYPE_CHECKING:
    from leveret.queues.classic import ClassicQueue


Place = tuple[int, int]  # lane, sequence


class Sender(Protocol):
    """The publishing channel, as a guarded queue sees it. Each call names the delivery and the queue."""

    def credited(self, queue: ClassicQueue, credits: int) -> None: ...

    def mandatory_received(self, delivery: Delivery, queue: ClassicQueue) -> None: ...

    def stored(self, delivery: Delivery, queue: ClassicQueue) -> None: ...

    def queue_died(self, delivery: Delivery, queue: ClassicQueue) -> None: ...


class Carefree:
    """Publishes to a guarded queue and waits for no word of it: credit and confirms are for peers."""

    def credited(self, queue: ClassicQueue, credits: int) -> None: ...

    def mandatory_received(self, delivery: Delivery, queue: ClassicQueue) -> None: ...

    def stored(self, delivery: Delivery, queue: ClassicQueue) -> None: ...

    def queue_died(self, delivery: Delivery, queue: ClassicQueue) -> None: ...


class Delivery:
    """A run of messages on its way from one sender to one guarded queue."""

    __slots__ = ("messages", "places", "receipt", "sender", "size", "timed", "waits_for")

    def __init__(self, sender: Sender, messages: list[Message], size: int, timed: bool) -> None:
        self.sender = sender
        self.messages = messages
        self.size = size
        self.timed = timed
        self.places: list[Place] = []  # of each message, given by the leader when it handles the delivery
        self.receipt = GRANTED  # of the leader's write, if it outlives the process
        self.waits_for: set[object] = set()  # the guard (for the leader) and replicas that have not got it yet


class Envelope(NamedTuple):
    delivery: Delivery
    replica_when_published: bool


class Replica(Protocol):
    """A copy of a queue elsewhere."""

    def receive(self, envelope: Envelope, handled: Callable[[], None]) -> None:
        """Keep a copy; call ``handled`` once it is kept. The leader has already given the messages their places."""


Gate = Callable[[Callable[[], None]], None]  # is given "handle it", and calls that when the leader gets to it


class Guard:
    """Stands before a queue and does the bookkeeping that an ordinary queue does not need."""

    def __init__(self, queue: ClassicQueue, gate: Gate | None = None) -> None:
        self.queue = queue
        self.gate = gate
        self.replicas: list[Replica] = []
        self.pending: dict[Sender, list[Delivery]] = {}  # the monitored senders

    @property
    def price(self) -> int:
        """Credits that one message costs its sender."""
        return 1 + len(self.replicas)

    def receive(self, delivery: Delivery) -> None:
        delivery.waits_for = {self, *self.replicas}
        self.pending.setdefault(delivery.sender, []).append(delivery)
        if self.gate is None:
            self._handle(delivery)
        else:
            self.gate(lambda: self._handle(delivery))

    def _handle(self, delivery: Delivery) -> None:
        queue = self.queue
        if not queue.alive:
            return  # queue_died() has settled accounts
        sender = delivery.sender
        if self._awaits(delivery):
            sender.credited(queue, len(delivery.messages))
            sender.mandatory_received(delivery, queue)
        placements = queue.place(delivery.messages, delivery.size, delivery.timed)
        if queue.stored and (queue.keeps_all or delivery.messages[0][2].persistent):
            delivery.receipt = queue.surroundings.log.append(delivery.messages, placements, queue.synced)
        delivery.places = _places(placements, delivery.messages, len(queue.lanes) - 1)
        self._got(delivery, self)
        for replica in list(self.replicas):
            replica.receive(Envelope(delivery, True), partial(self._replicated, delivery, replica))

    def _replicated(self, delivery: Delivery, replica: Replica) -> None:
        if replica in delivery.waits_for:  # not one that came later, or said so before
            if self._awaits(delivery):
                delivery.sender.credited(self.queue, len(delivery.messages))
            self._got(delivery, replica)

    def _got(self, delivery: Delivery, who: object) -> None:
        delivery.waits_for.discard(who)
        if not delivery.waits_for and self._awaits(delivery):
            deliveries = self.pending[delivery.sender]
            deliveries.remove(delivery)
            if not deliveries:
                del self.pending[delivery.sender]
            delivery.sender.stored(delivery, self.queue)

    def _awaits(self, delivery: Delivery) -> bool:
        return delivery in self.pending.get(delivery.sender, ())

    def remove_replica(self, replica: Replica) -> None:
        """It is gone: nothing waits for it any more."""
        self.replicas.remove(replica)
        for delivery in [delivery for deliveries in self.pending.values() for delivery in deliveries]:
            self._replicated(delivery, replica)

    def sender_died(self, sender: Sender) -> None:
        """Forget the sender; what it published still arrives."""
        self.pending.pop(sender, None)

    def queue_died(self) -> None:
        pending, self.pending = self.pending, {}
        for sender, deliveries in pending.items():
            for delivery in deliveries:
                sender.queue_died(delivery, self.queue)


def _places(placements: list[Placement], messages: list[Message], highest: int) -> list[Place]:
    """The place of each message: those of one lane follow each other in the order of the run."""
    sequences = {placement.lane: count(placement.sequence) for placement in placements}
    lanes = [min(message[2].priority, highest) for message in messages]
    return [(lane, next(sequences[lane])) for lane in lanes]


class Mirror:
    """A replica that keeps its copies in memory and can take over."""

    def __init__(self) -> None:
        self.copies: dict[Place, Message] = {}
        self.leads: ClassicQueue | None = None
        self._seen: dict[int, int] = {}  # by lane, the last sequence that came

    def receive(self, envelope: Envelope, handled: Callable[[], None]) -> None:
        delivery = envelope.delivery
        if self.leads is None:
            for place, message in zip(delivery.places, delivery.messages, strict=True):
                self.copies[place] = message
                self._seen[place[0]] = place[1]
        elif not self._has(envelope):
            self.leads.publish(delivery.messages, delivery.size, delivery.timed)
        handled()

    def _has(self, envelope: Envelope) -> bool:
        """A delivery is sent on whole, so its first message tells of all."""
        if not envelope.replica_when_published or not envelope.delivery.places:
            return False  # the leader died without handling it, or there was another leader
        lane, sequence = envelope.delivery.places[0]
        return sequence <= self._seen.get(lane, 0)

    def settled(self, lane: int, sequence: int, number: int) -> None:
        """The old leader was done with these."""
        for place in range(sequence, sequence + number):
            self.copies.pop((lane, place), None)

    def promote(self, queue: ClassicQueue) -> None:
        """Become the leader: everything copied and not settled is enqueued in the old order."""
        self.leads = queue
        run = [self.copies[place] for place in sorted(self.copies)]
        self.copies.clear()
        timed = any(message[2].deadline != NEVER for message in run)
        queue.publish(run, sum(len(message[0]) for message in run), timed)
