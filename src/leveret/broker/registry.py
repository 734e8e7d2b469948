"""Open connections and their limits. The management API reads them here, so that it does not depend on the server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from leveret.errors import NotAllowed

if TYPE_CHECKING:
    from leveret.broker.vhost import Vhost

PER_CONNECTION = 5_000  # bytes of resident memory, measured with 500: 4,740
PER_CHANNEL = 2_800  # measured with 20,000: 2,710


class LiveConnection(Protocol):
    """A connection, as the broker uses it."""

    name: str
    vhost: Vhost  # None until connection.open
    is_link: bool  # the client is another cell

    def unblock(self) -> None:
        """All alarms are cleared: handle the publishes that were held back."""

    def force_close(self, reason: str) -> None:
        """Close with 320."""

    def forget_routes(self) -> None:
        """Discard the cached routes of its channels: they use too much memory."""

    def held_input(self) -> int:
        """Bytes of a partially received frame."""


class Outgoing(Protocol):
    """An object with buffered output."""

    def flush(self) -> None:
        """Write the buffer at the end of the tick."""


class AwaitsReceipt(Protocol):
    """An object that waits for receipts of the log, to send confirms for example."""

    def granted(self, receipt: int) -> bool:
        """Receipts up to this one are granted; returns whether the object still waits for others."""

    def granted_early(self, receipts: set[int]) -> None:
        """Exactly these receipts are granted."""

    def lost(self) -> None:
        """The receipts will never be granted."""


class AwaitsTick(Protocol):
    """A connection that has used up the steps of a tick (routing/bounds.py) and continues in a later one."""

    def resume_in_tick(self) -> None: ...


class Registry:
    def __init__(self) -> None:
        self.connections: dict[LiveConnection, None] = {}
        self.opened = self.closed = 0  # connections, counted once connection.open was received
        self.channels_opened = self.channels_closed = 0
        self._link_channels = 0  # of other cells, which have no user: they are not counted as those of clients
        self.past_received = self.past_sent = 0  # bytes, of closed connections
        self._per_user: Counter[str] = Counter()
        self._per_vhost: Counter[str] = Counter()
        self._channels_per_user: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self.connections)

    def add(self, connection: LiveConnection) -> None:
        self.connections[connection] = None

    def remove(self, connection: LiveConnection) -> None:
        self.connections.pop(connection, None)

    def forget_routes(self) -> None:
        for connection in self.connections:
            connection.forget_routes()

    def memory(self) -> int:
        """Approximate bytes used by connections and channels, including partially received frames."""
        channels = self.channels_opened - self.channels_closed + self._link_channels
        partial = sum([connection.held_input() for connection in self.connections])
        return len(self.connections) * PER_CONNECTION + channels * PER_CHANNEL + partial

    def note_traffic(self, received: int, sent: int) -> None:
        """Add the traffic of a connection that is closed, or served by another cell."""
        self.past_received += received
        self.past_sent += sent

    def enter(self, user: str, user_limit: int | None, vhost: str, vhost_limit: int | None) -> None:
        """A connection opened a vhost; NotAllowed if a connection limit is reached. Links have no user."""
        if not user:
            return
        if user_limit is not None and self._per_user[user] >= user_limit:
            raise NotAllowed(f"access refused for user '{user}': user connection limit ({user_limit}) is reached")
        if vhost_limit is not None and self._per_vhost[vhost] >= vhost_limit:
            raise NotAllowed(
                f"access to vhost '{vhost}' refused for user '{user}': connection limit ({vhost_limit}) is reached"
            )
        self.opened += 1
        self._per_user[user] += 1
        self._per_vhost[vhost] += 1

    def leave(self, user: str, vhost: str) -> None:
        if not user:
            return
        self.closed += 1
        self._per_user[user] -= 1
        self._per_vhost[vhost] -= 1
        self._per_user += Counter()  # drops the zeros, so that names do not accumulate
        self._per_vhost += Counter()

    def open_channel(self, user: str, limit: int | None) -> None:
        if not user:
            self._link_channels += 1
            return
        if limit is not None and self._channels_per_user[user] >= limit:
            raise NotAllowed(f"number of channels opened for user '{user}' has reached the maximum allowed ({limit})")
        self.channels_opened += 1
        self._channels_per_user[user] += 1

    def close_channel(self, user: str) -> None:
        if not user:
            self._link_channels -= 1
            return
        self.channels_closed += 1
        self._channels_per_user[user] -= 1
        if not self._channels_per_user[user]:
            del self._channels_per_user[user]


class GrantCallback:
    """Calls back when a write is durable, or when it has failed for good (AwaitsReceipt)."""

    __slots__ = ("_call", "_lost", "_receipt")

    def __init__(self, receipt: int, call: Callable[[], None], lost: Callable[[], None]) -> None:
        self._receipt = receipt
        self._call = call
        self._lost = lost

    def granted(self, receipt: int) -> bool:
        if receipt < self._receipt:
            return True
        self._call()
        return False

    def granted_early(self, receipts: set[int]) -> None:
        pass  # the grant of all receipts up to a number follows soon

    def lost(self) -> None:
        self._lost()
