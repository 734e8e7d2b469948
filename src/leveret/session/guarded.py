"""Publishing to queues that do not take messages at once: credit, mandatory and confirms by their later word.

The channel is the sender that ``queues/guard.py`` speaks of. A *pending publish* covers one run to all queues of its
route; it is mandatory until the first guarded queue has received it (or an ordinary one has taken it), and unconfirmed
until all guarded queues have stored it. Confirm numbers are given out at once, as always; a pending publish holds one
private receipt, granted when it is resolved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.delivery.credit import CreditLedger
from leveret.message import Message
from leveret.queues.classic import ClassicQueue
from leveret.queues.guard import Delivery
from leveret.session.routes import Route

if TYPE_CHECKING:
    from leveret.session.channel import Channel


class PendingPublish:
    __slots__ = ("first", "last", "mandatory", "messages", "nacked", "unreceived", "unstored")

    def __init__(self, messages: list[Message], mandatory: bool, first: int, last: int) -> None:
        self.messages = messages
        self.mandatory = mandatory
        self.first = first  # confirm numbers; 0 without confirms
        self.last = last
        self.unreceived: set[ClassicQueue] = set()
        self.unstored: set[ClassicQueue] = set()
        self.nacked = False


class GuardedSender:
    """The books of one channel with its guarded queues."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        connection = channel.connection
        reason = f"credit of channel {channel.number}"
        self.ledger = CreditLedger(lambda: connection.pause(reason), lambda: connection.resume(reason))
        self._pending: dict[Delivery, PendingPublish] = {}

    def send(self, queue: ClassicQueue, pending: PendingPublish, size: int, timed: bool) -> None:
        guard = queue.guard
        assert guard is not None
        delivery = Delivery(self, pending.messages, size, timed)
        self._pending[delivery] = pending
        self.ledger.spend(queue, guard.price * len(pending.messages))
        guard.receive(delivery)

    # ---- the queue's word (queues.guard.Sender)

    def credited(self, queue: ClassicQueue, credits: int) -> None:
        self.ledger.grant(queue, credits)

    def mandatory_received(self, delivery: Delivery, queue: ClassicQueue) -> None:
        pending = self._pending[delivery]
        pending.mandatory = False  # one queue has it: nothing to give back any more
        pending.unreceived.discard(queue)

    def stored(self, delivery: Delivery, queue: ClassicQueue) -> None:
        self._settle(self._pending.pop(delivery), queue)

    def queue_died(self, delivery: Delivery, queue: ClassicQueue) -> None:
        """Release its credit, return what nobody received, resolve what it owed a confirm for."""
        self.ledger.forget(queue)
        pending = self._pending.pop(delivery)
        if queue in pending.unreceived:
            pending.unreceived.discard(queue)
            pending.nacked = True  # it was owed there and never arrived
        if pending.mandatory and not pending.unreceived:
            pending.mandatory = False
            pending.nacked = False  # returned to the publisher: nothing is owed any more
            self._channel.give_back(pending.messages)
        self._settle(pending, queue)

    def _settle(self, pending: PendingPublish, queue: ClassicQueue) -> None:
        pending.unstored.discard(queue)
        if not pending.unstored and pending.first:
            self._channel.resolve_publishes(pending.first, pending.last, ack=not pending.nacked)

    def die(self) -> None:
        """The channel is gone: its queues forget it."""
        for queue in {queue for pending in self._pending.values() for queue in pending.unstored}:
            if queue.guard is not None:
                queue.guard.sender_died(self)
            self.ledger.forget(queue)
        self._pending.clear()


def publish_guarded(channel: Channel, route: Route, run: list[Message], size: int, timed: bool) -> None:
    number = len(run)
    sender = channel.guarded_sender()
    first = last = 0
    if channel.confirms is not None:
        first, last = channel.confirms.reserve(number)
    pending = PendingPublish(run, route.mandatory, first, last)
    guarded = [queue for queue in route.queues if isinstance(queue, ClassicQueue) and queue.guard is not None]
    pending.unreceived.update(guarded)
    pending.unstored.update(guarded)
    for queue in route.queues:
        if queue.guard is None:
            queue.publish(run, size, timed)
            pending.mandatory = False
    for queue in guarded:
        sender.send(queue, pending, size, timed)
