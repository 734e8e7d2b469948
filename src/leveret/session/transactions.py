"""tx.* and confirm.select: a channel is in one of the two modes, or in none.

A transaction keeps publishes (routed on arrival) and settlements until the commit. Settled tags stay outstanding until
then, so a rollback leaves the channel as if nothing had been acked. The expiration of a message counts from the commit:
a message does not expire before it is in a queue.

A commit is all or nothing: if a queue that can reject has no room for its part, nothing is committed. A queue that
answers later (delivery/receipts.py) can still refuse its part, or be lost. So commit-ok waits for its receipts, and
settlements are done only then; if one is refused, the channel is closed with 406, as in RabbitMQ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from leveret.broker.routes import PublishRoute
from leveret.delivery.confirms import Confirms
from leveret.delivery.receipts import PendingPublish
from leveret.delivery.unacked import Portion, Unacked, unknown_tag
from leveret.errors import AmqpError, PreconditionFailed
from leveret.message import Message
from leveret.queues.limits import without_room
from leveret.session.publishes import publish
from leveret.wire.grammar import ChannelStep
from leveret.wire.methods import (
    ConfirmSelect,
    ConfirmSelectOk,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)

if TYPE_CHECKING:
    from leveret.session.channel import Channel
    from leveret.session.connection import Connection


MOST_BYTES = 1 << 30  # a transaction is written as one group of the log
# Bytes of resident memory besides the contents, measured with 100,000 and more of each.
PER_RUN = 215  # measured: 175, without the time of arrival (40)
PER_MESSAGE = 120  # measured: 114
PER_SETTLEMENT = 140  # measured: 139
PER_TAG = 100  # of a settlement; measured: 98


class HeldPublish(NamedTuple):
    """A run of publishes that waits for the commit. ``arrived``: its time of arrival, if ``timed``."""

    route: PublishRoute
    run: list[Message]
    size: int
    timed: bool
    arrived: float

    def at_commit(self, route: PublishRoute, now: float) -> HeldPublish:
        """The run with the current route, and with expirations that count from the commit."""
        if not self.timed or self.route.scheduled:
            return self._replace(route=route)
        waited = now - self.arrived
        run = [(content, address, traits.postponed(waited)) for content, address, traits in self.run]
        return self._replace(route=route, run=run)


class PendingCommit:
    """A commit with publishes to queues that answer later: their publisher (delivery.receipts.Publisher).

    Commits of a channel are answered in their order: one that follows another waits for it as for a receipt.
    """

    __slots__ = ("_channel", "_done", "_follower", "_is_rejected", "_issued", "_unresolved")

    def __init__(self, channel: Channel, done: Transaction, issued: int) -> None:
        self._channel = channel
        self._done = done
        self._issued = issued  # the log's receipts before the commit
        self._is_rejected = False
        self._unresolved = 1  # publishes; one of them stands for ``seal``
        self._follower: PendingCommit | None = None

    @property
    def settled(self) -> set[int]:
        return self._done.settled

    def publish(self, run: list[Message], mandatory: bool) -> PendingPublish:
        self._unresolved += 1
        return PendingPublish(self, run, mandatory=mandatory)

    def follow(self, earlier: PendingCommit) -> None:
        self._unresolved += 1
        earlier._follower = self

    def spend(self, credits: int) -> None:
        self._channel.flow_control().spend(credits)

    def refund(self, credits: int) -> None:
        self._channel.flow_control().refund(credits)

    def resolved(self, publish: PendingPublish) -> None:
        self._channel.flow_control().resolved(publish)  # returns a mandatory message that no queue received
        is_returned = publish.mandatory and not publish.is_received
        self._is_rejected = self._is_rejected or (publish.is_rejected and not is_returned)
        self._resolve()

    def seal(self) -> None:
        """Everything is published."""
        self._resolve()

    def _resolve(self) -> None:
        self._unresolved -= 1
        if self._unresolved:
            return
        channel = self._channel
        if channel.committing is self:
            channel.committing = None
        if channel.step is ChannelStep.OPEN:
            self._answer(channel)
        if self._follower is not None:
            self._follower._resolve()

    def _answer(self, channel: Channel) -> None:
        connection = channel.connection
        try:
            if self._is_rejected:
                raise PreconditionFailed(
                    "partial tx completion: a queue refused its part of the transaction, or was lost; nothing was "
                    "acknowledged"
                )
            self._done.settle_all(channel.unacked)
            broker = connection.broker
            is_safe = broker.log.issued <= broker.last_granted
            channel.answer(TxCommitOk(), broker.log.issued if is_safe else self._issued)
        except AmqpError as error:
            channel.fail(error, TxCommit.id)
        connection.broker.wake()


class Transaction:
    __slots__ = ("_connection", "_memory", "publishes", "settled", "settlements", "size")

    def __init__(self, connection: Connection) -> None:
        self.size = 0  # bytes of content
        self._memory = 0  # bytes in use, about
        self._connection = connection
        self.publishes: list[HeldPublish] = []
        self.settlements: list[tuple[list[int], Callable[[list[Portion]], None]]] = []
        self.settled: set[int] = set()  # tags that are outstanding only for a rollback

    def publish(self, route: PublishRoute, run: list[Message], size: int, timed: bool, arrived: float) -> None:
        self.size += size
        if self.size > MOST_BYTES:
            raise PreconditionFailed(f"transaction of {self.size} bytes is larger than {MOST_BYTES}: commit more often")
        self._hold(size + PER_RUN + len(run) * PER_MESSAGE)
        self.publishes.append(HeldPublish(route, run, size, timed, arrived))

    def settle(self, unacked: Unacked, tag: int, multiple: bool, action: Callable[[list[Portion]], None]) -> None:
        """Settle these tags at the commit; unknown tags are refused now."""
        if tag == 0 and multiple:
            wanted = unacked.tags(unacked.next_tag)
        elif tag in unacked.timed_out:
            wanted = unacked.tags(tag) if multiple else []
        elif not unacked.holds(tag) or tag in self.settled:
            raise unknown_tag(tag)
        else:
            wanted = unacked.tags(tag) if multiple else [tag]
        tags = [each for each in wanted if each not in self.settled]
        self._hold(PER_SETTLEMENT + len(tags) * PER_TAG)
        self.settled.update(tags)
        self.settlements.append((tags, action))

    def settle_all(self, unacked: Unacked) -> None:
        """At the commit."""
        for tags, action in self.settlements:
            action(unacked.take_each(tags))

    def _hold(self, size: int) -> None:
        self._memory += size
        connection, user = self._connection, self._connection.user.name
        if not connection.broker.memory_users.transactions.hold(user, size, connection.least_held):
            raise PreconditionFailed(
                f"open transactions of user '{user}' use all the memory they may (a share of the memory high "
                "watermark): commit or roll back more often, or raise memory_high_watermark"
            )

    def end(self) -> None:
        """Release the memory of a transaction that was committed, rolled back or abandoned."""
        connection = self._connection
        connection.broker.memory_users.transactions.hold(connection.user.name, -self._memory)
        self._memory = 0


def _select_tx(channel: Channel, method: TxSelect) -> None:
    if channel.confirms is not None:
        raise PreconditionFailed("cannot switch from confirm to tx mode")
    if channel.tx is None:
        channel.tx = Transaction(channel.connection)
    channel.send(TxSelectOk())


def _commit(channel: Channel, method: TxCommit) -> None:
    done = _current(channel)
    now = channel.now()
    publishes = [held.at_commit(channel.routes.current(held.route), now) for held in done.publishes]
    full = without_room([(held.route.queues, held.run) for held in publishes if held.route.can_reject])
    if full is not None:
        raise PreconditionFailed(
            f"queue '{full.name}' in vhost '{channel.vhost.name}' has no room for its part of the transaction: "
            "nothing was committed"
        )
    channel.tx = None  # so that the publishes below are published now
    done.end()
    log = channel.connection.broker.log
    issued = log.issued
    pending, earlier = None, channel.committing
    if earlier is not None or any(held.route.answers_later for held in publishes):
        pending = channel.committing = PendingCommit(channel, done, issued)
        if earlier is not None:
            pending.follow(earlier)
    with log.group():
        for held in publishes:
            publish(channel, held.route, held.run, held.size, held.timed)
        if pending is None:
            done.settle_all(channel.unacked)
    _begin(channel)
    if pending is None:
        channel.answer(TxCommitOk(), issued)
    else:
        pending.seal()


def _rollback(channel: Channel, method: TxRollback) -> None:
    _current(channel).end()
    _begin(channel)
    channel.send(TxRollbackOk())


def _begin(channel: Channel) -> None:
    channel.tx = Transaction(channel.connection)
    if channel.committing is not None:
        channel.tx.settled.update(channel.committing.settled)  # these tags are outstanding until that commit is done


def _current(channel: Channel) -> Transaction:
    if channel.tx is None:
        raise PreconditionFailed("channel is not transactional")
    return channel.tx


def _select_confirms(channel: Channel, method: ConfirmSelect) -> None:
    if channel.tx is not None:
        raise PreconditionFailed("cannot switch from tx to confirm mode")
    if channel.confirms is None:
        channel.confirms = Confirms()
    if not method.nowait:
        channel.send(ConfirmSelectOk())


HANDLERS: dict[tuple[int, int], Callable[..., None]] = {
    TxSelect.id: _select_tx,
    TxCommit.id: _commit,
    TxRollback.id: _rollback,
    ConfirmSelect.id: _select_confirms,
}
