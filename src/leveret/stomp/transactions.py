"""BEGIN, COMMIT and ABORT: the frames of a transaction are kept here and sent as one AMQP transaction at its commit.

So several transactions may be open at once, and ABORT has nothing to undo in the broker. The consuming channel commits,
since acks belong to it. Once it is transactional it remains so: an ack outside of any transaction is then committed on
its own.
"""

from __future__ import annotations

from collections.abc import Callable

from leveret.stomp.amqp_client import CONSUMING, AmqpClient
from leveret.stomp.errors import StompError, refuse_long
from leveret.stomp.frame import Frame
from leveret.stomp.known_queues import KnownQueues
from leveret.stomp.subscriptions import Claim, Subscriptions
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
        self.queues: dict[str, QueueDeclare] = {}  # of its messages: they may be deleted before the commit
        self.claims: list[Claim] = []
        self.size = 0


class Transactions:
    """The transactions of one connection. ``hold`` counts bytes that are kept (negative: released) and returns whether
    the limit allows them."""

    __slots__ = ("_amqp", "_hold", "_is_selected", "_known", "_most_bytes", "_open", "_size", "_subscriptions")

    def __init__(
        self,
        amqp: AmqpClient,
        known: KnownQueues,
        subscriptions: Subscriptions,
        most_bytes: int,
        hold: Callable[[int], bool],
    ) -> None:
        self._amqp = amqp
        self._known = known
        self._subscriptions = subscriptions
        self._most_bytes = most_bytes
        self._hold = hold
        self._open: dict[str, Transaction] = {}
        self._size = 0
        self._is_selected = False

    def begin(self, frame: Frame) -> None:
        name = frame.need("transaction")
        refuse_long("BEGIN has a transaction", name)
        if name in self._open:
            raise StompError("Transaction already exists", f"there is already a transaction {name[:256]!r}")
        if len(self._open) >= MOST_OPEN:
            raise StompError("Too many transactions", f"{MOST_OPEN} transactions are open: commit or abort some")
        self._open[name] = Transaction()

    def named(self, frame: Frame) -> Transaction | None:
        """The transaction of a frame, if it has one."""
        name = frame.get("transaction")
        if name is None:
            return None
        found = self._open.get(name)
        if found is None:
            raise StompError("Bad transaction", f'Invalid transaction identifier: "{name[:256]}"')
        return found

    def add(self, transaction: Transaction, data: bytes) -> None:
        self._grow(transaction, len(data))
        transaction.parts.append(data)

    def need(self, transaction: Transaction, queue: QueueDeclare) -> None:
        """The queue must exist at the commit."""
        if queue.queue not in transaction.queues:
            self._grow(transaction, len(method_frame(CONSUMING, queue)))
            transaction.queues[queue.queue] = queue

    def _grow(self, transaction: Transaction, size: int) -> None:
        if self._size + size > self._most_bytes:
            raise StompError("Transaction too large", f"open transactions hold more than {self._most_bytes} bytes")
        self._size += size
        transaction.size += size
        if not self._hold(size):
            text = "open transactions of this user use all the memory that they may use: commit or abort some"
            raise StompError("Transaction too large", text)

    def commit(self, frame: Frame, done: Done) -> None:
        transaction = self._end(frame)
        if not self._is_selected:
            self._is_selected = True
            self._amqp.call(CONSUMING, TxSelect(), TxSelectOk)
        for queue in transaction.queues.values():
            self._known.renew(CONSUMING, queue)
        self._amqp.write(b"".join(transaction.parts))
        self._amqp.call(CONSUMING, TxCommit(), TxCommitOk, done)

    def abort(self, frame: Frame) -> None:
        self._subscriptions.restore(self._end(frame).claims)

    def _end(self, frame: Frame) -> Transaction:
        frame.need("transaction")
        transaction = self.named(frame)
        assert transaction is not None
        del self._open[frame.headers["transaction"]]
        self._size -= transaction.size
        self._hold(-transaction.size)
        return transaction

    def forget(self) -> None:
        """The client has disconnected: nothing is committed."""
        self._hold(-self._size)
        self._size = 0
        self._open.clear()

    # ---- acks

    def settle(self, frame: Frame, names_it: str, done: Done) -> bool:
        """ACK or NACK of the message in the header ``names_it``, now or with its transaction. Returns whether ``done``
        will be called later."""
        transaction = self.named(frame)
        subscription, tags = self._subscriptions.claim(frame, names_it)
        requeue = frame.flag("requeue", default=True)
        ack = frame.command == "ACK"
        methods = [BasicAck(tag) if ack else BasicNack(tag, requeue=requeue) for tag in tags]
        data = b"".join([method_frame(CONSUMING, method) for method in methods])
        if transaction is not None:
            transaction.claims.append((subscription, tags))
            self.add(transaction, data)
            return False
        self._amqp.write(data)
        if self._is_selected:
            self._amqp.call(CONSUMING, TxCommit(), TxCommitOk, done)
        elif done is not None:
            self._amqp.call(CONSUMING, ChannelFlow(active=True), ChannelFlowOk, done)  # its reply follows the acks
        else:
            return False
        return True
