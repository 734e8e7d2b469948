"""BEGIN, COMMIT and ABORT: the SEND, ACK and NACK frames of a transaction are kept here and carried out at its commit.

So several transactions may be open at once, and ABORT has nothing to undo in the broker. The consuming channel commits,
since acks belong to it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from leveret.session.direct_channel import DirectChannel
from leveret.stomp.declarations import Declaration
from leveret.stomp.errors import StompError, refuse_long
from leveret.stomp.frame import Frame
from leveret.stomp.sender import Sender
from leveret.stomp.subscriptions import Claim, Subscriptions

MOST_OPEN = 1_000
# Approximate bytes of memory, besides headers and body.
PER_FRAME = 200
PER_TAG = 100


class Transaction:
    __slots__ = ("claims", "queues", "size", "steps")

    def __init__(self) -> None:
        self.steps: list[Callable[[], None]] = []  # calls of the channel
        self.queues: dict[str, Declaration] = {}  # of its messages: they may be deleted before the commit
        self.claims: list[Claim] = []
        self.size = 0


class Transactions:
    """The transactions of one connection. ``hold`` counts bytes that are kept (negative: released) and returns whether
    the limit allows them."""

    __slots__ = ("_channel", "_hold", "_most_bytes", "_open", "_sender", "_size", "_subscriptions")

    def __init__(
        self,
        channel: DirectChannel,
        subscriptions: Subscriptions,
        sender: Sender,
        most: int,
        hold: Callable[[int], bool],
    ) -> None:
        self._channel = channel
        self._subscriptions = subscriptions
        self._sender = sender
        self._most_bytes = most
        self._hold = hold
        self._open: dict[str, Transaction] = {}
        self._size = 0

    def begin(self, frame: Frame, receipt: bytes) -> None:
        name = frame.need("transaction")
        refuse_long("BEGIN has a transaction", name)
        if name in self._open:
            raise StompError("Transaction already exists", f"there is already a transaction {name[:256]!r}")
        if len(self._open) >= MOST_OPEN:
            raise StompError("Too many transactions", f"{MOST_OPEN} transactions are open: commit or abort some")
        self._open[name] = Transaction()
        self._channel.send_frames(receipt)

    def _named(self, frame: Frame) -> Transaction | None:
        """The transaction of a frame, if it has one."""
        name = frame.get("transaction")
        if name is None:
            return None
        found = self._open.get(name)
        if found is None:
            raise StompError("Bad transaction", f'Invalid transaction identifier: "{name[:256]}"')
        return found

    def send(self, frame: Frame, receipt: bytes) -> None:
        """SEND, now or with its transaction; its queue must exist then."""
        transaction = self._named(frame)
        if transaction is None:
            self._sender.send(frame)
            return
        message, needed = self._sender.prepare(frame, self._channel), self._sender.needed(frame)
        headers = sum([len(name) + len(value) for name, value in frame.headers.items()])
        self._grow(transaction, PER_FRAME + headers + len(frame.body))
        transaction.steps.append(partial(self._channel.publish, *message))
        if needed is not None:
            transaction.queues.setdefault(needed.name, needed)
        self._channel.send_frames(receipt)

    def _grow(self, transaction: Transaction, size: int) -> None:
        if self._size + size > self._most_bytes:
            raise StompError("Transaction too large", f"open transactions hold more than {self._most_bytes} bytes")
        self._size += size
        transaction.size += size
        if not self._hold(size):
            text = "open transactions of this user use all the memory that they may use: commit or abort some"
            raise StompError("Transaction too large", text)

    def commit(self, frame: Frame, receipt: bytes) -> None:
        transaction = self._end(frame)
        for queue in transaction.queues.values():
            self._sender.known.renew(self._channel, queue)
        self._channel.begin()
        for step in transaction.steps:
            step()
        self._channel.commit(receipt)

    def abort(self, frame: Frame, receipt: bytes) -> None:
        self._subscriptions.restore(self._end(frame).claims)
        self._channel.send_frames(receipt)

    def _end(self, frame: Frame) -> Transaction:
        frame.need("transaction")
        transaction = self._named(frame)
        assert transaction is not None
        del self._open[frame.headers["transaction"]]
        self._size -= transaction.size
        self._hold(-transaction.size)
        return transaction

    def settle(self, frame: Frame, receipt: bytes) -> None:
        """ACK or NACK, now or with its transaction."""
        transaction = self._named(frame)
        subscription, tags = self._subscriptions.claim(frame)
        is_requeued = frame.flag("requeue", default=True)
        step = partial(self._channel.settle, tags, is_ack=frame.command == "ACK", is_requeued=is_requeued)
        if transaction is None:
            step()
        else:
            self._grow(transaction, PER_FRAME + PER_TAG * len(tags))
            transaction.claims.append((subscription, tags))
            transaction.steps.append(step)
        self._channel.send_frames(receipt)
