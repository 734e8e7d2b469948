"""What a connection has to say: gathered during a turn, written once at its end.  Hot path."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from leveret.broker.broker import Broker

if TYPE_CHECKING:
    from leveret.session.connection import Peer

FEW_UNREAD = 256 << 10  # bytes that a peer may leave unread while all peers together leave too much
LARGE = 8 << 10  # bytes of a piece, on average, above which copying pieces together costs more than writing each


class Outbox:
    """``pieces`` and ``size`` are open to the delivery loop, which appends to them without a call per message."""

    __slots__ = (
        "_broker",
        "_feed",
        "_flushing",
        "_high_watermark",
        "_peer",
        "pieces",
        "size",
        "spoke",
        "starved",
        "unread",
        "unread_output",
        "writable",
    )

    def __init__(self, broker: Broker, peer: Peer, high_watermark: int, feed: Callable[[], None]) -> None:
        self._broker = broker
        self._peer = peer
        self._high_watermark = high_watermark
        self._feed = feed  # gives consumers that were passed over their turn
        self._flushing = False
        self.pieces: list[bytes] = []
        self.size = 0
        self.writable = True
        self.unread = 0  # bytes that the socket did not take, as counted last
        self.unread_output = broker.memory_users.unread
        self.starved = False  # a consumer was passed over because we cannot write
        self.spoke = True  # since the last heartbeat check

    def has_room(self) -> bool:
        """Whether deliveries may be added. If not, consumers get their turn once we could write."""
        is_high = self.unread_output.is_high  # of all connections: each has to read before it is given more
        if self.writable and self.size <= self._high_watermark and not (is_high and self._has_unread()):
            return True
        self.starved = True
        return False

    def _has_unread(self) -> bool:
        return self.size + self._peer.unsent() > FEW_UNREAD

    def send(self, data: bytes) -> None:
        self.pieces.append(data)
        self.added(len(data))

    def added(self, size: int) -> None:
        """Pieces were appended: have them written in this turn."""
        self.size += size
        if not self._flushing:
            self._flushing = True
            self._broker.outgoing.append(self)

    def flush(self) -> None:
        self._flushing = False
        pieces = self.pieces
        if pieces:
            self.spoke = True
            if self.size <= LARGE or self.size <= LARGE * len(pieces):
                self._peer.write(b"".join(pieces))
            else:
                self._peer.write_pieces(pieces)
            pieces.clear()
            if self._peer.unsent() != self.unread:
                self.count_unread()
        self.size = 0
        if self.starved and self.writable:
            self.starved = False
            self._feed()

    def count_unread(self) -> None:
        unread = self._peer.unsent()
        self.unread_output.add(unread - self.unread)
        self.unread = unread

    def look_again(self) -> None:
        """Some time has passed: the peer may have read, which the socket reports only above its high mark."""
        if self.unread:
            self.count_unread()
        if self.starved and self.writable and self.unread <= FEW_UNREAD:
            self.starved = False
            self._feed()
            self._broker.wake()

    def set_writable(self, writable: bool) -> None:
        self.writable = writable
        if writable:
            self.starved = False
            self._feed()
            self._broker.wake()

    def close(self) -> None:
        """Nothing can be written any more."""
        self.writable = False
        self.pieces.clear()
        self.unread_output.add(-self.unread)
        self.unread = 0
