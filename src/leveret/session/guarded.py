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
from leveret.queues.choosy import offer
from leveret.queues.classic import ClassicQueue
from leveret.queues.guard import Delivery
from leveret.session.routes import Route
from leveret.store.log import GRANTED

if TYPE_CHECKING:
    from leveret.session.channel import Channel

LOG = "log"


class PendingPublish:
    __slots__ = ("first", "last", "mandatory", "messages", "nacked", "unreceived", "unstored")

    def __init__(self, messages: list[Message], mandatory: bool, first: int, last: int) -> None:
        self.messages = messages
        self.mandatory = mandatory
        self.first = first  # confirm numbers; 0 without confirms
        self.last = last
        self.unreceived: set[ClassicQueue] = set()
        self.unstored: set[object] = set()  # queues, and LOG while the log has not granted its receipt
        self.nacked = False


class GuardedSender:
    """The books of one channel with its guarded queues."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        connection = channel.connection
        reason = f"credit of channel {channel.number}"
        self.ledger = CreditLedger(lambda: connection.pause(reason), lambda: connection.resume(reason))
        self._pending: dict[Delivery, PendingPublish] = {}
        self._unlogged: list[tuple[int, PendingPublish, object]] = []  # (receipt, publish, whose)

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
        self.settle(self._pending.pop(delivery), queue, delivery.receipt)

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
        self.settle(pending, queue, GRANTED)

    def settle(self, pending: PendingPublish, whose: object, receipt: int) -> None:
        """This queue (or the log) has it, once the receipt is granted."""
        broker = self._channel.connection.broker
        if (
            receipt > broker.last_granted and not broker.is_lost
        ):  # it may have been granted while a replica was still waited for
            self._unlogged.append((receipt, pending, whose))
            broker.awaiting[self._channel] = None
            return
        pending.unstored.discard(whose)
        if not pending.unstored and pending.first:
            self._channel.resolve_publishes(pending.first, pending.last, ack=not pending.nacked)

    def granted(self, receipt: int) -> bool:
        """Whether something is still waiting."""
        granted = [entry for entry in self._unlogged if entry[0] <= receipt]  # queues handle in an order of their own
        self._unlogged = [entry for entry in self._unlogged if entry[0] > receipt]
        for _, pending, whose in granted:
            self.settle(pending, whose, GRANTED)
        return bool(self._unlogged)

    def lost(self) -> None:
        """The log will never grant what it has not granted yet."""
        unlogged, self._unlogged = self._unlogged, []
        for _, pending, whose in unlogged:
            pending.nacked = True
            self.settle(pending, whose, GRANTED)

    def die(self) -> None:
        """The channel is gone: its queues forget it."""
        for queue in {queue for pending in self._pending.values() for queue in pending.unstored}:
            if isinstance(queue, ClassicQueue) and queue.guard is not None:
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
    pending.unstored.add(LOG)
    receipt = GRANTED
    ordinary = [queue for queue in route.queues if queue.guard is None]
    if ordinary:
        pending.mandatory = False
        outcomes = [offer(ordinary, channel.connection.broker.log, message) for message in run]
        receipt = max(outcome.receipt for outcome in outcomes)
        pending.nacked = any(outcome.refused for outcome in outcomes)
    for queue in guarded:
        sender.send(queue, pending, size, timed)
    sender.settle(pending, LOG, receipt)
