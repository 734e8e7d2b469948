"""BEGIN, COMMIT and ABORT: what a transaction holds waits here, and is said as one transaction of AMQP at its commit.

Until then the broker knows nothing of it, so several may be open at once and ABORT has nothing to undo there. The
channel that consumes is the one that commits, since acks belong to it. Once it is transactional it stays so: acks
outside any transaction are then committed by themselves.
"""

from __future__ import annotations

from collections.abc import Callable

from leveret.stomp.amqp_side import CONSUMING, AmqpSide
from leveret.stomp.frame import Frame
from leveret.stomp.known_queues import KnownQueues
from leveret.stomp.refusals import StompRefusal, refuse_long
from leveret.stomp.subscribing import Claim, Subscribing
from leveret.wire.frames import method_frame
from leveret.wire.methods import (
    BasicAck,
    BasicNack,
    ChannelFlow,
    ChannelFlowOk,
    QueueDeclare,
    TxCommit,
    TxCommitOk,
    TxSelect,
    TxSelectOk,
)

MOST_OPEN = 1_000
Done = Callable[[], None] | None


class Transaction:
    __slots__ = ("claims", "parts", "queues", "size")

    def __init__(self) -> None:
        self.parts: list[bytes] = []  # frames of AMQP
        self.queues: dict[str, QueueDeclare] = {}  # that its messages go to: somebody may delete them meanwhile
        self.claims: list[Claim] = []
        self.size = 0


class Transactions:
    """Those of one connection. ``hold`` is told how many bytes come to be held, or below 0 go, and
    answers whether that is not too much."""

    __slots__ = ("_amqp", "_hold", "_is_selected", "_known", "_most_bytes", "_open", "_size", "_subscribing")

    def __init__(
        self,
        amqp: AmqpSide,
        known: KnownQueues,
        subscribing: Subscribing,
        most_bytes: int,
        hold: Callable[[int], bool],
    ) -> None:
        self._amqp = amqp
        self._known = known
        self._subscribing = subscribing
        self._most_bytes = most_bytes
        self._hold = hold
        self._open: dict[str, Transaction] = {}
        self._size = 0
        self._is_selected = False

    def begin(self, frame: Frame) -> None:
        name = frame.need("transaction")
        refuse_long("BEGIN has a transaction", name)
        if name in self._open:
            raise StompRefusal("Transaction already exists", f"there is a transaction {name[:256]!r} already")
        if len(self._open) >= MOST_OPEN:
            raise StompRefusal("Too many transactions", f"{MOST_OPEN} transactions are open: commit or abort some")
        self._open[name] = Transaction()

    def named(self, frame: Frame) -> Transaction | None:
        """The one that a frame belongs to, if it belongs to any."""
        name = frame.get("transaction")
        if name is None:
            return None
        found = self._open.get(name)
        if found is None:
            raise StompRefusal("Bad transaction", f'Invalid transaction identifier: "{name[:256]}"')
        return found

    def add(self, transaction: Transaction, data: bytes) -> None:
        self._grow(transaction, len(data))
        transaction.parts.append(data)

    def need(self, transaction: Transaction, queue: QueueDeclare) -> None:
        """It must be there at the commit."""
        if queue.queue not in transaction.queues:
            self._grow(transaction, len(method_frame(CONSUMING, queue)))
            transaction.queues[queue.queue] = queue

    def _grow(self, transaction: Transaction, size: int) -> None:
        if self._size + size > self._most_bytes:
            raise StompRefusal("Transaction too large", f"open transactions hold more than {self._most_bytes} bytes")
        self._size += size
        transaction.size += size
        if not self._hold(size):
            text = "open transactions of this user use all the memory they may: commit or abort some"
            raise StompRefusal("Transaction too large", text)

    def commit(self, frame: Frame, done: Done) -> None:
        transaction = self._end(frame)
        if not self._is_selected:
            self._is_selected = True
            self._amqp.ask(CONSUMING, TxSelect(), TxSelectOk)
        for queue in transaction.queues.values():
            self._known.renew(CONSUMING, queue)
        self._amqp.say(b"".join(transaction.parts))
        self._amqp.ask(CONSUMING, TxCommit(), TxCommitOk, done)

    def abort(self, frame: Frame) -> None:
        self._subscribing.give_back(self._end(frame).claims)

    def _end(self, frame: Frame) -> Transaction:
        frame.need("transaction")
        transaction = self.named(frame)
        assert transaction is not None
        del self._open[frame.headers["transaction"]]
        self._size -= transaction.size
        self._hold(-transaction.size)
        return transaction

    def forget(self) -> None:
        """The peer is gone: nothing is committed."""
        self._hold(-self._size)
        self._size = 0
        self._open.clear()

    # ---- acks

    def settle(self, frame: Frame, names_it: str, done: Done) -> bool:
        """ACK or NACK of the message that the header ``names_it`` names, now or with its transaction; whether ``done``
        will be called later."""
        transaction = self.named(frame)
        subscription, tags = self._subscribing.claim(frame, names_it)
        requeue = frame.flag("requeue", default=True)
        ack = frame.command == "ACK"
        methods = [BasicAck(tag) if ack else BasicNack(tag, requeue=requeue) for tag in tags]
        data = b"".join([method_frame(CONSUMING, method) for method in methods])
        if transaction is not None:
            transaction.claims.append((subscription, tags))
            self.add(transaction, data)
            return False
        self._amqp.say(data)
        if self._is_selected:
            self._amqp.ask(CONSUMING, TxCommit(), TxCommitOk, done)
        elif done is not None:
            self._amqp.ask(CONSUMING, ChannelFlow(active=True), ChannelFlowOk, done)  # answered behind the acks
        else:
            return False
        return True
