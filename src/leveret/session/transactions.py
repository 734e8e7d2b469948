"""tx.* and confirm.select: a channel is in one of the two modes, or in none.

A transaction keeps publishes (routed on arrival) and settlements until the commit. Settled tags stay outstanding until
then, so a rollback leaves the channel as if nothing had been acked. The expiration of a message counts from the commit:
a message does not expire before it is in a queue.

A commit is all or nothing: if a queue that can reject has no room for its part, nothing is committed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from leveret.broker.routes import PublishRoute
from leveret.delivery.confirms import Confirms
from leveret.delivery.unacked import Portion, Unacked, unknown_tag
from leveret.errors import PreconditionFailed
from leveret.message import Message
from leveret.queues.admission import without_room
from leveret.session.publishes import publish
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
    with log.group():
        for held in publishes:
            publish(channel, held.route, held.run, held.size, held.timed)
        for tags, action in done.settlements:
            action(channel.unacked.take_each(tags))
    channel.tx = Transaction(channel.connection)
    channel.answer(TxCommitOk(), issued)


def _rollback(channel: Channel, method: TxRollback) -> None:
    _current(channel).end()
    channel.tx = Transaction(channel.connection)
    channel.send(TxRollbackOk())


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
