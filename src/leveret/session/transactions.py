"""tx.* and confirm.select: a channel is in one of the two modes, or in none.

A transaction holds publishes (routed when they came) and settlements until the commit. Settled tags stay outstanding
until then, so a rollback leaves the channel as if nothing had been acked.

A commit is all or nothing: if a queue that refuses publishers has no room for its part of it, nothing is done at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from leveret.delivery.confirms import Confirms
from leveret.delivery.unacked import Portion, Unacked
from leveret.errors import PreconditionFailed
from leveret.message import Message
from leveret.queues.choosy import without_room
from leveret.session.publishing import publish
from leveret.session.routes import Route
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


MOST_BYTES = 1 << 30  # it is written as one whole


class Transaction:
    __slots__ = ("_settled", "publishes", "settlements", "size")

    def __init__(self) -> None:
        self.size = 0  # bytes of content
        self.publishes: list[tuple[Route, list[Message], int, bool]] = []
        self.settlements: list[tuple[list[int], Callable[[list[Portion]], None]]] = []
        self._settled: set[int] = set()

    def publish(self, route: Route, run: list[Message], size: int, timed: bool) -> None:
        self.size += size
        if self.size > MOST_BYTES:
            raise PreconditionFailed(f"transaction of {self.size} bytes is larger than {MOST_BYTES}: commit more often")
        self.publishes.append((route, run, size, timed))

    def settle(self, unacked: Unacked, tag: int, multiple: bool, action: Callable[[list[Portion]], None]) -> None:
        """Remember what is to be done with these tags; unknown ones are refused now, not at commit."""
        if tag == 0 and multiple:
            wanted = unacked.tags(unacked.next_tag)
        elif tag in unacked.lapsed:
            wanted = unacked.tags(tag) if multiple else []
        elif not unacked.holds(tag) or tag in self._settled:
            raise PreconditionFailed(f"unknown delivery tag {tag}")
        else:
            wanted = unacked.tags(tag) if multiple else [tag]
        tags = [each for each in wanted if each not in self._settled]
        self._settled.update(tags)
        self.settlements.append((tags, action))


def _select_tx(channel: Channel, method: TxSelect) -> None:
    if channel.confirms is not None:
        raise PreconditionFailed("cannot switch from confirm to tx mode")
    if channel.tx is None:
        channel.tx = Transaction()
    channel.send(TxSelectOk())


def _commit(channel: Channel, method: TxCommit) -> None:
    done = _current(channel)
    publishes = [(channel.routes.current(route), run, size, timed) for route, run, size, timed in done.publishes]
    full = without_room([(route.queues, run) for route, run, _, _ in publishes if route.choosy])
    if full is not None:
        raise PreconditionFailed(
            f"queue '{full.name}' in vhost '{channel.vhost.name}' has no room for its part of the transaction: "
            "nothing was committed"
        )
    channel.tx = None  # what is committed takes effect as if it came now
    log = channel.connection.broker.log
    issued = log.issued
    with log.group():
        for route, run, size, timed in publishes:
            publish(channel, route, run, size, timed)
        for tags, action in done.settlements:
            portions = [channel.unacked.take_one(tag) for tag in tags]
            action([portion for portion in portions if portion is not None])
    channel.tx = Transaction()
    channel.answer(TxCommitOk(), issued)


def _rollback(channel: Channel, method: TxRollback) -> None:
    _current(channel)
    channel.tx = Transaction()
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
