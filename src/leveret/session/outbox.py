"""Output of a connection: gathered during a tick, written once at its end.  Hot path."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from leveret.broker.broker import Broker

if TYPE_CHECKING:
    from leveret.session.connection import Peer

MOST_UNREAD = 16 << 20  # bytes of replies that a client may leave unread before its requests wait
MOST_GATHERED = 1 << 20  # bytes of replies that wait for the end of the tick: they count as memory once written
FEW_UNREAD = 256 << 10  # bytes that a client may leave unread while all clients together leave too much
LARGE = 8 << 10  # average bytes of a piece, above which joining pieces costs more than writing each


class Outbox:
    """The delivery loop appends to ``pieces`` directly, to avoid a call per message."""

    __slots__ = (
        "_broker",
        "_flushing",
        "_high_watermark",
        "_on_writable",
        "_peer",
        "has_sent",
        "is_flow_controlled",
        "pieces",
        "size",
        "unread",
        "unread_output",
        "writable",
    )

    def __init__(self, broker: Broker, peer: Peer, high_watermark: int, on_writable: Callable[[], None]) -> None:
        self._broker = broker
        self._peer = peer
        self._high_watermark = high_watermark
        self._on_writable = on_writable
        self._flushing = False
        self.pieces: list[bytes] = []
        self.size = 0
        self.writable = True
        self.unread = 0  # bytes that the socket had not accepted at the last count
        self.unread_output = broker.memory_users.unread
        self.is_flow_controlled = False  # deliveries or requests wait until the client has read
        self.has_sent = True  # since the last heartbeat check

    def has_room(self) -> bool:
        """Whether deliveries may be added. If not, ``on_writable`` is called when they may."""
        is_high = self.unread_output.is_high  # unread output of all connections together
        if self.writable and self.size <= self._high_watermark and not (is_high and self._has_unread()):
            return True
        self.is_flow_controlled = True
        return False

    def _has_unread(self) -> bool:
        return self.size + self._peer.unsent() > FEW_UNREAD

    def send(self, data: bytes) -> None:
        self.pieces.append(data)
        self.added(len(data))

    def added(self, size: int) -> None:
        """Pieces were appended: write them at the end of this tick."""
        self.size += size
        if not self._flushing:
            self._flushing = True
            self._broker.outgoing.append(self)

    def flush(self) -> None:
        self._flushing = False
        pieces = self.pieces
        if pieces:
            self.has_sent = True
            if self.size <= LARGE or self.size <= LARGE * len(pieces):
                self._peer.write(b"".join(pieces))
            else:
                self._peer.write_pieces(pieces)
            pieces.clear()
            unread = self._peer.unsent()
            if unread != self.unread:  # count_unread() without the call
                self.unread_output.add(unread - self.unread)
                self.unread = unread
        self.size = 0
        if self.is_flow_controlled and self.writable:
            self.is_flow_controlled = False
            self._on_writable()

    def count_unread(self) -> None:
        unread = self._peer.unsent()
        self.unread_output.add(unread - self.unread)
        self.unread = unread

    def look_again(self) -> None:
        """Called twice a second: the socket reports that the client has read only above its high watermark."""
        if self.unread:
            self.count_unread()
        if self.is_flow_controlled and self.writable and self.unread <= FEW_UNREAD:
            self.is_flow_controlled = False
            self._on_writable()
            self._broker.wake()

    def set_writable(self, writable: bool) -> None:
        self.writable = writable
        if writable:
            self.is_flow_controlled = False
            self._on_writable()
            self._broker.wake()

    def forget(self) -> None:
        """Do not write what was gathered."""
        self.pieces.clear()
        self.size = 0

    def close(self) -> None:
        """Nothing can be written any more."""
        self.writable = False
        self.pieces.clear()
        self.unread_output.add(-self.unread)
        self.unread = 0
